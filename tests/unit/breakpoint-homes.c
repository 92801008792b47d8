/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Breakpoints of several programs at the same addresses: which are inserted,
 * which are meant, and which gdb has forgotten
 */

#include <glib.h>

#include "gdb/breakpoint-homes.h"
#include "gdb/breakpoints.h"

#define AT      0x401000
#define KEY     "0,401000,1"

/* Which home is here */
static bool is_here(void *opaque, unsigned home)
{
    g_assert_cmpuint(home, !=, 0);
    return home == GPOINTER_TO_UINT(opaque);
}

static enum breakpoint_owner owner(struct breakpoint_homes *h, unsigned here,
                                   bool set)
{
    return breakpoint_homes_owner(h, AT, set, is_here,
                                  GUINT_TO_POINTER(here));
}

/* The conditions of the breakpoint there when the target runs in @here */
static char *run(struct breakpoint_homes *h, unsigned here, bool forget)
{
    g_autoptr(GHashTable) table = breakpoints_new();

    breakpoints_set(table, "0,9,1", "");
    breakpoint_homes_insert(h, forget, is_here, GUINT_TO_POINTER(here), table);
    g_assert_null(g_hash_table_lookup(table, "0,9,1"));
    return g_strdup(g_hash_table_lookup(table, KEY));
}

static void check_run(struct breakpoint_homes *h, unsigned here,
                      const char *want)
{
    g_autofree char *got = run(h, here, true);

    g_assert_cmpstr(got, ==, want);
}

/* It stays while another program is there, and is that one's only. */
static void test_elsewhere(void)
{
    struct breakpoint_homes *h = breakpoint_homes_new();

    g_assert_cmpint(owner(h, 1, false), ==, BREAKPOINT_NOBODYS);
    breakpoint_homes_set(h, KEY, 1, ";X1,00");
    g_assert_cmpint(owner(h, 1, false), ==, BREAKPOINT_OWN);
    g_assert_cmpint(owner(h, 2, false), ==, BREAKPOINT_OTHERS);
    g_assert_cmpint(breakpoint_homes_owner(h, AT + 1, false, is_here,
                                           GUINT_TO_POINTER(1)), ==,
                    BREAKPOINT_NOBODYS);
    check_run(h, 1, ";X1,00");
    check_run(h, 2, ";X1,00");
    g_assert_cmpuint(breakpoint_homes_count(h), ==, 1);
    breakpoint_homes_free(h);
}

/* gdb removes all where it stops; those elsewhere it cannot set again. */
static void test_removed(void)
{
    struct breakpoint_homes *h = breakpoint_homes_new();

    breakpoint_homes_set(h, KEY, 1, "");
    breakpoint_homes_set(h, KEY, 1, NULL);
    g_assert_cmpint(owner(h, 1, false), ==, BREAKPOINT_OWN);
    g_assert_cmpint(owner(h, 1, true), ==, BREAKPOINT_NOBODYS);
    check_run(h, 2, "");
    g_assert_cmpuint(breakpoint_homes_count(h), ==, 1);
    /* While gdb goes one instruction, it can have taken them out. */
    g_free(run(h, 1, false));
    g_assert_cmpuint(breakpoint_homes_count(h), ==, 1);
    /* Here, it would have set it again. */
    check_run(h, 1, NULL);
    g_assert_cmpuint(breakpoint_homes_count(h), ==, 0);
    check_run(h, 2, NULL);
    breakpoint_homes_free(h);
}

/* gdb says nothing of what it forgets with a file. */
static void test_left(void)
{
    struct breakpoint_homes *h = breakpoint_homes_new();

    breakpoint_homes_set(h, KEY, 1, "");
    breakpoint_homes_set(h, "0,402000,1", 0, "");
    breakpoint_homes_leave(h, is_here, GUINT_TO_POINTER(1));
    g_assert_cmpint(owner(h, 1, true), ==, BREAKPOINT_OWN);
    breakpoint_homes_leave(h, is_here, GUINT_TO_POINTER(2));
    check_run(h, 2, "");
    g_assert_cmpint(owner(h, 1, true), ==, BREAKPOINT_NOBODYS);
    check_run(h, 1, NULL);
    g_assert_cmpuint(breakpoint_homes_count(h), ==, 1);
    breakpoint_homes_free(h);
}

/* Both programs have one there. */
static void test_both(void)
{
    struct breakpoint_homes *h = breakpoint_homes_new();

    breakpoint_homes_set(h, KEY, 1, ";X1,00");
    breakpoint_homes_set(h, KEY, 2, ";X1,01");
    /* Either condition may hold. */
    check_run(h, 1, "");
    breakpoint_homes_set(h, KEY, 2, NULL);
    check_run(h, 1, "");
    check_run(h, 2, ";X1,00");
    g_assert_cmpint(owner(h, 1, true), ==, BREAKPOINT_OWN);
    g_assert_cmpint(owner(h, 2, true), ==, BREAKPOINT_OTHERS);
    breakpoint_homes_set(h, KEY, 1, ";X1,02");
    check_run(h, 2, ";X1,02");
    breakpoint_homes_free(h);
}

/* What is in no file is meant everywhere, and gdb says when it is gone. */
static void test_no_home(void)
{
    struct breakpoint_homes *h = breakpoint_homes_new();

    breakpoint_homes_set(h, KEY, 0, "");
    g_assert_cmpint(owner(h, 2, true), ==, BREAKPOINT_OWN);
    check_run(h, 2, "");
    breakpoint_homes_set(h, KEY, 0, NULL);
    check_run(h, 2, NULL);
    g_assert_cmpuint(breakpoint_homes_count(h), ==, 0);
    breakpoint_homes_free(h);
    breakpoint_homes_free(NULL);
}

/* Watchpoints are in no file's code. */
static void test_watchpoint(void)
{
    struct breakpoint_homes *h = breakpoint_homes_new();

    breakpoint_homes_set(h, "2,401000,8", 1, "");
    g_assert_cmpint(owner(h, 2, false), ==, BREAKPOINT_NOBODYS);
    breakpoint_homes_free(h);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/breakpoint-homes/elsewhere", test_elsewhere);
    g_test_add_func("/breakpoint-homes/removed", test_removed);
    g_test_add_func("/breakpoint-homes/left", test_left);
    g_test_add_func("/breakpoint-homes/both", test_both);
    g_test_add_func("/breakpoint-homes/no-home", test_no_home);
    g_test_add_func("/breakpoint-homes/watchpoint", test_watchpoint);
    return g_test_run();
}
