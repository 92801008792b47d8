/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The host's TSC and its clock: what the kernel says of a real event, and what
 * no kernel says
 */

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <glib.h>

#include "pt/host-tsc.h"
#include "util/clock.h"

#define SECOND  UINT64_C(1000000000)

static struct perf_event_mmap_page page_of(uint32_t mult, unsigned shift)
{
    struct perf_event_mmap_page page = {
        .cap_user_time = 1, .cap_user_time_zero = 1,
        .time_mult = mult, .time_shift = shift,
    };

    return page;
}

static void test_said(void)
{
    /* As Linux says it of a TSC of 2 GHz, and of 2.6 GHz */
    struct perf_event_mmap_page page = page_of(1u << 30, 31), none = page;

    g_assert_cmpuint(host_tsc_said(&page), ==, 2 * SECOND);
    page.time_mult = 1651910498;
    page.time_shift = 32;
    g_assert_cmpuint(host_tsc_said(&page) / 1000, ==, 2600000);
    /* It is not the clock; or there is none */
    none.cap_user_time_zero = 0;
    g_assert_cmpuint(host_tsc_said(&none), ==, 0);
    none.cap_user_time_zero = 1;
    none.cap_user_time = 0;
    g_assert_cmpuint(host_tsc_said(&none), ==, 0);
    /* It is being written all the time. */
    page.lock = 7;
    g_assert_cmpuint(host_tsc_said(&page), ==, 0);
    page.lock = 8;
    g_assert_cmpuint(host_tsc_said(&page), >, 0);
    /* Nonsense */
    page = page_of(0, 10);
    g_assert_cmpuint(host_tsc_said(&page), ==, 0);
    page = page_of(1, 64);
    g_assert_cmpuint(host_tsc_said(&page), ==, 0);
    page = page_of(1, 63);
    g_assert_cmpuint(host_tsc_said(&page), ==, 0);
    page = page_of(UINT32_MAX, 0);
    g_assert_cmpuint(host_tsc_said(&page), ==, 0);
}

static void test_hz(void)
{
    const struct host_tsc first = { 1000, 50, 0 };
    struct host_tsc last = { 1000 + 4000000, 50 + 2000000, 0 };

    /* Too short for more than the kernel's word */
    g_assert_cmpuint(host_tsc_hz(&first, &last, 2 * SECOND), ==, 2 * SECOND);
    g_assert_cmpuint(host_tsc_hz(&first, &last, 2001 * SECOND / 1000), ==,
                     2001 * SECOND / 1000);
    g_assert_cmpuint(host_tsc_hz(&first, &last, 3 * SECOND), ==, 0);
    g_assert_cmpuint(host_tsc_hz(&first, &last, SECOND), ==, 0);
    g_assert_cmpuint(host_tsc_hz(&first, &last, 0), ==, 0);
    /* So uncertain that it can be so */
    last.off = 2000001;
    g_assert_cmpuint(host_tsc_hz(&first, &last, 3 * SECOND), ==, 3 * SECOND);
    last.off = 0;
    /* A clock that is slewed by 0.02% */
    last = (struct host_tsc){ 1000 + 20 * SECOND, 50 + 10002 * SECOND / 1000,
                              0 };
    g_assert_cmpuint(host_tsc_hz(&first, &last, 2 * SECOND), ==,
                     20 * SECOND * 1000 / 10002);
    /* The host slept, and its TSC began anew; or went on. */
    last.tsc = 999;
    g_assert_cmpuint(host_tsc_hz(&first, &last, 2 * SECOND), ==, 0);
    last.tsc = 1000 + 80 * SECOND;
    g_assert_cmpuint(host_tsc_hz(&first, &last, 2 * SECOND), ==, 0);
    last.tsc = UINT64_MAX;
    last.ns = UINT64_MAX;
    g_assert_cmpuint(host_tsc_hz(&first, &last, 2 * SECOND), ==, 0);
    last.ns = 50;
    g_assert_cmpuint(host_tsc_hz(&first, &last, 2 * SECOND), ==, 0);
}

/* This host's: a moment in between is where both ends say it is. */
static void test_now(void)
{
    struct host_tsc first, middle, last;
    uint64_t hz, before = clock_ns(), after, ns, off;

    if (!host_tsc_now(&first)) {
        g_test_skip("this CPU has no TSC");
        return;
    }
    after = clock_ns();
    g_assert_cmpuint(before, <=, first.ns);
    g_assert_cmpuint(first.ns, <=, after);
    g_usleep(200000);
    host_tsc_now(&middle);
    g_usleep(300000);
    host_tsc_now(&last);
    hz = (last.tsc - first.tsc) * SECOND / (last.ns - first.ns);
    ns = last.ns - (last.tsc - middle.tsc) * SECOND / hz;
    off = (first.off + middle.off + last.off) * SECOND / hz;
    g_test_message("%" G_GUINT64_FORMAT " Hz; %" G_GINT64_FORMAT " ns off, of "
                   "at most %" G_GUINT64_FORMAT, hz,
                   (gint64)(ns - middle.ns), off);
    /* And what NTP does meanwhile: 0.05% of half a second */
    g_assert_cmpint(ABS((gint64)(ns - middle.ns)), <=,
                    (gint64)(off + 250000));
    g_assert_cmpuint(host_tsc_hz(&first, &last, hz), ==, hz);
    g_assert_cmpuint(host_tsc_hz(&first, &last, hz + hz / 10), ==, 0);
}

/* perf's clock is not CLOCK_MONOTONIC; its TSC counts as fast as it says. */
static void test_event(void)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr),
        .config = PERF_COUNT_SW_CPU_CLOCK, .disabled = 1, .exclude_kernel = 1,
    };
    struct perf_event_mmap_page *page;
    struct host_tsc first, last;
    size_t size = (size_t)sysconf(_SC_PAGESIZE) * 2;
    uint64_t said, hz;
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1,
                          PERF_FLAG_FD_CLOEXEC);

    if (fd < 0 || !host_tsc_now(&first)) {
        g_test_skip("no events here");
        return;
    }
    page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    g_assert_true(page != MAP_FAILED);
    said = host_tsc_said(page);
    if (!said) {
        g_test_skip("this kernel does not keep time by the TSC");
    } else {
        g_usleep(1100000);
        host_tsc_now(&last);
        hz = host_tsc_hz(&first, &last, said);
        g_test_message("%" G_GUINT64_FORMAT " Hz, said to be %"
                       G_GUINT64_FORMAT, hz, said);
        g_assert_cmpuint(hz, >, 0);
    }
    munmap(page, size);
    close(fd);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/host-tsc/said", test_said);
    g_test_add_func("/host-tsc/hz", test_hz);
    g_test_add_func("/host-tsc/now", test_now);
    g_test_add_func("/host-tsc/event", test_event);
    return g_test_run();
}
