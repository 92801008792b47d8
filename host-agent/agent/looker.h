/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The thread that looks for names in the guest's memory
 *
 * It writes symbols, looks and images to the file.  It looks at the start, when
 * the drain comes upon a CR3 that it has not seen, now and then, and at the
 * end; but never so often that it takes more than a small part of a CPU.
 * Nothing waits for it.
 */

#ifndef BTRAIL_LOOKER_H
#define BTRAIL_LOOKER_H

#include "output.h"
#include "transport.h"

struct btrail_looker;

/**
 * btrail_looker_new - start the thread
 * @memory: where the guest's RAM is; the looker owns it from here on
 * @output: must outlive the looker
 */
struct btrail_looker *btrail_looker_new(struct btrail_transport_memory *memory,
                                        struct btrail_output *output);

/* A vCPU has run with this CR3.  Cheap; to be called by one thread. */
void btrail_looker_saw(struct btrail_looker *l, uint64_t cr3);

/**
 * struct btrail_looker_result - what came of it
 * @release: of the guest's kernel, NULL if none was found
 * @why:     what is wrong if not all is well, or NULL
 * @looks:   how many
 */
struct btrail_looker_result {
    char *release;
    char *why;
    uint64_t looks;
};

/*
 * Look once more and end the thread.  @result is to be cleared with
 * btrail_looker_result_clear().
 */
void btrail_looker_finish(struct btrail_looker *l,
                          struct btrail_looker_result *result);
void btrail_looker_result_clear(struct btrail_looker_result *result);

#endif /* BTRAIL_LOOKER_H */
