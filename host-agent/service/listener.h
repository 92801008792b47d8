/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The socket that devices connect to
 *
 * systemd passes it if backtraild.socket is enabled, and then decides its
 * path, permissions and group.  Otherwise the service binds it itself as its
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

struct btrail_listener *btrail_listener_new(const struct btrail_config *config,
                                            btrail_listener_fn *accepted,
                                            void *opaque, GError **error);

/* Accepts no more connections; removes the socket that it has bound itself. */
void btrail_listener_free(struct btrail_listener *l);

#endif /* BTRAIL_LISTENER_H */
