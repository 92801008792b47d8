/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A call tree as a flame graph: one HTML file that needs no other
 */

#ifndef BTRAIL_FLAME_H
#define BTRAIL_FLAME_H

#include <stdio.h>

#include "analyze/call-tree.h"

/*
 * Writes the file.  A function whose share of the records and of the time is
 * smaller than @min_share (from 0 to 1) is counted as part of its caller.
 */
void flame_write(FILE *out, const struct call_tree *t, const char *title,
                 double min_share);

#endif /* BTRAIL_FLAME_H */
