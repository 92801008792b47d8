/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Back in a replay: to breakpoints, to what has written, from its end
 */

#include "replay-side.h"

/* Back to what has written, and before it, as gdb wants it */
static void test_watchpoint(struct replay_target *fe, struct gdb *gdb,
                            struct gdb *none)
{
    monitor(gdb, "goto 100", "icount    100\n");
    check(gdb, "Z" WATCH, "OK");
    check(gdb, "vCont;c", "T05watch:5000;thread:01;");
    check_at(gdb, 106);
    /* It was the instruction just before. */
    check(gdb, "bc", "T05watch:5000;thread:01;");
    check_at(gdb, 105);
    check(gdb, "bc", "T05watch:5000;thread:01;");
    check_at(gdb, 89);
    /* A breakpoint between comes first. */
    check(gdb, "Z0,1003,1", "OK");
    check(gdb, "bc", "T05thread:01;");
    check_at(gdb, 83);
    check(gdb, "bc", "T05watch:5000;thread:01;");
    check_at(gdb, 73);
    check(gdb, "z0,1003,1", "OK");
    check(gdb, "z" WATCH, "OK");
    check(gdb, "bc", "T05replaylog:begin;thread:01;");
}

/* QEMU stops a guest that has shut down somewhat earlier than last time. */
static void test_condition(struct replay_target *fe, struct gdb *gdb,
                           struct gdb *none)
{
    monitor(gdb, "goto 100", "icount    100\n");
    check(gdb, "Z0,1003,1;1", "OK");
    check(gdb, "vCont;c", "T05thread:01;");
    check_at(gdb, 115);
    check(gdb, "vCont;c", "T05thread:01;");
    check_at(gdb, 147);
    check(gdb, "bc", "T05thread:01;");
    check_at(gdb, 115);
    /* Another condition, and none */
    check(gdb, "Z0,1003,1;0", "OK");
    check(gdb, "bc", "T05thread:01;");
    check_at(gdb, 99);
    check(gdb, "Z0,1003,1", "OK");
    check(gdb, "bc", "T05thread:01;");
    check_at(gdb, 83);
    /*
     * One that does not hold at the instruction just before, and one that
     * does
     */
    check(gdb, "z0,1003,1", "OK");
    check(gdb, "Z0,1002,1;0", "OK");
    check(gdb, "bc", "T05thread:01;");
    check_at(gdb, 66);
    check(gdb, "z0,1002,1", "OK");
    check(gdb, "Z0,1001,1;0", "OK");
    check(gdb, "bc", "T05thread:01;");
    check_at(gdb, 65);
}

static void test_end(struct replay_target *fe, struct gdb *gdb,
                     struct gdb *other)
{
    check(gdb, "vCont;c", "T05replaylog:end;thread:01;");
    qemu.early = END - 10;
    check(gdb, "bs", "T05thread:01;");
    check_at(gdb, END - 10);
    check(gdb, "bs", "T05thread:01;");
    check_at(gdb, END - 11);
    check(gdb, "vCont;s:01", "T05thread:01;");
    check(gdb, "vCont;s:01", "T05replaylog:end;thread:01;");
    check_at(gdb, END - 10);
    qemu.early = END - 20;
    check_at(other, 0);
    check_at(gdb, END - 20);
    check(gdb, "Z0,1003,1", "OK");
    check(gdb, "bc", "T05thread:01;");
    check_at(gdb, 979);
    qemu.early = 500;
    check_at(other, 0);
    /* Not at the end */
    check(gdb, "p10", "E.it ends before");
}

/* Back from the end, also by one that does not know that it is there */
static void test_back_from_end(struct replay_target *fe, struct gdb *gdb,
                               struct gdb *other)
{
    /* END is 1000, and at 8 of a round. */
    monitor(gdb, "goto 1000", "icount    1000\n");
    check(gdb, "Z" WATCH, "OK");
    check(gdb, "bc", "T05watch:5000;thread:01;");
    check_at(gdb, 985);
    check(gdb, "vCont;c", "T05watch:5000;thread:01;");
    check_at(gdb, 986);
    check(gdb, "vCont;c", "T05replaylog:end;thread:01;");
    check(gdb, "bc", "T05watch:5000;thread:01;");
    check_at(gdb, 985);
    check(gdb, "z" WATCH, "OK");
    for (unsigned i = 1; i < LOOP; i++) {
        g_autofree char *breakpoint = g_strdup_printf(
            "0,%x,1", (unsigned)pc_at(END - i));
        g_autofree char *set = g_strconcat("Z", breakpoint, NULL);
        g_autofree char *clear = g_strconcat("z", breakpoint, NULL);

        check(gdb, "vCont;c", "T05replaylog:end;thread:01;");
        check(gdb, set, "OK");
        check(gdb, "bc", "T05thread:01;");
        check_at(gdb, END - i);
        check(gdb, clear, "OK");
    }
    qemu.early = END - 10;
    check_at(other, 0);
    check(gdb, "vCont;c", "T05replaylog:end;thread:01;");
    check(gdb, "bc", "T05replaylog:begin;thread:01;");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_replay_test("/replay-back/watchpoint", 1, test_watchpoint);
    add_replay_test("/replay-back/condition", 1, test_condition);
    add_replay_test("/replay-back/end", 2, test_end);
    add_replay_test("/replay-back/back-from-end", 2, test_back_from_end);
    return g_test_run();
}
