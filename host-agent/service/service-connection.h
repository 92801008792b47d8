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
#include "service/peer-process.h"

/**
 * struct connections - all of a service; each has a struct of its own
 * @host:    whose guests they belong to
 * @unknown: that have not sent anything
 * @control: control connections
 * @ports:   those of guests that say names; see connections_port()
 */
struct connections {
    struct host *host;
    GPtrArray *unknown;
    GPtrArray *control;
    struct names_ports *ports;
};

void connections_init(struct connections *all,
                      struct host *host);

/* Hang up; guests learn that their devices are not connected. */
void connections_clear(struct connections *all);

/* A listener_fn, with a struct connections */
void connections_add(void *all, int sock,
                     const struct peer_process *peer);

#endif /* BTRAIL_SERVICE_CONNECTION_H */
