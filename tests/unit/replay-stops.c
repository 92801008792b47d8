/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Why the guest of a replay has stopped, as QEMU says it
 */

#include <sys/socket.h>

#include "replay-side.h"

static void test_interrupt(void)
{
    struct replay_target *fe = start();
    struct gdb gdb = connect_gdb(fe);

    qemu.endless = true;
    say(&gdb, "vCont;c");
    interrupt(&gdb);
    check(&gdb, NULL, "T02thread:01;");
    check_at(&gdb, 105);
    leave(&gdb);
    stop(fe);
}

/* Another gdb has been at the stub: it says the process, too. */
static void test_processes(void)
{
    struct replay_target *fe = start();
    struct gdb gdb = connect_gdb(fe);

    qemu.process = "p01.";
    qemu.endless = true;
    say(&gdb, "vCont;c:p1.1");
    interrupt(&gdb);
    check(&gdb, NULL, "T02thread:01;");
    qemu.endless = false;
    check(&gdb, "Z" WATCH, "OK");
    check(&gdb, "vCont;c", "T05watch:5000;thread:01;");
    check(&gdb, "qC", "QC01");
    check(&gdb, "qfThreadInfo", "m01");
    check(&gdb, "qsThreadInfo", "l");
    check(&gdb, "Hgp1.1", "OK");
    check(&gdb, "Hg2", "E22");
    check(&gdb, "T2", "E22");
    leave(&gdb);
    stop(fe);
}

/* A QEMU that has gdb open files is of no more use. */
static void test_asks(void)
{
    struct replay_target *fe = start();
    struct gdb gdb = connect_gdb(fe);

    qemu.asks = true;
    check(&gdb, "vCont;c", "W00");
    g_assert_cmpint(ended, ==, 1);
    leave(&gdb);
    stop(fe);
}

static void test_qemu_ends(void)
{
    struct replay_target *fe = start();
    struct gdb gdb = connect_gdb(fe);

    shutdown(qemu.sock, SHUT_RDWR);
    say(&gdb, "g");
    g_free(hear(&gdb));
    g_assert_cmpint(ended, ==, 1);
    leave(&gdb);
    stop(fe);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/replay-stops/interrupt", test_interrupt);
    g_test_add_func("/replay-stops/processes", test_processes);
    g_test_add_func("/replay-stops/asks", test_asks);
    g_test_add_func("/replay-stops/qemu-ends", test_qemu_ends);
    return g_test_run();
}
