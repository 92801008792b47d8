/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reading from a place in a file
 */

#ifndef BTRAIL_PREAD_H
#define BTRAIL_PREAD_H

#include <errno.h>
#include <unistd.h>

#include "backtrail/trace.h"
#include "util/close.h"

/*
 * Reads @len bytes from @offset on; fewer only at the end of the file, and @len
 * then gets how many.  Errors: IO.
 */
static inline int btrail_pread(int fd, void *data, size_t *len,
                               uint64_t offset)
{
    uint8_t *p = data;
    size_t done = 0;

    while (done < *len) {
        ssize_t n = pread(fd, p + done, *len - done, offset + done);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -BTRAIL_ERR_IO;
        }
        if (!n) {
            break;
        }
        done += n;
    }
    *len = done;
    return 0;
}

/* The same, but all bytes must be there.  Errors: IO, CORRUPT. */
static inline int btrail_pread_all(int fd, void *data, size_t len,
                                   uint64_t offset)
{
    size_t got = len;
    int ret = btrail_pread(fd, data, &got, offset);

    return ret ? ret : got == len ? 0 : -BTRAIL_ERR_CORRUPT;
}

#endif /* BTRAIL_PREAD_H */
