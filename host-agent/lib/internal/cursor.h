/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Cursors: what the library does with them beside its API
 */

#ifndef BTRAIL_CURSOR_H
#define BTRAIL_CURSOR_H

#include "backtrail/trace.h"

/*
 * At the end of a chunk, pass over those that follow as long as an address
 * space (bits of BTRAIL_CR3_ROOT) is not in force anywhere in them.
 */
void btrail_cursor_pass_over(struct btrail_cursor *c, uint64_t root);

/*
 * Return what is in chunk number @i of the stream, and what is missing before
 * it, then END.  The cursor is of no other use from then on.
 */
void btrail_cursor_take_chunk(struct btrail_cursor *c, unsigned i);

#endif /* BTRAIL_CURSOR_H */
