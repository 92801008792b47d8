/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What cursors and merged streams can do that is not part of the public
 * interface
 */

#ifndef BTRAIL_LIB_MERGED_H
#define BTRAIL_LIB_MERGED_H

#include "backtrail/trace.h"

/* How far apart vCPUs may be when merged, in ns; finer than clocks are */
#define BTRAIL_MERGED_GRAIN 10000

/* Continues in each stream at an index, as btrail_cursor_seek() does. */
void btrail_merged_seek(struct btrail_merged *merged, uint64_t index);

/* Ends the stream of the last batch: btrail_merged_next() skips the rest. */
void btrail_merged_end_stream(struct btrail_merged *merged);

/*
 * How many places a cursor has passed that are damaged: chunks, and holes that
 * none of these explains.  A synthetic GAP event reports one of them, or several
 * chunks.
 */
uint64_t btrail_cursor_damage(const struct btrail_cursor *cursor);

/* Their sum */
uint64_t btrail_merged_damage(const struct btrail_merged *merged);

#endif /* BTRAIL_LIB_MERGED_H */
