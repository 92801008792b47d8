/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connections to unix sockets
 */

#ifndef BTRAIL_UNIX_SOCKET_H
#define BTRAIL_UNIX_SOCKET_H

#include <glib.h>

/* Returns a stream to the socket at a path, to be closed; or -1. */
int btrail_unix_connect(const char *path, GError **error);

#endif /* BTRAIL_UNIX_SOCKET_H */
