/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading and writing of all that was asked for
 */

#ifndef BTRAIL_WHOLE_IO_H
#define BTRAIL_WHOLE_IO_H

#include <stddef.h>
#include <sys/types.h>

/* Writes all bytes.  Returns 0, or errno after an error. */
int whole_write(int fd, const void *bytes, size_t n);

/* The same to a socket.  A peer that has hung up is EPIPE, and no signal. */
int whole_send(int sock, const void *bytes, size_t n);

/*
 * Reads until there are this many bytes, or the file ends.  Returns how many
 * there are; -1 with errno after an error.
 */
ssize_t whole_read(int fd, void *bytes, size_t n);

#endif /* BTRAIL_WHOLE_IO_H */
