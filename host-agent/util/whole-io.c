/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading and writing of all that was asked for: see whole-io.h
 */

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/whole-io.h"

/* As write() */
typedef ssize_t put_fn(int fd, const void *bytes, size_t n);

static ssize_t put_on_socket(int sock, const void *bytes, size_t n)
{
    return send(sock, bytes, n, MSG_NOSIGNAL);
}

static int put_all(int fd, const void *bytes, size_t n, put_fn *put)
{
    const char *p = bytes;

    while (n) {
        ssize_t done = put(fd, p, n);

        if (done >= 0) {
            p += done;
            n -= done;
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

int whole_write(int fd, const void *bytes, size_t n)
{
    return put_all(fd, bytes, n, write);
}

int whole_send(int sock, const void *bytes, size_t n)
{
    return put_all(sock, bytes, n, put_on_socket);
}

ssize_t whole_read(int fd, void *bytes, size_t n)
{
    size_t got = 0;

    while (got < n) {
        ssize_t more = read(fd, (char *)bytes + got, n - got);

        if (more > 0) {
            got += more;
        } else if (!more) {
            break;
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return got;
}
