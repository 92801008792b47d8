/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Threads that the host does not run: see vcpus.py
 *
 * To be preloaded.  A thread that gets SIGFPE, which QEMU blocks in none, says so
 * in the file that BACKTRAIL_HOLD_THREAD names, and goes on when that is gone.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const char *path;

static void hold(int signal)
{
    const struct timespec nap = { .tv_nsec = 10000000 };
    int saved = errno, fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);

    if (fd >= 0) {
        if (write(fd, ".", 1) != 1) {
            abort();
        }
        close(fd);
    }
    while (!access(path, F_OK)) {
        nanosleep(&nap, NULL);
    }
    errno = saved;
}

__attribute__((constructor)) static void begin(void)
{
    const struct sigaction action = {
        .sa_handler = hold, .sa_flags = SA_RESTART,
    };

    path = getenv("BACKTRAIL_HOLD_THREAD");
    if (path) {
        sigaction(SIGFPE, &action, NULL);
    }
}
