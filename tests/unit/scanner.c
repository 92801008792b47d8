/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of the scanner: guest-linux/scanner.h
 */

#include <glib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake-linux.h"
#include "guest-linux/scanner.h"

/* Longer than a search takes, and less than between two that nobody requests */
#define PAUSE_US    100000

struct rig {
    struct fake_linux guest;
    int ram;
    int named;                  /* how often tasks were said to be found */
    struct btrail_scanner *scanner;
};

static void write_ram(struct rig *r, const uint8_t *bytes)
{
    g_assert_cmpint(pwrite(r->ram, bytes, FAKE_SIZE, 0), ==, FAKE_SIZE);
}

static void got_found(void *opaque, const struct btrail_found *found)
{
    struct rig *r = opaque;

    if (found->tasks && found->tasks->switch_to) {
        g_atomic_int_inc(&r->named);
    }
}

/* A guest that has not booted */
static void start(struct rig *r, bool wait_for_scan)
{
    struct guest_memory_files files = {
        .reason = BTRAIL_MEMORY_SHARED,
        .head = { .ranges = 1, .files = 1 },
        .ranges[0] = { .size = FAKE_SIZE },
    };

    *r = (struct rig) { 0 };
    fake_linux_init(&r->guest, 0);
    r->ram = memfd_create("ram", MFD_CLOEXEC);
    g_assert_cmpint(ftruncate(r->ram, FAKE_SIZE), ==, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(files.fds); i++) {
        files.fds[i] = -1;
    }
    files.fds[0] = r->ram;
    r->scanner = btrail_scanner_new(&files, wait_for_scan, NULL, got_found, r);
}

static void finish(struct rig *r)
{
    struct btrail_scanner_result result;

    btrail_scanner_finish(r->scanner, &result);
    g_assert_cmpstr(result.release, !=, NULL);
    btrail_scanner_result_clear(&result);
    fake_linux_clear(&r->guest);
    close(r->ram);
}

static bool has_kernel(struct rig *r)
{
    struct btrail_scanner_result result;
    bool has;

    btrail_scanner_status(r->scanner, &result);
    has = result.release && result.snapshots;
    btrail_scanner_result_clear(&result);
    return has;
}

/* A guest that waits for the scanner has its kernel found as soon as it runs. */
static void test_boot(void)
{
    struct rig r;

    start(&r, true);
    g_usleep(PAUSE_US);
    g_assert_false(has_kernel(&r));
    write_ram(&r, r.guest.memory);
    g_assert_true(btrail_scanner_report_cr3(r.scanner, FAKE_ROOT));
    btrail_scanner_request(r.scanner);
    btrail_scanner_wait(r.scanner);
    g_assert_true(has_kernel(&r));
    g_assert_cmpint(g_atomic_int_get(&r.named), ==, 1);
    finish(&r);
}

/* No other guest is kept from running by a search. */
static void test_not_waited_for(void)
{
    gint64 begin;
    struct rig r;

    start(&r, false);
    g_usleep(PAUSE_US);
    write_ram(&r, r.guest.memory);
    begin = g_get_monotonic_time();
    btrail_scanner_request(r.scanner);
    btrail_scanner_wait(r.scanner);
    g_assert_false(has_kernel(&r));
    g_assert_cmpint(g_get_monotonic_time() - begin, <, G_TIME_SPAN_SECOND / 2);
    finish(&r);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/scanner/boot", test_boot);
    g_test_add_func("/scanner/not-waited-for", test_not_waited_for);
    return g_test_run();
}
