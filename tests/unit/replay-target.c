/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A replay as a target of gdbs
 */

#include <unistd.h>

#include "gdb/server.h"
#include "replay-side.h"

static void test_features(void)
{
    struct replay_target *fe = start();
    struct gdb gdb = connect_gdb(fe);

    check(&gdb, "qSupported:multiprocess+;swbreak+",
          "QStartNoAckMode+;PacketSize=1000;vContSupported+;ReverseStep+;"
          "ReverseContinue+");
    check(&gdb, "QStartNoAckMode", "OK");
    check(&gdb, "?", "T05thread:01;");
    check(&gdb, "qUnknown", "");
    leave(&gdb);
    stop(fe);
}

static void test_many(void)
{
    struct replay_target *fe = start();
    struct gdb gdbs[GDB_SERVERS_MAX], more;

    for (unsigned i = 0; i < GDB_SERVERS_MAX; i++) {
        gdbs[i] = connect_gdb(fe);
    }
    more = connect_gdb(fe);
    check(&more, NULL, NULL);
    leave(&more);
    leave(&gdbs[0]);
    more = connect_gdb(fe);
    check_at(&more, 0);
    leave(&more);
    for (unsigned i = 1; i < GDB_SERVERS_MAX; i++) {
        leave(&gdbs[i]);
    }
    stop(fe);
}

static void test_hostile(void)
{
    struct replay_target *fe = start();
    struct gdb good = connect_gdb(fe), bad = connect_gdb(fe);
    g_autofree char *much = g_strnfill(VM_PACKET_SIZE + 1, 'm');

    monitor(&good, "goto 100", "icount    100\n");
    say(&bad, much);
    check(&bad, NULL, NULL);
    leave(&bad);
    /* A second request before the answer to what lets the guest run */
    bad = connect_gdb(fe);
    qemu.endless = true;
    say(&bad, "vCont;c");
    say(&bad, "g");
    check(&bad, NULL, NULL);
    leave(&bad);
    bad = connect_gdb(fe);
    check(&bad, "qRcmd,6", "E01");
    check(&bad, "Z", "E01");
    g_assert_cmpint(write(bad.sock, "$g#00", 5), ==, 5);
    check(&bad, "?", "T05thread:01;");
    leave(&bad);
    check_at(&good, 100);
    leave(&good);
    stop(fe);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/replay-target/features", test_features);
    g_test_add_func("/replay-target/many", test_many);
    g_test_add_func("/replay-target/hostile", test_hostile);
    return g_test_run();
}
