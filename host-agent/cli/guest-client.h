/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest that a command is about, and the way to the service that traces it
 *
 * A domain of libvirt is asked through libvirt, on any host, another guest
 * through its monitor.  QEMU forwards commands to the service that its device
 * names.  If that names none, it is the user's own, see own-service.h.
 */

#ifndef BTRAIL_GUEST_CLIENT_H
#define BTRAIL_GUEST_CLIENT_H

#include "client/service-client.h"
#include "libvirt/domain.h"

/**
 * struct cli_guest
 * @connect: libvirt's URI, or NULL
 * @qmp:     socket of QEMU's monitor, or NULL for a domain
 * @agent:   the service's socket, if commands must name it
 * @name:    of the domain, or @qmp, for messages
 * @domain:  open for a domain
 */
struct cli_guest {
    char *connect;
    char *qmp;
    char *agent;
    const char *name;
    struct domain domain;
};

#define CLI_GUEST_ENTRIES(g)                                                \
    { "connect", 'c', 0, G_OPTION_ARG_STRING, &(g)->connect,                \
      "with DOMAIN: libvirt's URI (default: as for virsh)", "URI" },        \
    { "qmp", 0, 0, G_OPTION_ARG_FILENAME, &(g)->qmp,                        \
      "unix socket of QEMU's QMP monitor, for a guest that libvirt does "   \
      "not run", "SOCKET" },                                                \
    { "agent", 0, 0, G_OPTION_ARG_FILENAME, &(g)->agent,                    \
      "with --qmp: unix socket of the service (default: that of the "       \
      "device, or your own)", "SOCKET" }

/* Is there one way to the guest?  @domain may be NULL. */
bool cli_guest_check(const struct cli_guest *g, const char *domain);

/**
 * cli_guest_open - find the guest
 * @domain: NULL with @g->qmp
 *
 * For a guest whose device names no service, this starts the user's own one.
 */
bool cli_guest_open(struct cli_guest *g, const char *domain, GError **error);

/* Has the domain, or QEMU, ended? */
bool cli_guest_is_off(struct cli_guest *g);

/**
 * cli_guest_execute - have QEMU execute a QMP command
 * @arguments: taken; NULL for none
 *
 * Errors are those of domain_execute().
 */
JsonObject *cli_guest_execute(struct cli_guest *g, const char *command,
                              JsonObject *arguments, GError **error);

/* The same for a command to the service, which is taken */
JsonObject *cli_guest_ask(struct cli_guest *g, JsonObject *command,
                          GError **error);

/* The way to the service, which @g has to outlive */
struct service_client cli_guest_client(struct cli_guest *g);

/* Prints why a guest could not be asked, and what to do about it. */
void cli_guest_explain(const struct cli_guest *g, const GError *error);

/* Closes what is open; the options stay. */
void cli_guest_close(struct cli_guest *g);
void cli_guest_clear(struct cli_guest *g);

#endif /* BTRAIL_GUEST_CLIENT_H */
