/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Positions in merged streams that are not part of the public interface
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

#endif /* BTRAIL_LIB_MERGED_H */
