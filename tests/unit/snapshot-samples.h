/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Snapshots in traces that tests write
 */

#ifndef BTRAIL_SNAPSHOT_SAMPLES_H
#define BTRAIL_SNAPSHOT_SAMPLES_H

#include "backtrail/names.h"

/*
 * Adds a snapshot to a trace, of the moment of its end and of the kernel of its
 * first process.
 */
void sample_snapshot(struct btrail_writer *w,
                     const struct btrail_snapshot *snapshot);

#endif /* BTRAIL_SNAPSHOT_SAMPLES_H */
