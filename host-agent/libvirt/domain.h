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
 * struct btrail_domain - a connection to libvirt, and a domain of it
 * @domain: NULL if only the connection was asked for
 */
struct btrail_domain {
    virConnectPtr connection;
    virDomainPtr domain;
};

/**
 * btrail_domain_open - connect to libvirt and find a domain
 * @uri:  NULL for libvirt's default
 * @name: name, UUID or number of the domain; NULL for the connection only
 *
 * Errors: SYSTEM (no connection), CLOSED (there is no such domain).
 */
bool btrail_domain_open(struct btrail_domain *d, const char *uri,
                        const char *name, GError **error);
void btrail_domain_close(struct btrail_domain *d);

/* Is libvirt's host this one?  A URI of another host names it. */
bool btrail_domain_is_local(const char *uri);

/* The message of libvirt's last error */
const char *btrail_domain_last_error(void);

/**
 * btrail_domain_execute - have the domain's QEMU execute a QMP command
 * @arguments: taken; NULL for none
 *
 * Returns the result, or NULL and an error of agent-error.h:
 * SYSTEM is one of libvirt, NO_COMMAND and NO_DEVICE mean that this QEMU
 * cannot trace, COMMAND is the message of QEMU or of its agent.
 */
JsonObject *btrail_domain_execute(struct btrail_domain *d, const char *command,
                                  JsonObject *arguments, GError **error);

/* The same for files that go along, and for who has another monitor elsewhere;
 * @d has to outlive it. */
struct btrail_qmp *btrail_domain_monitor(struct btrail_domain *d);

/* The same for a command to the agent, which QEMU forwards, and whose answer
 * it waits for for @timeout_ms */
JsonObject *btrail_domain_ask_agent(struct btrail_domain *d,
                                    JsonObject *command, unsigned timeout_ms,
                                    GError **error);

#endif /* BTRAIL_LIBVIRT_DOMAIN_H */
