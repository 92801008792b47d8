/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Forward in a replay, and calls of functions there
 */

#include "replay-side.h"

/* It is about to call the function at 0x2000, which returns to 0x7fff. */
static void write_call(struct gdb *gdb)
{
    check(gdb, "M7000,8:ff7f000000000000", "OK");
    check(gdb, "P10=0020000000000000", "OK");
    check(gdb, "Z0,7fff,1", "OK");
}

/* What a function does that is called leaves nothing behind. */
static void test_call(void)
{
    struct replay_target *fe = start();
    struct gdb gdb = connect_gdb(fe);

    monitor(&gdb, "goto 100", "icount    100\n");
    write_call(&gdb);
    check(&gdb, "vCont;c", "T05thread:01;");
    check(&gdb, "p10", "ff7f000000000000");
    g_assert_true(qemu.diverted);
    /* gdb has stopped in one, and continues. */
    check(&gdb, "P10=0020000000000000", "OK");
    check(&gdb, "vCont;s:1", "T05thread:01;");
    check(&gdb, "p10", "0120000000000000");
    check(&gdb, "vCont;c", "T05thread:01;");
    check(&gdb, "P10=0410000000000000", "OK");
    monitor(&gdb, "where", "icount    100\n");
    check_at(&gdb, 100);
    write_call(&gdb);
    check(&gdb, "vCont;c", "T05thread:01;");
    check(&gdb, "P10=0410000000000000", "OK");
    check(&gdb, "z0,7fff,1", "OK");
    check(&gdb, "vCont;s:1", "T05thread:01;");
    check_at(&gdb, 101);
    write_call(&gdb);
    check(&gdb, "vCont;c", "T05thread:01;");
    check(&gdb, "P10=0510000000000000", "OK");
    check(&gdb, "bs", "T05thread:01;");
    check_at(&gdb, 100);
    leave(&gdb);
    stop(fe);
}

/* A function that does what a replay cannot undo, or does not return */
static void test_call_refused(void)
{
    struct replay_target *fe = start();
    struct gdb gdb = connect_gdb(fe), other = connect_gdb(fe);

    monitor(&gdb, "goto 100", "icount    100\n");
    qemu.refuses = "T11";
    write_call(&gdb);
    say(&gdb, "vCont;c");
    check_printed(&gdb, "in a replay, a function that is called cannot use "
                  "devices");
    check(&gdb, NULL, "T05thread:01;");
    check_at(&gdb, 100);
    qemu.refuses = NULL;
    qemu.endless = true;
    write_call(&gdb);
    say(&gdb, "vCont;c");
    interrupt(&gdb);
    check(&gdb, NULL, "T02thread:01;");
    check(&gdb, "p10", "0020000000000000");
    say(&gdb, "vCont;c");
    /* Another one does not wait for long. */
    check(&other, "p10", "0010000000000000");
    check_printed(&gdb, "the function that was called has not returned in "
                  "time");
    check(&gdb, NULL, "T05thread:01;");
    check_at(&gdb, 100);
    leave(&gdb);
    leave(&other);
    stop(fe);
}

/* What was not recorded does not happen, and is said. */
static void test_written(void)
{
    struct replay_target *fe = start();
    struct gdb gdb = connect_gdb(fe);

    monitor(&gdb, "goto 100", "icount    100\n");
    check(&gdb, "P0=1", "OK");
    check(&gdb, "p0", "31");
    say(&gdb, "vCont;s:1");
    check_printed(&gdb, "what was written is undone");
    check(&gdb, NULL, "T05thread:01;");
    check_at(&gdb, 101);
    check(&gdb, "p0", "00");
    /* "jump" */
    check(&gdb, "P10=0020000000000000", "OK");
    say(&gdb, "vCont;c");
    check_printed(&gdb, "a replay cannot go on elsewhere");
    check(&gdb, NULL, "T05thread:01;");
    check_at(&gdb, 101);
    leave(&gdb);
    stop(fe);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/replay-forward/call", test_call);
    g_test_add_func("/replay-forward/call-refused", test_call_refused);
    g_test_add_func("/replay-forward/written", test_written);
    return g_test_run();
}
