/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which files another user may access
 */

#ifndef BTRAIL_CLI_ACCESS_H
#define BTRAIL_CLI_ACCESS_H

#include <glib.h>
#include <stdbool.h>
#include <sys/stat.h>

/**
 * struct cli_user - the user that libvirt runs processes as
 * @groups: @gid, and all groups that the host's databases have for the user.
 *          The user's own group there is one, even if @gid is another: Debian's
 *          libvirt-qemu is in the group kvm only so
 *
 * root has no privileges: libvirt drops its capabilities.
 */
struct cli_user {
    uid_t uid;
    gid_t gid;
    gid_t *groups;
    unsigned ngroups;
};

void cli_user_init(struct cli_user *user, uid_t uid, gid_t gid);
void cli_user_clear(struct cli_user *user);

/* Parses a user and group as libvirt writes them: "+107:+107". */
bool cli_user_parse(struct cli_user *user, const char *label);

/* Does @user have the permissions @bits: read (4), write (2), execute (1)? */
bool cli_user_may(const struct cli_user *user, const struct stat *st,
                  unsigned bits);

/* The first part of @path that keeps @user from writing to it: a folder that
 * cannot be entered, or @path itself.  NULL if there is none, or if it cannot
 * be checked; to be freed. */
char *cli_user_barrier(const struct cli_user *user, const char *path);

#endif /* BTRAIL_CLI_ACCESS_H */
