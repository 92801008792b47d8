/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Locks that keep two processes of the service apart: see lock.h
 */

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "service/lock.h"

int service_lock(const char *path, const char *does, const char *what,
                 GError **error)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0) {
        service_fail_errno(error, "%s", path);
        return -1;
    }
    if (!flock(fd, LOCK_EX | LOCK_NB)) {
        return fd;
    }
    if (errno == EWOULDBLOCK) {
        service_fail(error, SERVICE_ERROR_CONFIG,
                     "another backtraild %s %s", does, what);
    } else {
        service_fail_errno(error, "%s", path);
    }
    close(fd);
    return -1;
}
