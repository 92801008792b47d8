/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ports through which guests say names: QEMU connects each to the service
 *
 * A port is that of the guest whose process is at its other end, which has a
 * control connection, too.  What comes through it is read only while the guest
 * is traced.
 */

#ifndef BTRAIL_NAMES_PORT_H
#define BTRAIL_NAMES_PORT_H

#include "service/peer-process.h"

struct names_ports;

/* Called when a process has connected a port. */
typedef void names_port_fn(void *opaque,
                           const struct peer_process *peer);

/* @most: ports, of all processes together; of each, the last one counts */
struct names_ports *
names_ports_new(unsigned most, names_port_fn *connected,
                void *opaque);
void names_ports_free(struct names_ports *all);

/* A listener_fn, with a struct names_ports */
void names_ports_add(void *all, int sock,
                     const struct peer_process *peer);

/* A descriptor of a process's port, to be closed; -1 if it has none */
int names_ports_get(const struct names_ports *all,
                    const struct peer_process *peer);

#endif /* BTRAIL_NAMES_PORT_H */
