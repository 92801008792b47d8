/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guests that libvirt runs
 */

#ifndef BTRAIL_CLI_GUEST_H
#define BTRAIL_CLI_GUEST_H

#include <glib.h>
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

#endif /* BTRAIL_CLI_GUEST_H */
