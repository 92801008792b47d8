/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connections to unix sockets
 */

#ifndef BTRAIL_UNIX_SOCKET_H
#define BTRAIL_UNIX_SOCKET_H

#include <glib.h>

/* Returns a stream to the socket at a path, to be closed; or -1. */
int unix_connect(const char *path, GError **error);

/* The same for a socket of any type, such as SOCK_DGRAM; -1 sets errno, to
 * ENAMETOOLONG if no socket can have this path. */
int unix_try(const char *path, int type);

#endif /* BTRAIL_UNIX_SOCKET_H */
