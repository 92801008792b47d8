/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * File descriptors that signal an event, between threads
 */

#include <fcntl.h>
#include <glib.h>
#include <poll.h>
#include <stdbool.h>
#include <unistd.h>

#include "util/event-fd.h"

static bool is_set(int fd, int timeout_ms)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };

    g_assert_cmpint(poll(&p, 1, timeout_ms), >=, 0);
    return p.revents & POLLIN;
}

static void test_set_and_clear(void)
{
    int fd = event_fd_new();

    g_assert_false(is_set(fd, 0));
    /* None of this waits. */
    event_fd_clear(fd);
    g_assert_false(is_set(fd, 0));
    event_fd_set(fd);
    event_fd_set(fd);
    g_assert_true(is_set(fd, 0));
    g_assert_true(is_set(fd, 0));
    event_fd_clear(fd);
    g_assert_false(is_set(fd, 0));
    event_fd_set(fd);
    g_assert_true(is_set(fd, 0));
    close(fd);
}

/* Programs that are started do not inherit it. */
static void test_not_inherited(void)
{
    int fd = event_fd_new();

    g_assert_cmpint(fcntl(fd, F_GETFD), ==, FD_CLOEXEC);
    close(fd);
}

static gpointer set(gpointer fd)
{
    event_fd_set(GPOINTER_TO_INT(fd));
    return NULL;
}

static void test_other_thread(void)
{
    int fd = event_fd_new();
    GThread *thread = g_thread_new("set", set, GINT_TO_POINTER(fd));

    g_assert_true(is_set(fd, 60000));
    g_thread_join(thread);
    close(fd);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/event-fd/set-and-clear", test_set_and_clear);
    g_test_add_func("/event-fd/not-inherited", test_not_inherited);
    g_test_add_func("/event-fd/other-thread", test_other_thread);
    return g_test_run();
}
