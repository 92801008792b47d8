/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sockets that others connect to: whoever listens, listens with one of these
 *
 * It is known who connects before a byte is read or written: processes of this
 * user, and of root.  Where others may connect, too, as to the service, that is
 * said.
 */

#ifndef BTRAIL_SERVER_SOCKET_H
#define BTRAIL_SERVER_SOCKET_H

#include "util/agent-error.h"

struct server_socket;

/* A connection, which does not block and is closed on exec; it is taken. */
typedef void server_socket_fn(void *opaque, int sock);

/*
 * A unix socket, to which this user alone can connect, and which is removed
 * with its folder.  It is served in the default main context, as all are.
 */
struct server_socket *server_socket_unix(const char *path,
                                         server_socket_fn *accepted,
                                         void *opaque, GError **error);

/*
 * A TCP port of the loopback interface, of IPv4 and of IPv6 if the host has it:
 * a client that has a choice comes here, and to nobody else.  *@port 0 is any
 * that is free, which it gets.  An error, too, if the kernel does not say whose
 * connections are.
 */
struct server_socket *server_socket_port(unsigned *port,
                                         server_socket_fn *accepted,
                                         void *opaque, GError **error);

/**
 * server_socket_take - serve a socket that listens already, for anybody who may
 * connect to it
 * @sock:   stays the caller's
 * @failed: called when no connection can be accepted for a while; errno says
 *          why
 */
struct server_socket *server_socket_take(int sock, server_socket_fn *accepted,
                                         void (*failed)(void *opaque),
                                         void *opaque);

/*
 * Accepts what waits, at once: for callers that do not come to the main loop
 * soon
 */
void server_socket_accept(struct server_socket *s);

/*
 * Becomes readable when somebody has connected, for callers that wait for that
 * elsewhere; of a unix socket
 */
int server_socket_fd(const struct server_socket *s);

/* Accepts no more connections, and closes the sockets that it has made. */
void server_socket_free(struct server_socket *s);

#endif /* BTRAIL_SERVER_SOCKET_H */
