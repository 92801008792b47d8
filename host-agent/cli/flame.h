/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A call tree as a picture: one HTML file that needs nothing else
 */

#ifndef BTRAIL_FLAME_H
#define BTRAIL_FLAME_H

#include <stdio.h>

#include "analyze/call-tree.h"

/*
 * Write it.  Functions with a smaller part than @min_share (from 0 to 1), both
 * of the records and of the time, are left to their callers.
 */
void flame_write(FILE *out, const struct call_tree *t, const char *title,
                 double min_share);

#endif /* BTRAIL_FLAME_H */
