/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Views of a replay, each with a place, breakpoints and state of its own
 */

#include "replay-side.h"

static void test_moves(struct replay_target *fe, struct gdb *gdb,
                       struct gdb *none)
{
    check(gdb, "bs", "T05replaylog:begin;thread:01;");
    check(gdb, "bc", "T05replaylog:begin;thread:01;");
    monitor(gdb, "goto 100", "icount    100\n");
    check_at(gdb, 100);
    check(gdb, "bs", "T05thread:01;");
    check_at(gdb, 99);
    check(gdb, "vCont;s:01", "T05thread:01;");
    check_at(gdb, 100);
    check(gdb, "Z0,1003,1", "OK");
    check(gdb, "Z0,1003,1", "OK");
    check(gdb, "bc", "T05thread:01;");
    check_at(gdb, 99);
    check(gdb, "vCont;c", "T05thread:01;");
    check_at(gdb, 115);
    check(gdb, "vCont;s:01", "T05thread:01;");
    check(gdb, "bc", "T05thread:01;");
    check_at(gdb, 115);
    check(gdb, "z0,1003,1", "OK");
    check(gdb, "bc", "T05replaylog:begin;thread:01;");
    check_at(gdb, 0);
    check(gdb, "vCont;c", "T05replaylog:end;thread:01;");
    check_at(gdb, END);
    check(gdb, "vCont;s:01", "T05replaylog:end;thread:01;");
    monitor(gdb, "goto 1001", "it ends before\n");
    check_at(gdb, END);
    monitor(gdb, "goto -1", "'-1' is not a place");
    monitor(gdb, "cont", "'cont' would");
    monitor(gdb, " info cpus", "hi\n");
}

/* Each has its own place, breakpoints, and state. */
static void test_two(struct replay_target *fe, struct gdb *a,
                     struct gdb *b)
{
    unsigned gotos;

    monitor(a, "goto 100", "icount    100\n");
    monitor(b, "goto 500", "icount    500\n");
    check_at(a, 100);
    check_at(b, 500);
    gotos = qemu.gotos;
    check_at(b, 500);
    g_assert_cmpuint(qemu.gotos, ==, gotos);
    check(a, "Z0,1005,1", "OK");
    check(b, "Z0,1007,1", "OK");
    check(a, "vCont;c", "T05thread:01;");
    check_at(a, 101);
    check(b, "vCont;c", "T05thread:01;");
    check_at(b, 503);
    check(a, "vCont;c", "T05thread:01;");
    check_at(a, 117);
    /* What is written is lost when another one has its turn. */
    monitor(b, "goto 117", "icount    117\n");
    check(a, "P0=1", "OK");
    check(a, "p0", "31");
    check(b, "p0", "00");
    check(a, "p0", "E.what this gdb has written is gone: another one has "
          "moved the guest");
    check(a, "p0", "00");
    check(a, "D", "OK");
    check(a, NULL, NULL);
    check(b, "p0", "00");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_replay_test("/replay-view/moves", 1, test_moves);
    add_replay_test("/replay-view/two", 2, test_two);
    return g_test_run();
}
