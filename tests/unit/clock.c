/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Clocks of the host, compared with what the kernel says
 */

#include <glib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "util/clock.h"

#define WORK_NS     UINT64_C(50000000)
/* Above all that Linux gives */
#define NO_PID      (1 << 28)

/* CPU time of this thread, by getrusage() */
static uint64_t used_us(void)
{
    struct rusage u;

    g_assert_cmpint(getrusage(RUSAGE_THREAD, &u), ==, 0);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * UINT64_C(1000000) +
           u.ru_utime.tv_usec + u.ru_stime.tv_usec;
}

static void test_monotonic(void)
{
    gint64 before = g_get_monotonic_time();
    uint64_t first = clock_ns(), second = clock_ns();
    gint64 after = g_get_monotonic_time();

    g_assert_cmpuint(first / 1000, >=, before);
    g_assert_cmpuint(second, >=, first);
    g_assert_cmpuint(second / 1000, <=, after);
}

static gpointer work(gpointer used)
{
    uint64_t begin = clock_cpu_ns();

    while (clock_cpu_ns() - begin < WORK_NS) {
        continue;
    }
    *(uint64_t *)used = used_us();
    return NULL;
}

static void test_cpu(void)
{
    uint64_t begin = clock_ns(), own = clock_cpu_ns(), used;
    uint64_t all = clock_process_ns(getpid());

    g_thread_join(g_thread_new("work", work, &used));
    /* It takes as long at least; clocks differ by a little. */
    g_assert_cmpuint(clock_ns() - begin, >=, WORK_NS / 2);
    g_assert_cmpuint(used, >=, WORK_NS / 1000 / 2);
    /* To wait for another thread is no work. */
    g_assert_cmpuint(clock_cpu_ns() - own, <, WORK_NS / 2);
    /* But it is work of this process. */
    g_assert_cmpuint(clock_process_ns(getpid()) - all, >=, WORK_NS / 2);
    g_assert_cmpuint(clock_process_ns(NO_PID), ==, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/clock/monotonic", test_monotonic);
    g_test_add_func("/clock/cpu", test_cpu);
    return g_test_run();
}
