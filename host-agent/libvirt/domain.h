/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A domain of libvirt, and commands to its QEMU
 */

#ifndef BTRAIL_LIBVIRT_DOMAIN_H
#define BTRAIL_LIBVIRT_DOMAIN_H

#include <json-glib/json-glib.h>
#include <libvirt/libvirt.h>
#include <stdbool.h>

#include "monitor/qmp.h"

/**
 * struct domain - a connection to libvirt, and a domain of it
 * @domain: NULL if only the connection was asked for
 */
struct domain {
    virConnectPtr connection;
    virDomainPtr domain;
};

/**
 * domain_open - connect to libvirt and find a domain
 * @uri:  NULL for libvirt's default
 * @name: name, UUID or number of the domain; NULL for the connection only
 *
 * Errors: SYSTEM (no connection), CLOSED (there is no such domain).
 */
bool domain_open(struct domain *d, const char *uri,
                 const char *name, GError **error);
void domain_close(struct domain *d);

/* Is libvirt's host this one?  A URI of another host names it. */
bool domain_is_local(const char *uri);

/* The message of libvirt's last error */
const char *domain_last_error(void);

/**
 * domain_execute - have the domain's QEMU execute a QMP command
 * @arguments: taken; NULL for none
 *
 * Returns the result, or NULL and an error of agent-error.h:
 * SYSTEM is one of libvirt, NO_COMMAND and NO_DEVICE mean that this QEMU
 * cannot trace, COMMAND is the message of QEMU or of its agent.
 */
JsonObject *domain_execute(struct domain *d, const char *command,
                           JsonObject *arguments, GError **error);

/*
 * The same for files that go along, and for callers that have another monitor
 * elsewhere; @d has to outlive it.
 */
struct qmp *domain_monitor(struct domain *d);

#endif /* BTRAIL_LIBVIRT_DOMAIN_H */
