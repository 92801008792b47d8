/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Closing a file without a change of errno
 */

#ifndef BTRAIL_CLOSE_H
#define BTRAIL_CLOSE_H

#include <errno.h>
#include <unistd.h>

/* Closes a file, unless @fd is negative. */
static inline void btrail_close(int fd)
{
    int error = errno;

    if (fd >= 0) {
        close(fd);
    }
    errno = error;
}

#endif /* BTRAIL_CLOSE_H */
