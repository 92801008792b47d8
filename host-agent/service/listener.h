/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The sockets that others connect to: devices to one, and to the other one the
 * ports through which guests say names.  What comes from there is a guest's
 * word, and must not pass for a device's.
 *
 * systemd passes them if backtraild.socket is enabled, and then decides their
 * paths, permissions and group.  Otherwise the service binds them itself as its
 * configuration says.
 */

#ifndef BTRAIL_LISTENER_H
#define BTRAIL_LISTENER_H

#include "service/config.h"
#include "service/peer-process.h"

struct listener;

/* A new connection, and whose it is; @sock is taken. */
typedef void listener_fn(void *opaque, int sock,
                         const struct peer_process *peer);

/* What is after the path of the socket for devices, for that of ports */
#define LISTENER_NAMES   ".names"

/* Who connects.  Create that for devices first. */
enum listener_kind {
    LISTENER_OF_DEVICES,
    LISTENER_OF_PORTS,
};

/* Is NULL, without an error, if systemd has passed no socket for ports. */
struct listener *listener_new(const struct config *config,
                              enum listener_kind kind,
                              listener_fn *accepted,
                              void *opaque, GError **error);

/*
 * Refuses all connections from now on, and returns true.  If some wait, that
 * were made already, they are accepted instead, and so are others after them;
 * @config as for listener_new().
 */
bool listener_refuse(struct listener *l, const struct config *config);

/* Accepts no more connections; removes the socket that it has bound itself. */
void listener_free(struct listener *l);

#endif /* BTRAIL_LISTENER_H */
