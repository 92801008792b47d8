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

#endif /* BTRAIL_CURSOR_H */
