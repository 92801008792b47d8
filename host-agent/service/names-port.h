/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ports through which guests say names: QEMU connects each to the service
 *
 * Whose a port is, is known by the process at its other end, which has a control
 * connection, too.  What comes through it is read only while the guest is
 * traced.
 */

#ifndef BTRAIL_NAMES_PORT_H
#define BTRAIL_NAMES_PORT_H

#include "service/process.h"

struct btrail_names_ports;

/* Called when a process has connected a port. */
typedef void btrail_names_port_fn(void *opaque,
                                  const struct btrail_peer *peer);

/* @most: ports, of all processes together; of each, the last one counts */
struct btrail_names_ports *
btrail_names_ports_new(unsigned most, btrail_names_port_fn *connected,
                       void *opaque);
void btrail_names_ports_free(struct btrail_names_ports *all);

/* A btrail_listener_fn, with a struct btrail_names_ports */
void btrail_names_ports_add(void *all, int sock,
                            const struct btrail_peer *peer);

/* A descriptor of a process's port, to be closed; -1 if it has none */
int btrail_names_ports_get(const struct btrail_names_ports *all,
                           const struct btrail_peer *peer);

#endif /* BTRAIL_NAMES_PORT_H */
