/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guests that libvirt runs: see guest.h
 */

#include <libvirt/virterror.h>

#include "guest.h"

const char *cli_guest_error(void)
{
    const char *message = virGetLastErrorMessage();

    return message ? message : "unknown error of libvirt";
}

/* libvirt would print errors by itself. */
static void be_quiet(void *opaque, virErrorPtr error)
{
}

static virDomainPtr lookup(virConnectPtr connection, const char *name)
{
    virDomainPtr domain = virDomainLookupByName(connection, name);
    char *end;
    guint64 id;

    if (!domain) {
        domain = virDomainLookupByUUIDString(connection, name);
    }
    if (!domain && g_ascii_isdigit(*name)) {
        id = g_ascii_strtoull(name, &end, 10);
        if (!*end && id <= G_MAXINT) {
            domain = virDomainLookupByID(connection, id);
        }
    }
    return domain;
}

bool cli_guest_open(struct cli_guest *guest, const char *uri,
                    const char *name, char **why)
{
    guest->domain = NULL;
    virSetErrorFunc(NULL, be_quiet);
    guest->connection = virConnectOpenAuth(uri, virConnectAuthPtrDefault, 0);
    if (!guest->connection) {
        *why = g_strdup_printf("cannot connect to libvirt: %s",
                               cli_guest_error());
        return false;
    }
    if (name) {
        guest->domain = lookup(guest->connection, name);
        if (!guest->domain) {
            g_autofree char *where = virConnectGetURI(guest->connection);

            *why = g_strdup_printf("%s has no domain '%s'; virsh -c %s list "
                                   "--all shows those that there are",
                                   where, name, where);
            cli_guest_close(guest);
            return false;
        }
    }
    return true;
}

void cli_guest_close(struct cli_guest *guest)
{
    if (guest->domain) {
        virDomainFree(guest->domain);
    }
    if (guest->connection) {
        virConnectClose(guest->connection);
    }
    guest->domain = NULL;
    guest->connection = NULL;
}
