/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of the parts of a trace, and finding them.
 */

#include <glib/gstdio.h>

#include "lib/agent/parts.h"
#include "trace-samples.h"

static void test_path(void)
{
    static const struct {
        const char *path;
        uint32_t part;
        const char *want;
    } paths[] = {
        { "x.btrail", 0, "x.btrail" },
        { "x.btrail", 1, "x.1.btrail" },
        { "/a.b/x.y.btrail", 4294967295u, "/a.b/x.y.4294967295.btrail" },
        { "x", 0, "x" },
        { "x", 23, "x.23" },
        { "x.btrail.old", 2, "x.btrail.old.2" },
        { ".btrail", 2, ".btrail.2" },
        { "dir.btrail/x", 2, "dir.btrail/x.2" },
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(paths); i++) {
        g_autofree char *got = btrail_part_path(paths[i].path, paths[i].part);

        g_autofree char *first = btrail_part_first(paths[i].want,
                                                   paths[i].part);

        g_assert_cmpstr(got, ==, paths[i].want);
        g_assert_cmpstr(first, ==, paths[i].path);
    }
    g_assert_null(btrail_part_first("x.btrail", 1));
    g_assert_null(btrail_part_first("x.2.btrail", 1));
    g_assert_null(btrail_part_first("x.11.btrail", 1));
    g_assert_null(btrail_part_first(".1", 1));
    g_assert_null(btrail_part_first("", 1));
}

static void check_found(const char *path, const uint32_t *want, unsigned n)
{
    g_autoptr(GArray) parts = btrail_parts_find(path);
    unsigned i;

    g_assert_cmpuint(parts->len, ==, n);
    for (i = 0; i < n; i++) {
        g_assert_cmpuint(g_array_index(parts, uint32_t, i), ==, want[i]);
    }
}

static void test_find(void)
{
    static const char *const names[] = {
        "sample.1.btrail", "sample.10.btrail", "sample.9.btrail",
        "sample.4294967295.btrail", "sample.3", "sample.7.btrail.old.5",
        /* And those that are none */
        "sample.01.btrail", "sample.0.btrail", "sample.-1.btrail",
        "sample.4294967296.btrail", "sample.99999999999999999999.btrail",
        "sample.1x.btrail", "sample..btrail", "sample.1.btrail.old",
        "samples.1.btrail", "sample1.btrail", "sample.2.3.btrail",
    };
    static const uint32_t parts[] = { 1, 9, 10, 4294967295u };
    static const uint32_t others[] = { 3 };
    char *path = sample_path();
    g_autofree char *folder = g_path_get_dirname(path);
    g_autofree char *other = g_build_filename(folder, "sample", NULL);
    unsigned i;

    check_found(path, NULL, 0);
    for (i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *name = g_build_filename(folder, names[i], NULL);

        g_assert_true(g_file_set_contents(name, "", 0, NULL));
    }
    check_found(path, parts, G_N_ELEMENTS(parts));
    check_found(other, others, G_N_ELEMENTS(others));
    check_found("/nonexistent/x.btrail", NULL, 0);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/parts/path", test_path);
    g_test_add_func("/parts/find", test_find);
    return g_test_run();
}
