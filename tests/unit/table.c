/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tables: columns are aligned by what is seen, and no text makes a line
 */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/table.h"

static void test_print(void)
{
    GPtrArray *table = cli_table_new("A", "Longer", "C", NULL);
    g_autofree char *text = NULL;
    int out = dup(STDOUT_FILENO), ends[2];
    char buf[1000];
    ssize_t n;

    cli_table_add(table, "\303\244\303\244\303\244", "b", "c", NULL);
    cli_table_add(table, "x", "two\nlines", "", NULL);
    g_assert_cmpint(pipe(ends), ==, 0);
    fflush(stdout);
    dup2(ends[1], STDOUT_FILENO);
    cli_table_print(table);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    close(ends[1]);
    n = read(ends[0], buf, sizeof(buf) - 1);
    g_assert_cmpint(n, >, 0);
    buf[n] = '\0';
    g_assert_cmpstr(buf, ==,
                    "A    Longer      C\n"
                    "\303\244\303\244\303\244  b           c\n"
                    "x    two\\nlines  \n");
    close(ends[0]);
    close(out);
}

int main(int argc, char **argv)
{
    g_setenv("LC_ALL", "C.UTF-8", TRUE);
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/table/print", test_print);
    return g_test_run();
}
