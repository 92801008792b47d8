/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guests that libvirt runs
 */

#ifndef BTRAIL_CLI_GUEST_H
#define BTRAIL_CLI_GUEST_H

#include <json-glib/json-glib.h>
#include <libvirt/libvirt.h>
#include <stdbool.h>

/**
 * struct cli_guest - a domain and the way to it
 * @uri:    NULL for what libvirt takes by default
 * @domain: NULL if it was not asked for
 */
struct cli_guest {
    virConnectPtr connection;
    virDomainPtr domain;
};

/* Find a domain by its name, UUID or number (@name may be NULL for none).
 * False and *@why, to be freed. */
bool cli_guest_open(struct cli_guest *guest, const char *uri,
                    const char *name, char **why);
void cli_guest_close(struct cli_guest *guest);

/* What libvirt says about the error that has just been */
const char *cli_guest_error(void);

/* Who has refused what was asked for */
enum cli_guest_refusal {
    CLI_GUEST_LIBVIRT,          /* or nobody who can be told */
    CLI_GUEST_NO_COMMAND,       /* QEMU does not know the command */
    CLI_GUEST_NO_DEVICE,        /* it has no branch-trace device */
    CLI_GUEST_REFUSED,          /* QEMU, or its agent */
};

/**
 * cli_guest_execute - have the domain's QEMU execute a command
 * @arguments: taken; NULL for none
 * @refusal:   who it was, if NULL is returned; may be NULL
 * @why:       a sentence, to be freed, if NULL is returned
 *
 * Returns what the command has returned, an object.
 */
JsonNode *cli_guest_execute(struct cli_guest *guest, const char *command,
                            JsonObject *arguments,
                            enum cli_guest_refusal *refusal, char **why);

/* The same of a command to the agent, through QEMU. */
JsonNode *cli_guest_ask_agent(struct cli_guest *guest, JsonObject *command,
                              unsigned timeout_ms,
                              enum cli_guest_refusal *refusal, char **why);

#endif /* BTRAIL_CLI_GUEST_H */
