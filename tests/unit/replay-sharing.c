/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * gdbs that share the guest of a replay: who waits for whom
 */

#include "replay-side.h"

/* One asks while the guest runs for the other one, whose run continues. */
static void test_run_goes_on(struct replay_target *fe, struct gdb *a,
                             struct gdb *b)
{
    monitor(b, "goto 500", "icount    500\n");
    qemu.endless = true;
    say(a, "vCont;c");
    check_at(b, 500);
    qemu.endless = false;
    check(a, NULL, "T05replaylog:end;thread:01;");
    check_at(a, END);
    check_at(b, 500);
    /* One that leaves while the guest runs for it */
    monitor(a, "goto 0", "icount    0\n");
    qemu.endless = true;
    say(a, "vCont;c");
    check_at(b, 500);
    leave(a);
    check_at(b, 500);
}

/* What waits because the guest runs for another one is not wanted any more. */
static void test_waiting(struct replay_target *fe, struct gdb *a,
                         struct gdb *b)
{
    qemu.endless = true;
    say(a, "vCont;c");
    while (g_main_context_iteration(NULL, FALSE)) {
        continue;
    }
    say(b, "p10");
    interrupt(b);
    check(b, NULL, "E.interrupted");
    check_at(b, 0);
    interrupt(a);
    check(a, NULL, "T02thread:01;");
}

#define GOTO_FAR    "qRcmd,676f746f20373030"    /* goto 700 */
#define INTERRUPTED "696e7465727275707465640a"

/* A way that takes long ends when its gdb wants it to. */
static void test_way_interrupted(struct replay_target *fe, struct gdb *gdb,
                                 struct gdb *other)
{
    monitor(gdb, "goto 100", "icount    100\n");
    qemu.far = fe;
    say(gdb, GOTO_FAR);
    interrupt(gdb);
    check(gdb, NULL, INTERRUPTED);
    check_at(gdb, 100);
    /* It can go another one then, and hangs up. */
    say(gdb, GOTO_FAR);
    leave(gdb);
    check_at(other, 0);
}

/* Another gdb does not wait for the way's end, and the way continues. */
static void test_way_goes_on(struct replay_target *fe, struct gdb *a,
                             struct gdb *b)
{
    monitor(b, "goto 500", "icount    500\n");
    qemu.far = fe;
    say(a, GOTO_FAR);
    check_at(b, 500);
    qemu.far = NULL;
    check_printed(a, "icount    700\n");
    check(a, NULL, "OK");
    check_at(a, FAR);
    check_at(b, 500);
    /* While others are served, its user does not want it any more. */
    monitor(a, "goto 100", "icount    100\n");
    qemu.far = fe;
    say(a, GOTO_FAR);
    check_at(b, 500);
    interrupt(a);
    check(a, NULL, INTERRUPTED);
    check_at(a, 100);
}

/* QEMU's own way back gives way, and continues where it has come to. */
static void test_search_goes_on(struct replay_target *fe, struct gdb *a,
                                struct gdb *b)
{
    monitor(b, "goto 500", "icount    500\n");
    monitor(a, "goto 930", "icount    930\n");
    /* It is nowhere. */
    check(a, "Z0,1fff,1", "OK");
    qemu.pause = 850;
    say(a, "bc");
    check_at(b, 500);
    qemu.pause = 250;
    check(b, "vCont;s:01", "T05thread:01;");
    check_at(b, 501);
    /* The way continues when all are quiet for a moment. */
    while (qemu.last != 901) {
        g_main_context_iteration(NULL, TRUE);
    }
    check_at(b, 501);
    qemu.pause = 0;
    check(a, NULL, "T05replaylog:begin;thread:01;");
    g_assert_cmpuint(qemu.last, ==, 301);
    check_at(a, 0);
    check_at(b, 501);
}

/*
 * Its gdb does not want it any more, during the way and while others are
 * served, and hangs up.
 */
static void test_search_interrupted(struct replay_target *fe, struct gdb *a,
                                    struct gdb *b)
{
    monitor(a, "goto 930", "icount    930\n");
    check(a, "Z0,1fff,1", "OK");
    qemu.pause = 850;
    say(a, "bc");
    interrupt(a);
    check(a, NULL, "T02thread:01;");
    check_at(a, 930);
    say(a, "bc");
    check_at(b, 0);
    interrupt(a);
    check(a, NULL, "T02thread:01;");
    check_at(a, 930);
    say(a, "bc");
    check_at(b, 0);
    leave(a);
    check(b, "vCont;c", "T05replaylog:end;thread:01;");
    check_at(b, END);
}

/* To take the guest back for a request can take long. */
static void test_taken_back(struct replay_target *fe, struct gdb *a,
                            struct gdb *b)
{
    monitor(a, "goto 700", "icount    700\n");
    check_at(b, 0);
    qemu.far = fe;
    say(a, "p10");
    check_at(b, 0);
    check(b, "vCont;s:01", "T05thread:01;");
    qemu.far = NULL;
    check(a, NULL, "0c10000000000000");
    check_at(b, 1);
    qemu.far = fe;
    say(a, "vCont;s:01");
    check_at(b, 1);
    interrupt(a);
    check(a, NULL, "T02thread:01;");
    say(a, "p10");
    interrupt(a);
    check(a, NULL, "E.interrupted");
    say(a, "p10");
    check_at(b, 1);
    interrupt(a);
    check(a, NULL, "E.interrupted");
    qemu.far = NULL;
    check_at(a, FAR);
}

/* And so can a step: another vCPU has its turn first. */
static void test_slow_step(struct replay_target *fe, struct gdb *a,
                           struct gdb *b)
{
    monitor(a, "goto 106", "icount    106\n");
    check(a, "Z" WATCH, "OK");
    qemu.slow = true;
    say(a, "bc");
    check_at(b, 0);
    check_at(b, 0);
    qemu.slow = false;
    check(a, NULL, "T05watch:5000;thread:01;");
    check_at(a, 105);
    qemu.slow = true;
    say(a, "bc");
    interrupt(a);
    check(a, NULL, "T02thread:01;");
    check_at(a, 105);
    check_at(b, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_replay_test("/replay-sharing/run-goes-on", 2, test_run_goes_on);
    add_replay_test("/replay-sharing/waiting", 2, test_waiting);
    add_replay_test("/replay-sharing/way-interrupted", 2, test_way_interrupted);
    add_replay_test("/replay-sharing/way-goes-on", 2, test_way_goes_on);
    add_replay_test("/replay-sharing/search-goes-on", 2, test_search_goes_on);
    add_replay_test("/replay-sharing/search-interrupted", 2,
                    test_search_interrupted);
    add_replay_test("/replay-sharing/taken-back", 2, test_taken_back);
    add_replay_test("/replay-sharing/slow-step", 2, test_slow_step);
    return g_test_run();
}
