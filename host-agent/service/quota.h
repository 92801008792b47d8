/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The limits of guests: what they use against what they may
 */

#ifndef BTRAIL_QUOTA_H
#define BTRAIL_QUOTA_H

#include "service/config.h"

/* What one guest, the guests of one user, or all use */
struct btrail_usage {
    uint64_t sessions;
    uint64_t disk;
    uint64_t memory;
};

/*
 * The most that one user may have of what all may have together: what it leaves
 * is there for others, whatever it does.  0 is no limit.
 */
uint64_t btrail_quota_share(uint64_t all);

/**
 * btrail_quota_admit - may a session begin?
 * @guest:  what its guest uses without it, and others of the same process
 * @user:   what the guests of its user use without it
 * @all:    what all guests use without it
 * @memory: that it would add
 * @space:  bytes that are free on the disk
 */
bool btrail_quota_admit(const struct btrail_config *config,
                         const struct btrail_usage *guest,
                         const struct btrail_usage *user,
                         const struct btrail_usage *all, uint64_t memory,
                         uint64_t space, GError **error);

/* May an existing session write another trace? */
bool btrail_quota_admit_disk(const struct btrail_config *config,
                             const struct btrail_usage *guest,
                             const struct btrail_usage *all, uint64_t space,
                             GError **error);

/*
 * Is a limit exceeded while sessions run?  Returns which one, in words for the
 * clients whose sessions end because of it, or NULL.
 */
const char *btrail_quota_guest_exceeded(const struct btrail_config *config,
                                         const struct btrail_usage *guest);
const char *btrail_quota_all_exceeded(const struct btrail_config *config,
                                       const struct btrail_usage *all,
                                       uint64_t space);

#endif /* BTRAIL_QUOTA_H */
