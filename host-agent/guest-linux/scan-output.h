/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a scanner finds, on its way to those who asked for it
 *
 * Most of it is pieces of sideband.  Those that hold for long are kept, packed,
 * as far as the budget permits, and are sent again to whoever comes later.
 */

#ifndef SCAN_OUTPUT_H
#define SCAN_OUTPUT_H

#include <glib.h>

#include "backtrail/names.h"
#include "backtrail/transport.h"
#include "guest-linux/guest-memory.h"
#include "lib/agent/budget.h"
#include "lib/agent/sideband.h"

/**
 * struct scanner_piece - a piece of sideband
 * @kind:     of sideband
 * @kernel:   number of the kernel that it is of, or 0
 * @nested:   root of the nested page tables of the scanner's guest, or 0 if
 *            that is no nested one
 * @packed:   the piece, packed (see sideband.h), @packed_size bytes
 * @again:    it was found before and is resent
 * @snapshot: if @kind is BTRAIL_SIDEBAND_PROCESSES, what @packed was made of
 * @memory:   with @snapshot, the guest's; valid during the call
 * @levels:   with @snapshot, of the guest's page tables
 */
struct scanner_piece {
    uint16_t kind;
    uint16_t kernel;
    uint64_t nested;
    const void *packed;
    size_t packed_size;
    bool again;
    const struct btrail_snapshot *snapshot;
    const struct guest_memory *memory;
    unsigned levels;
};

typedef void scanner_piece_fn(void *opaque, const struct scanner_piece *piece);

/**
 * struct scanner_ops - who gets what a scanner finds
 * @piece:     a piece of sideband
 * @resending: resending begins, or ends; see scanner_resend()
 * @kernel:    of the kernel, its release and what is missing of its names, as
 *             in struct scanner_result; both NULL if there is none any more.
 *             Comes when a kernel was found, and when more is missing
 * @tasks:     after it when a kernel was found: how a producer finds its tasks,
 *             or all 0 if there is no kernel, or nobody can
 *
 * The scanner's thread calls them, without a lock.  @nested: as in struct
 * scanner_piece
 */
struct scanner_ops {
    scanner_piece_fn *piece;
    void (*resending)(void *opaque, uint64_t nested, bool begin);
    void (*kernel)(void *opaque, uint64_t nested, const char *release,
                   char **missing);
    void (*tasks)(void *opaque, uint64_t nested,
                  const struct btrail_tasks *tasks);
};

/**
 * struct scan_output
 * @ops:    get what is found, with
 * @opaque: theirs
 * @nested: as in struct scanner_piece
 * @kept:   the budget that what is kept is taken from
 */
struct scan_output {
    const struct scanner_ops *ops;
    void *opaque;
    uint64_t nested;
    struct btrail_budget *kept;
};

/* Sends a piece of @info->size bytes.  Returns it, packed. */
GBytes *scan_output_send(const struct scan_output *out,
                         const struct btrail_sideband_info *info,
                         const void *data);

/* The same of one that is packed already; takes @packed. */
GBytes *scan_output_send_packed(const struct scan_output *out,
                                const struct btrail_sideband_info *info,
                                struct btrail_buf *packed);

/* The same of a snapshot, which @data was made of; see struct scanner_piece. */
void scan_output_send_snapshot(const struct scan_output *out,
                               const struct btrail_sideband_info *info,
                               const void *data,
                               const struct btrail_snapshot *snapshot,
                               const struct guest_memory *memory,
                               unsigned levels);

/*
 * Keeps what was sent, which it takes, in place of what was kept there before.
 * Without room for it, who comes later does not get it.
 */
void scan_output_keep(const struct scan_output *out, GBytes **sent,
                      GBytes *packed);
void scan_output_drop(const struct scan_output *out, GBytes **sent);

/* Sends a piece again that was kept, if it was. */
void scan_output_resend(const struct scan_output *out, uint16_t kind,
                        uint16_t kernel, GBytes *sent);

#endif /* SCAN_OUTPUT_H */
