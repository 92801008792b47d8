/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * File descriptors that signal an event: see event-fd.h
 */

#include <errno.h>
#include <glib.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "util/event-fd.h"

int event_fd_new(void)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (fd < 0) {
        g_error("cannot make an eventfd: %s", g_strerror(errno));
    }
    return fd;
}

void event_fd_set(int fd)
{
    uint64_t one = 1;

    while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR) {
        continue;
    }
}

void event_fd_clear(int fd)
{
    uint64_t n;

    while (read(fd, &n, sizeof(n)) < 0 && errno == EINTR) {
        continue;
    }
}
