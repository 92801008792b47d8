/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Waiting for a file descriptor: ready, broken, too late and cancelled
 */

#include <poll.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "util/wait.h"

static int data[2], cancel[2];

static void setup(void)
{
    g_assert_cmpint(pipe(data), ==, 0);
    g_assert_cmpint(pipe(cancel), ==, 0);
}

static void teardown(void)
{
    close(data[0]);
    close(data[1]);
    close(cancel[0]);
    close(cancel[1]);
}

/* So many microseconds pass each time that somebody looks at the clock. */
static gint64 haste;

gint64 g_get_monotonic_time(void)
{
    static gint64 ahead;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    ahead += haste;
    return now.tv_sec * G_USEC_PER_SEC + now.tv_nsec / 1000 + ahead;
}

static gint64 in_ms(int ms)
{
    return g_get_monotonic_time() + ms * 1000;
}

static void test_ready(void)
{
    setup();
    g_assert_cmpint(write(data[1], "x", 1), ==, 1);
    g_assert_true(wait_for_fd(data[0], POLLIN, -1, -1, "late", NULL));
    g_assert_true(wait_for_fd(data[0], POLLIN, in_ms(60000), cancel[0],
                              "late", NULL));
    /* Even if it is too late */
    g_assert_true(wait_for_fd(data[0], POLLIN, 0, cancel[0], "late", NULL));
    g_assert_true(wait_for_fd(data[1], POLLOUT, -1, -1, "late", NULL));
    teardown();
}

/* A broken descriptor counts as ready: a read reports what is wrong. */
static void test_broken(void)
{
    setup();
    close(data[1]);
    g_assert_true(wait_for_fd(data[0], POLLIN, -1, -1, "late", NULL));
    teardown();
}

static void test_late(void)
{
    g_autoptr(GError) error = NULL;
    gint64 deadline;

    setup();
    deadline = in_ms(30);
    g_assert_false(wait_for_fd(data[0], POLLIN, deadline, cancel[0], "late",
                               &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_TIMEOUT);
    g_assert_cmpstr(error->message, ==, "late");
    g_assert_cmpint(g_get_monotonic_time(), >=, deadline);
    teardown();
}

/* The deadline passes while it is computed how long it is until then. */
static void test_passing(void)
{
    setup();
    for (gint64 step = 500; step < 5000; step += 500) {
        g_autoptr(GError) error = NULL;
        gint64 deadline = in_ms(6);

        haste = step;
        g_assert_false(wait_for_fd(data[0], POLLIN, deadline, -1, "late",
                                   &error));
        haste = 0;
        g_assert_error(error, AGENT_ERROR, AGENT_ERROR_TIMEOUT);
    }
    teardown();
}

static void test_cancelled(void)
{
    g_autoptr(GError) error = NULL;

    setup();
    g_assert_cmpint(write(data[1], "x", 1), ==, 1);
    g_assert_cmpint(write(cancel[1], "x", 1), ==, 1);
    g_assert_false(wait_for_fd(data[0], POLLIN, -1, cancel[0], "late",
                               &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_CANCELLED);
    teardown();
}

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
    signals++;
}

/* Signals neither end the wait nor postpone the deadline. */
static void test_interrupted(void)
{
    struct itimerval often = { { 0, 5000 }, { 0, 5000 } }, off = { 0 };
    g_autoptr(GError) error = NULL;
    gint64 deadline;

    setup();
    signal(SIGALRM, count_signal);
    g_assert_cmpint(setitimer(ITIMER_REAL, &often, NULL), ==, 0);
    deadline = in_ms(100);
    g_assert_false(wait_for_fd(data[0], POLLIN, deadline, -1, "late",
                               &error));
    g_assert_cmpint(setitimer(ITIMER_REAL, &off, NULL), ==, 0);
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_TIMEOUT);
    g_assert_cmpint(g_get_monotonic_time(), >=, deadline);
    g_assert_cmpint(signals, >, 0);
    teardown();
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/wait/ready", test_ready);
    g_test_add_func("/wait/broken", test_broken);
    g_test_add_func("/wait/late", test_late);
    g_test_add_func("/wait/passing", test_passing);
    g_test_add_func("/wait/cancelled", test_cancelled);
    g_test_add_func("/wait/interrupted", test_interrupted);
    return g_test_run();
}
