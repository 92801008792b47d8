/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What guests may take, and whether they take more
 */

#ifndef BTRAIL_QUOTA_H
#define BTRAIL_QUOTA_H

#include "service/config.h"

/* What a guest takes, or all */
struct btrail_usage {
    uint64_t sessions;
    uint64_t disk;
    uint64_t memory;
};

/**
 * btrail_quota_admit - may a session begin?
 * @guest:  what its guest takes, without it
 * @all:    what all take, without it
 * @memory: that it would take
 * @space:  bytes free on the disk
 */
bool btrail_quota_admit(const struct btrail_config *config,
                         const struct btrail_usage *guest,
                         const struct btrail_usage *all, uint64_t memory,
                         uint64_t space, GError **error);

/* May a trace be written for a session that is there? */
bool btrail_quota_admit_disk(const struct btrail_config *config,
                             const struct btrail_usage *guest,
                             const struct btrail_usage *all, uint64_t space,
                             GError **error);

/*
 * Is more taken than there may be, while sessions run?  Returns which limit,
 * in words for those whose sessions end because of it, or NULL.
 */
const char *btrail_quota_guest_exceeded(const struct btrail_config *config,
                                         const struct btrail_usage *guest);
const char *btrail_quota_all_exceeded(const struct btrail_config *config,
                                       const struct btrail_usage *all,
                                       uint64_t space);

#endif /* BTRAIL_QUOTA_H */
