/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's words: snapshots of the spaces whose page tables are known
 */

#ifndef BTRAIL_NAME_SNAPSHOT_H
#define BTRAIL_NAME_SNAPSHOT_H

#include "guest-names/name-owners.h"

/* Called for each snapshot, encoded; @time is its end by the host's clock. */
typedef void name_snapshot_fn(void *opaque, const void *data, size_t size,
                              uint64_t time);

/**
 * name_snapshots - make snapshots of what is known up to a time of the TSC
 * @pti: user mode has page tables of its own
 * @fn:  gets one, or more if there is too much for one
 *
 * What has not changed since the last time is in it as seen only.  Returns how
 * many spaces are in one for the first time.
 */
unsigned name_snapshots(struct name_spaces *spaces,
                        const struct name_owners *owners, bool pti,
                        uint64_t time, name_snapshot_fn *fn, void *opaque);

#endif /* BTRAIL_NAME_SNAPSHOT_H */
