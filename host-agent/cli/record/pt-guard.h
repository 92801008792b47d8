/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A process that lets a guest go on which this one has stopped if this one ends
 * without doing so: killed, or by a fault
 *
 * It is a copy of this process with nothing but a connection to the guest's
 * monitor or to libvirt, and a socket, whose end says that this one has ended.
 * Signals that end this process do not end it.
 */

#ifndef BTRAIL_CLI_PT_GUARD_H
#define BTRAIL_CLI_PT_GUARD_H

#include <glib.h>
#include <stdbool.h>

#include "monitor/qmp.h"

struct pt_guard;

/**
 * pt_guard_monitor - one for a guest with a monitor
 * @name: of the guest, for what is printed
 * @qmp:  with which this process stops the guest.  The other one uses the same
 *        connection once this one has ended; until then it reads nothing of it
 *
 * Returns NULL and @error if there can be no more processes.
 */
struct pt_guard *pt_guard_monitor(const char *name, struct qmp *qmp,
                                  GError **error);

/**
 * pt_guard_domain - one for a domain of libvirt
 * @connect: libvirt's URI, or NULL
 *
 * To be called before this process loads libvirt; the other one has a
 * connection of its own.  Returns NULL and @error if it can have none.
 */
struct pt_guard *pt_guard_domain(const char *connect, const char *domain,
                                 GError **error);

/*
 * From now on it is this process that has the guest stand still, or will in a
 * moment.
 */
void pt_guard_stops(struct pt_guard *g);

/* It is not, any more: the guest has gone on, whoever let it. */
void pt_guard_released(struct pt_guard *g);

/*
 * Ends the other process.  If the guest is still stopped by this one it goes
 * on after all, if that is possible within 30 s; nobody waits for that.  NULL:
 * none
 */
void pt_guard_free(struct pt_guard *g);

#endif /* BTRAIL_CLI_PT_GUARD_H */
