/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * File access of another user: see access.h
 */

#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "cli/access.h"

static bool is_member(const struct cli_user *user, gid_t gid)
{
    for (unsigned i = 0; i < user->ngroups; i++) {
        if (user->groups[i] == gid) {
            return true;
        }
    }
    return false;
}

void cli_user_init(struct cli_user *user, uid_t uid, gid_t gid)
{
    const struct passwd *known = getpwuid(uid);
    int n = 16, room;

    *user = (struct cli_user) { .uid = uid, .gid = gid };
    do {
        room = n;
        user->groups = g_renew(gid_t, user->groups, room + 1);
        /* Sets @n to the number of groups if there are more. */
    } while (known && getgrouplist(known->pw_name, known->pw_gid, user->groups,
                                   &n) < 0 && n > room);
    user->ngroups = known ? MIN(n, room) : 0;
    if (!is_member(user, gid)) {
        user->groups[user->ngroups++] = gid;
    }
}

void cli_user_clear(struct cli_user *user)
{
    g_clear_pointer(&user->groups, g_free);
    user->ngroups = 0;
}

bool cli_user_parse(struct cli_user *user, const char *label)
{
    unsigned uid, gid;
    int end = 0;

    if (sscanf(label, "+%10u:+%10u%n", &uid, &gid, &end) != 2 || !end ||
        label[end]) {
        return false;
    }
    cli_user_init(user, uid, gid);
    return true;
}

bool cli_user_may(const struct cli_user *user, const struct stat *st,
                  unsigned bits)
{
    unsigned shift = st->st_uid == user->uid ? 6 :
                     is_member(user, st->st_gid) ? 3 : 0;

    return (st->st_mode >> shift & bits) == bits;
}

char *cli_user_barrier(const struct cli_user *user, const char *path)
{
    const char *p = path;
    struct stat st;

    while ((p = strchr(p + 1, '/'))) {
        g_autofree char *folder = g_strndup(path, p - path);

        if (!stat(folder, &st) && !cli_user_may(user, &st, 1)) {
            return g_steal_pointer(&folder);
        }
    }
    return !stat(path, &st) && !cli_user_may(user, &st, 2) ? g_strdup(path) :
           NULL;
}
