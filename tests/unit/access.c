/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of which files another user may access
 */

#include <errno.h>
#include <glib/gstdio.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "cli/access.h"

/* Nobody here is in these. */
#define OWNER 4000000001u
#define GROUP 4000000002u
#define MINE 4000000003u

static void test_may(void)
{
    gid_t groups[] = { MINE, GROUP };
    const struct cli_user owner = { OWNER, MINE, groups, 1 };
    const struct cli_user member = { 7, MINE, groups, 2 };
    const struct cli_user other = { 7, MINE, groups, 1 };
    const struct cli_user root = { 0, 0, groups, 1 };
    unsigned mode, bits;

    for (mode = 0; mode < 01000; mode++) {
        const struct stat st = {
            .st_uid = OWNER, .st_gid = GROUP, .st_mode = S_IFSOCK | mode,
        };

        for (bits = 1; bits < 8; bits++) {
            /* The first that fits holds, even if a later one lets more in. */
            g_assert_cmpint(cli_user_may(&owner, &st, bits), ==,
                            !(bits & ~(mode / 0100)));
            g_assert_cmpint(cli_user_may(&member, &st, bits), ==,
                            !(bits & ~(mode / 010 % 010)));
            g_assert_cmpint(cli_user_may(&other, &st, bits), ==,
                            !(bits & ~(mode % 010)));
            g_assert_cmpint(cli_user_may(&root, &st, bits), ==,
                            !(bits & ~(mode % 010)));
        }
    }
}

static void test_parse(void)
{
    static const char *const bad[] = {
        "", "none", "libvirt-qemu:kvm", "+1", "+1:", "+1:+", "+1:+2:", "1:2",
        "+1:+2 ",
    };
    struct cli_user user;
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_assert_false(cli_user_parse(&user, bad[i]));
    }
    g_assert_true(cli_user_parse(&user, "+4000000001:+4000000002"));
    g_assert_cmpuint(user.uid, ==, OWNER);
    g_assert_cmpuint(user.gid, ==, GROUP);
    /* Nobody knows him, so this is all. */
    g_assert_cmpuint(user.ngroups, ==, 1);
    g_assert_cmpuint(user.groups[0], ==, GROUP);
    cli_user_clear(&user);
}

/* Users of this host against what the databases have, group by group */
static void test_groups(void)
{
    struct passwd *entry;
    unsigned seen = 0;

    setpwent();
    while ((entry = getpwent()) && seen < 100) {
        g_autofree char *name = g_strdup(entry->pw_name);
        uid_t uid = entry->pw_uid;
        gid_t own = entry->pw_gid;
        struct passwd *first = getpwuid(uid);
        struct group *group;
        struct cli_user user;

        if (!first || strcmp(first->pw_name, name)) {
            continue;                   /* another name of somebody's */
        }
        cli_user_init(&user, uid, GROUP);
        seen++;
        g_assert_cmpuint(user.gid, ==, GROUP);
        g_assert_cmpuint(user.groups[user.ngroups - 1], ==, GROUP);
        setgrent();
        while ((group = getgrent())) {
            bool member = group->gr_gid == own, has = false;
            unsigned i;

            for (i = 0; group->gr_mem[i]; i++) {
                member |= !strcmp(group->gr_mem[i], name);
            }
            for (i = 0; i < user.ngroups; i++) {
                has |= user.groups[i] == group->gr_gid;
            }
            g_assert_cmpint(has, ==, member);
        }
        endgrent();
        cli_user_clear(&user);
    }
    endpwent();
    g_assert_cmpuint(seen, >, 0);
}

static void test_barrier(void)
{
    g_autofree char *top = g_dir_make_tmp("backtrail-XXXXXX", NULL);
    g_autofree char *folder = g_build_filename(top, "folder", NULL);
    g_autofree char *file = g_build_filename(folder, "file", NULL);
    gid_t groups[] = { MINE, 0 };
    struct cli_user other = { OWNER, MINE, groups, 1 }, member;
    struct stat st;

    g_assert_cmpint(g_mkdir(folder, 0755), ==, 0);
    g_assert_true(g_file_set_contents(file, "", 0, NULL));
    g_assert_cmpint(chmod(top, 0755), ==, 0);
    g_assert_cmpint(stat(file, &st), ==, 0);
    groups[1] = st.st_gid;
    member = (struct cli_user) { OWNER, MINE, groups, 2 };

    for (unsigned mode = 0; mode < 4; mode++) {
        g_autofree char *a = NULL, *b = NULL;
        bool open = mode & 1, writable = mode & 2;

        /* The group alone is let in. */
        g_assert_cmpint(chmod(file, writable ? 0660 : 0640), ==, 0);
        g_assert_cmpint(chmod(folder, open ? 0750 : 0740), ==, 0);
        a = cli_user_barrier(&other, file);
        b = cli_user_barrier(&member, file);
        g_assert_cmpstr(a, ==, folder);
        g_assert_cmpstr(b, ==, !open ? folder : !writable ? file : NULL);
    }
    g_assert_cmpint(chmod(folder, 0755), ==, 0);
    g_assert_cmpint(chmod(file, 0660), ==, 0);
    {
        g_autofree char *a = cli_user_barrier(&other, file);
        g_autofree char *none = cli_user_barrier(&other, "/nonexistent/a");

        g_assert_cmpstr(a, ==, file);
        g_assert_null(none);
    }
    g_assert_cmpint(g_unlink(file) | g_rmdir(folder) | g_rmdir(top), ==, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/access/may", test_may);
    g_test_add_func("/access/parse", test_parse);
    g_test_add_func("/access/groups", test_groups);
    g_test_add_func("/access/barrier", test_barrier);
    return g_test_run();
}
