/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The trace of a recording: all branches of a replay
 */

#ifndef BTRAIL_TRACER_H
#define BTRAIL_TRACER_H

#include "replay/player.h"

/**
 * struct tracer_result
 * @prints:   of the trace, see fingerprint.h; the caller's
 * @records:  in the trace
 * @icount:   instruction at which the replay ended
 * @diverged: QEMU could not continue at @icount, where the log has something
 *            else than what the guest does
 * @no_names: why the trace has no names, to be freed, or NULL
 * @checkpoints: that were saved in the recording
 * @no_checkpoints: why none were saved although that was wanted, to be freed,
 *            or NULL
 */
struct tracer_result {
    GArray *prints;
    uint64_t records;
    uint64_t icount;
    bool diverged;
    char *no_names;
    unsigned checkpoints;
    char *no_checkpoints;
};

/**
 * tracer_run - replay a recording from its beginning, and trace it
 * @options: trace is set; with checkpoints, they are saved in the recording
 * @until:   an instruction, or UINT64_MAX for its end
 * @path:    of the trace, which is replaced; nothing is left of one that fails
 *
 * The guest waits when the trace is not written fast enough, which it does not
 * see: its time is counted in instructions.
 */
bool tracer_run(const struct player_options *options, uint64_t until,
                const char *path, struct tracer_result *result,
                GError **error);

#endif /* BTRAIL_TRACER_H */
