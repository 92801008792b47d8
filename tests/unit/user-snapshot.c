/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Snapshots for sessions that see only user mode: no address of the kernel is
 * in them
 */

#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "guest-linux/user-snapshot.h"

static struct btrail_snapshot *encode(const struct btrail_snapshot *snapshot,
                                      const uint8_t *key)
{
    struct btrail_snapshot *got;
    size_t size, i;
    void *data;

    g_assert_cmpint(snapshot_encode_user(snapshot, key, &data, &size),
                    ==, 0);
    /* Nothing of the kernel's half, at any place of it */
    for (i = 0; i + 8 <= size; i++) {
        uint64_t v;

        memcpy(&v, (const char *)data + i, 8);
        g_assert_cmphex(v >> 40, !=, 0xffff88);
    }
    g_assert_cmpint(btrail_snapshot_decode(&got, data, size), ==, 0);
    free(data);
    return got;
}

static void test_mm(void)
{
    uint8_t key[USER_SNAPSHOT_KEY] = { 1 };
    struct btrail_process p[] = {
        { .pgd = 0x1000, .mm = 0xffff888012345000, .pid = 1, .comm = "init",
          .exe = "", .command_line = "" },
        { .pgd = 0x2000, .mm = 0xffff888012346000, .pid = 2, .comm = "a",
          .exe = "/a", .command_line = "" },
        { .pid = 3, .flags = BTRAIL_PROCESS_KERNEL, .comm = "kthread",
          .exe = "", .command_line = "" },
    };
    const struct btrail_snapshot snapshot = { .begin = 1, .end = 2, .n = 3,
                                      .processes = p };
    struct btrail_snapshot *first = encode(&snapshot, key);
    struct btrail_snapshot *second = encode(&snapshot, key);
    struct btrail_snapshot *other;
    unsigned i;

    g_assert_cmphex(p[0].mm, ==, 0xffff888012345000);
    g_assert_cmpuint(first->n, ==, 3);
    for (i = 0; i < 2; i++) {
        g_assert_cmphex(first->processes[i].mm >> 63, ==, 0);
        g_assert_cmphex(first->processes[i].mm, !=, 0);
        g_assert_cmphex(first->processes[i].mm, ==, second->processes[i].mm);
        g_assert_cmphex(first->processes[i].pgd, ==, p[i].pgd);
        g_assert_cmpstr(first->processes[i].comm, ==, p[i].comm);
    }
    g_assert_cmphex(first->processes[0].mm, !=, first->processes[1].mm);
    g_assert_cmphex(first->processes[2].mm, ==, 0);
    key[31] = 1;
    other = encode(&snapshot, key);
    g_assert_cmphex(first->processes[0].mm, !=, other->processes[0].mm);
    btrail_snapshot_free(first);
    btrail_snapshot_free(second);
    btrail_snapshot_free(other);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/user-snapshot/mm", test_mm);
    return g_test_run();
}
