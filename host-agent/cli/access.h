/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What permissions let another user get at
 */

#ifndef BTRAIL_CLI_ACCESS_H
#define BTRAIL_CLI_ACCESS_H

#include <glib.h>
#include <stdbool.h>
#include <sys/stat.h>

/**
 * struct cli_user - somebody, as processes are run by libvirt
 * @groups: that of @gid, and all that the host's databases have him in
 *
 * root is one as any other: libvirt takes its capabilities away.
 */
struct cli_user {
    uid_t uid;
    gid_t gid;
    gid_t *groups;
    unsigned ngroups;
};

void cli_user_init(struct cli_user *user, uid_t uid, gid_t gid);
void cli_user_clear(struct cli_user *user);

/* As libvirt writes a user and group: "+107:+107"; false if this is none. */
bool cli_user_parse(struct cli_user *user, const char *label);

/* May @user have @bits of read (4), write (2), execute or pass (1)? */
bool cli_user_may(const struct cli_user *user, const struct stat *st,
                  unsigned bits);

/* The first part of @path that keeps @user from writing to what is there: a
 * folder that cannot be passed, or @path.  NULL if nothing does, or nobody can
 * see it; to be freed. */
char *cli_user_barrier(const struct cli_user *user, const char *path);

#endif /* BTRAIL_CLI_ACCESS_H */
