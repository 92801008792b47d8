/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of reading AppArmor's rules
 */

#include <glib/gstdio.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libvirt/apparmor.h"

#define QEMU "/opt/b/qemu-system-x86_64"

static char *top;

static void write_file(const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(top, name, NULL);
    g_autofree char *folder = g_path_get_dirname(path);

    g_assert_cmpint(g_mkdir_with_parents(folder, 0755), ==, 0);
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

static void set_up(void)
{
    top = g_dir_make_tmp("backtrail-XXXXXX", NULL);
    g_assert_nonnull(top);
}

static void tear_down(void)
{
    char *argv[] = { (char *)"rm", (char *)"-rf", top, NULL };

    g_assert_true(g_spawn_sync(NULL, argv, NULL, G_SPAWN_SEARCH_PATH, NULL,
                               NULL, NULL, NULL, NULL, NULL));
    g_clear_pointer(&top, g_free);
}

static enum apparmor allows(const char *name, const char *path,
                            const char *wanted)
{
    return apparmor_allows(top, name, path, wanted);
}

static void test_rules(void)
{
    static const struct {
        const char *rule;
        const char *wanted;
        bool yes;
    } rules[] = {
        { "/opt/b/qemu-system-x86_64 rmix,", "rmx", true },
        { "\"/opt/b/qemu-system-x86_64\" rmix,", "rmx", true },
        { "/opt/b/qemu-system-x86_64 rm,", "rmx", false },
        { "/opt/b/qemu-system-x86_64 PUx,", "x", true },
        { "/opt/b/qemu-system-x86_64 PUx -> other,", "x", true },
        { "/opt/b/qemu-system-x86_64 r -> max,", "x", false },
        { "rmix /opt/b/qemu-system-x86_64,", "rmx", true },
        { "file rmix /opt/b/qemu-system-x86_64,", "rmx", true },
        { "file /opt/b/qemu-system-x86_64 rmix,", "rmx", true },
        { "file,", "rmx", true },
        { "allow file,", "rmx", true },
        { "audit /opt/b/* rmix,  # why", "rmx", true },
        { "/opt/b/qemu-system-x86_64 rmix", "rmx", false },
        { "#/opt/b/qemu-system-x86_64 rmix,", "rmx", false },
        { "owner /opt/b/qemu-system-x86_64 rmix,", "rmx", false },
        { "deny /opt/b/qemu-system-x86_64 rmix,", "rmx", false },
        { "/opt/** rmix,", "rmx", true },
        { "/opt/* rmix,", "rmx", false },
        { "/opt/*/* rmix,", "rmx", true },
        { "/opt/?/qemu-system-x86_6[0-4] rmix,", "rmx", true },
        { "/opt/?/qemu-system-x86_6[^4] rmix,", "rmx", false },
        { "/opt/?? rmix,", "rmx", false },
        { "/{opt,usr}/{,b/}qemu-{img,system-{i386,x86_64}} rmix,", "rmx",
          true },
        { "/opt/b/qemu.system-x86_64 rmix,", "rmx", false },
        { "/opt/b/qemu-system-x86_64. rmix,", "rmx", false },
        { "/opt/b/qemu-system-x86_6 rmix,", "rmx", false },
        { "/opt/b/{qemu rmix,", "rmx", false },
        { "@{HOME}/** rmix,", "rmx", false },
        { "capability sys_admin,", "rmx", false },
        { "change_profile -> /opt/b/qemu-system-x86_64,", "x", false },
        { "unix (send) peer=(label=/opt/b/qemu-system-x86_64),", "x", false },
        { "mount /opt/b/qemu-system-x86_64 rmix,", "x", false },
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(rules); i++) {
        g_autofree char *profile =
            g_strdup_printf("profile p /usr/sbin/p {\n  %s\n}\n",
                            rules[i].rule);
        enum apparmor expected = rules[i].yes ? APPARMOR_YES :
                                        APPARMOR_NO;

        g_test_message("%s", rules[i].rule);
        write_file("p", profile);
        write_file("abstractions/a", rules[i].rule);
        g_assert_cmpint(allows("p", QEMU, rules[i].wanted), ==, expected);
        g_assert_cmpint(allows("abstractions/a", QEMU, rules[i].wanted), ==,
                        expected);
    }
}

/* Several rules add up, and what is denied is denied. */
static void test_sum(void)
{
    write_file("abstractions/a", "/opt/** r,\n/opt/*/* mix,\n");
    g_assert_cmpint(allows("abstractions/a", QEMU, "rmx"), ==,
                    APPARMOR_YES);
    write_file("abstractions/a", "/opt/** rmix,\naudit deny /opt/b/* m,\n");
    g_assert_cmpint(allows("abstractions/a", QEMU, "rmx"), ==,
                    APPARMOR_NO);
    g_assert_cmpint(allows("abstractions/a", QEMU, "rx"), ==,
                    APPARMOR_YES);
}

/* What is in another profile is not for this one. */
static void test_nested(void)
{
    static const char nested[] =
        "  profile child {\n    /opt/** rmix,\n    include <rules>\n  }\n";
    g_autofree char *profile =
        g_strconcat("/opt/** rmix,\nprofile p {\n", nested, "}\n", NULL);

    write_file("rules", "/opt/** rmix,\n");
    write_file("p", profile);
    g_assert_cmpint(allows("p", QEMU, "r"), ==, APPARMOR_NO);
    write_file("abstractions/a", nested);
    g_assert_cmpint(allows("abstractions/a", QEMU, "r"), ==,
                    APPARMOR_NO);
}

static void test_include(void)
{
    static const char *const ways[] = {
        "include <rules>", "#include <rules>", "  #include <rules>",
        "include if exists <rules>", "include \"rules\"",
        "#include if exists <rules>",
    };
    unsigned i;

    write_file("rules", "/opt/** rmix,\n");
    for (i = 0; i < G_N_ELEMENTS(ways); i++) {
        g_autofree char *profile = g_strdup_printf("profile p {\n%s\n}\n",
                                                   ways[i]);

        write_file("p", profile);
        g_assert_cmpint(allows("p", QEMU, "rmx"), ==, APPARMOR_YES);
    }
    /* One line after another, as scripts/install leaves it */
    write_file("p", "profile p {\n include if exists <local/p>\n}\n");
    g_assert_cmpint(allows("p", QEMU, "x"), ==, APPARMOR_NO);
    write_file("local/p", "include if exists <local/ours>\n");
    g_assert_cmpint(allows("p", QEMU, "x"), ==, APPARMOR_NO);
    write_file("local/ours", "/opt/b/qemu-system-x86_64 PUx,\n");
    g_assert_cmpint(allows("p", QEMU, "x"), ==, APPARMOR_YES);
    /* A folder, without what editors and packages leave */
    write_file("p", "profile p {\n include <d>\n}\n");
    write_file("d/a~", "/opt/** x,");
    write_file("d/.a", "/opt/** x,");
    write_file("d/a.dpkg-old", "/opt/** x,");
    g_assert_cmpint(allows("p", QEMU, "x"), ==, APPARMOR_NO);
    write_file("d/a", "/opt/** x,");
    g_assert_cmpint(allows("p", QEMU, "x"), ==, APPARMOR_YES);
}

static void test_none(void)
{
    g_assert_cmpint(allows("p", QEMU, "x"), ==, APPARMOR_NONE);
    write_file("p", "profile p {\n}\n");
    g_assert_cmpint(allows("p", QEMU, "x"), ==, APPARMOR_NO);
    write_file("p", "profile p flags=(attach_disconnected, complain) {\n}\n");
    g_assert_cmpint(allows("p", QEMU, "x"), ==, APPARMOR_NONE);
    write_file("p", "profile p {\n}\n");
    write_file("disable/p", "");
    g_assert_cmpint(allows("p", QEMU, "x"), ==, APPARMOR_NONE);
}

/* Nobody knows what is in files that cannot be read, or have no end. */
static void test_unknown(void)
{
    write_file("p", "profile p {\n include <nowhere>\n}\n");
    g_assert_cmpint(allows("p", QEMU, "x"), ==, APPARMOR_UNKNOWN);
    write_file("p", "profile p {\n include <nowhere>\n /opt/** x,\n}\n");
    g_assert_cmpint(allows("p", QEMU, "x"), ==, APPARMOR_YES);
    write_file("p", "profile p {\n include <loop>\n}\n");
    write_file("loop", "include <loop>\ninclude <loop>\n");
    g_assert_cmpint(allows("p", QEMU, "x"), ==, APPARMOR_UNKNOWN);
    {
        g_autofree char *fifo = g_build_filename(top, "loop", NULL);
        g_autofree char *large = g_strnfill((4 << 20) + 1, '\n');

        g_assert_cmpint(unlink(fifo), ==, 0);
        g_assert_cmpint(mkfifo(fifo, 0644), ==, 0);
        g_assert_cmpint(allows("p", QEMU, "x"), ==, APPARMOR_UNKNOWN);
        g_assert_cmpint(unlink(fifo), ==, 0);
        write_file("loop", large);
        g_assert_cmpint(allows("p", QEMU, "x"), ==, APPARMOR_UNKNOWN);
    }
}

/* Those of the distribution, where they are */
static void test_distribution(void)
{
    if (!access(APPARMOR_FOLDER "/usr.sbin.libvirtd", R_OK)) {
        g_assert_cmpint(apparmor_allows(
            APPARMOR_FOLDER, "usr.sbin.libvirtd",
            "/usr/bin/qemu-system-x86_64", "x"), !=, APPARMOR_NO);
        g_assert_cmpint(apparmor_allows(
            APPARMOR_FOLDER, "usr.sbin.libvirtd",
            "/nonexistent/qemu-system-x86_64", "x"), !=, APPARMOR_YES);
    }
    if (access(APPARMOR_FOLDER "/" APPARMOR_DOMAIN, R_OK)) {
        g_test_skip("libvirt has no rules of AppArmor here");
        return;
    }
    g_assert_cmpint(apparmor_allows(
        APPARMOR_FOLDER, APPARMOR_DOMAIN,
        "/usr/bin/qemu-system-x86_64", "rmx"), ==, APPARMOR_YES);
    g_assert_cmpint(apparmor_allows(
        APPARMOR_FOLDER, APPARMOR_DOMAIN,
        "/nonexistent/qemu-system-x86_64", "rmx"), !=, APPARMOR_YES);
}

static void add(const char *name, void (*test)(void))
{
    g_test_add_vtable(name, 0, NULL, (GTestFixtureFunc)(void *)set_up,
                      (GTestFixtureFunc)(void *)test,
                      (GTestFixtureFunc)(void *)tear_down);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add("/apparmor/rules", test_rules);
    add("/apparmor/sum", test_sum);
    add("/apparmor/nested", test_nested);
    add("/apparmor/include", test_include);
    add("/apparmor/none", test_none);
    add("/apparmor/unknown", test_unknown);
    g_test_add_func("/apparmor/distribution", test_distribution);
    return g_test_run();
}
