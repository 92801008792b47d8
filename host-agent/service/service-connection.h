/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connections of devices to the service
 *
 * A device has one control connection, and one for data while it records.
 * The first message of a new connection says which one it is.
 */

#ifndef BTRAIL_SERVICE_CONNECTION_H
#define BTRAIL_SERVICE_CONNECTION_H

#include "service/host.h"
#include "service/names-port.h"
#include "service/process.h"

/**
 * struct btrail_connections - all of a service; each has a struct of its own
 * @host:    whose guests they belong to
 * @unknown: that have not sent anything
 * @control: control connections
 * @ports:   those of guests that say names; see btrail_connections_port()
 */
struct btrail_connections {
    struct btrail_host *host;
    GPtrArray *unknown;
    GPtrArray *control;
    struct btrail_names_ports *ports;
};

void btrail_connections_init(struct btrail_connections *all,
                             struct btrail_host *host);

/* Hang up; guests learn that their devices are not connected. */
void btrail_connections_clear(struct btrail_connections *all);

/* A btrail_listener_fn, with a struct btrail_connections */
void btrail_connections_add(void *all, int sock,
                            const struct btrail_peer *peer);

#endif /* BTRAIL_SERVICE_CONNECTION_H */
