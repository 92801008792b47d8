/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much memory something takes: see grown.h
 */

#include <glib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "grown.h"

static uint64_t peak(void)
{
    struct rusage usage;

    g_assert_cmpint(getrusage(RUSAGE_SELF, &usage), ==, 0);
    return (uint64_t)usage.ru_maxrss << 10;
}

uint64_t grown(void (*run)(void *opaque), void *opaque)
{
    uint64_t size = 0;
    int fds[2], status;
    pid_t pid;

    g_assert_cmpint(pipe(fds), ==, 0);
    pid = fork();
    if (!pid) {
        uint64_t before = peak();

        run(opaque);
        size = peak() - before;
        _exit(write(fds[1], &size, sizeof(size)) != sizeof(size));
    }
    g_assert_cmpint(pid, >, 0);
    close(fds[1]);
    g_assert_cmpint(read(fds[0], &size, sizeof(size)), ==, sizeof(size));
    close(fds[0]);
    g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
    g_assert_cmpint(status, ==, 0);
    return size;
}
