/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's words: snapshots of the spaces whose page tables are known
 */

#ifndef BTRAIL_WORD_SNAPSHOT_H
#define BTRAIL_WORD_SNAPSHOT_H

#include "guest-words/word-owners.h"

/* Called for each snapshot, encoded; @time is its end by the host's clock. */
typedef void word_snapshot_fn(void *opaque, const void *data, size_t size,
                              uint64_t time);

/**
 * word_snapshots - make snapshots of what is known up to a time of the TSC
 * @pti: user mode has page tables of its own
 * @fn:  gets one, or more if there is too much for one
 *
 * What has not changed since the last time is only seen.  Returns how many
 * spaces are in one for the first time.
 */
unsigned word_snapshots(struct word_spaces *spaces,
                        const struct word_owners *owners, bool pti,
                        uint64_t time, word_snapshot_fn *fn, void *opaque);

#endif /* BTRAIL_WORD_SNAPSHOT_H */
