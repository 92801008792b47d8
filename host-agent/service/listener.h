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
#include "service/process.h"

struct btrail_listener;

/* A new connection, and whose it is; @sock is taken. */
typedef void btrail_listener_fn(void *opaque, int sock,
                                const struct btrail_peer *peer);

/* What is behind the path of the socket for devices, for that of ports */
#define BTRAIL_LISTENER_NAMES   ".names"

/* Who connects.  Create that for devices first. */
enum btrail_listener_kind {
    BTRAIL_LISTENER_OF_DEVICES,
    BTRAIL_LISTENER_OF_PORTS,
};

/* Is NULL, without an error, if systemd has passed no socket for ports. */
struct btrail_listener *btrail_listener_new(const struct btrail_config *config,
                                            enum btrail_listener_kind kind,
                                            btrail_listener_fn *accepted,
                                            void *opaque, GError **error);

/* Accepts no more connections; removes the socket that it has bound itself. */
void btrail_listener_free(struct btrail_listener *l);

#endif /* BTRAIL_LISTENER_H */
