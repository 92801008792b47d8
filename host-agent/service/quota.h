/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The limits of guests: what they use against what they may
 */

#ifndef BTRAIL_QUOTA_H
#define BTRAIL_QUOTA_H

#include "service/host.h"

/* What one guest, the guests of one user, or all use */
struct usage {
    uint64_t sessions;
    uint64_t disk;
    uint64_t memory;
};

/*
 * The most that one user may have of what all may have together: the rest is
 * there for others, whatever this one does.  0 is no limit.
 */
uint64_t quota_share(uint64_t all);

/**
 * quota_admit - may a session begin?
 * @guest:  what its guest uses without it, and others of the same process
 * @user:   what the guests of its user use without it
 * @all:    what all guests use without it
 * @memory: that it would add
 * @space:  bytes that are free on the disk
 */
bool quota_admit(const struct config *config,
                         const struct usage *guest,
                         const struct usage *user,
                         const struct usage *all, uint64_t memory,
                         uint64_t space, GError **error);

/* May an existing session write another trace? */
bool quota_admit_disk(const struct config *config,
                      const struct usage *guest,
                      const struct usage *all, uint64_t space,
                      GError **error);

/* Bytes that the files of a folder use on the disk, if there is a limit; or 0 */
uint64_t quota_disk(const struct config_limits *limits,
                    const struct folder *folder);

/* May a session write another file into its guest's @folder? */
bool quota_admit_file(const struct host *host,
                      const struct folder *folder,
                      GError **error);

/*
 * Is a limit exceeded while sessions run?  Returns which one, in words for the
 * clients whose sessions end because of it, or NULL.
 */
const char *quota_guest_exceeded(const struct config *config,
                                         const struct usage *guest);
const char *quota_all_exceeded(const struct config *config,
                                       const struct usage *all,
                                       uint64_t space);

#endif /* BTRAIL_QUOTA_H */
