/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/rows.h: rows with the same names are one, and their order
 */
#include <glib.h>

#include "analyze/rows.h"

static void add(struct rows *r, const char *a, const char *b, uint64_t n,
                uint64_t m)
{
    const char *names[] = { a, b };
    const uint64_t values[ROWS_MAX_VALUES] = { n, m };

    rows_add(r, names, values);
}

static void test_rows(void)
{
    struct rows *r = rows_new(2);
    struct row **rows;
    size_t n;

    rows_sorted(r, 0, &n);
    g_assert_cmpuint(n, ==, 0);
    add(r, "a", "bc", 1, 30);
    add(r, "ab", "c", 5, 20);
    add(r, "a", "bc", 2, 0);
    add(r, "", "", 5, 10);
    rows = rows_sorted(r, 0, &n);
    g_assert_cmpuint(n, ==, 3);
    /* Equal ones in the order of names */
    g_assert_cmpstr(rows[0]->names[0], ==, "");
    g_assert_cmpstr(rows[1]->names[0], ==, "ab");
    g_assert_cmpstr(rows[2]->names[1], ==, "bc");
    g_assert_cmpuint(rows[2]->values[0], ==, 3);
    rows = rows_sorted(r, 1, &n);
    g_assert_cmpstr(rows[0]->names[1], ==, "bc");
    rows_free(r);
    rows_free(NULL);
}

/* A name has any bytes but NUL. */
static void test_bytes(void)
{
    struct rows *r = rows_new(2);
    size_t n;

    for (char c = 1; c < 127; c++) {
        const char separator[] = { c, 0 };
        g_autofree char *a = g_strdup_printf("a%cb", c);
        g_autofree char *b = g_strdup_printf("b%ca", c);

        add(r, a, "a", 1, 0);
        add(r, "a", b, 1, 0);
        add(r, separator, "", 1, 0);
        add(r, "", separator, 1, 0);
    }
    rows_sorted(r, 0, &n);
    g_assert_cmpuint(n, ==, 4 * 126);
    rows_free(r);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/rows/rows", test_rows);
    g_test_add_func("/rows/bytes", test_bytes);
    return g_test_run();
}
