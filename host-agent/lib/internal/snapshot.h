/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Snapshots whose strings are kept with those of others
 */

#ifndef BTRAIL_SNAPSHOT_H
#define BTRAIL_SNAPSHOT_H

#include "backtrail/names.h"
#include "lib/agent/strings.h"

/*
 * As btrail_snapshot_decode(); all strings and build-ids of the snapshot are
 * those that @strings keeps.
 */
int btrail_snapshot_decode_kept(struct btrail_snapshot **snapshot,
                                const void *data, size_t size,
                                struct btrail_strings *strings);

#endif /* BTRAIL_SNAPSHOT_H */
