/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A domain of libvirt, and commands to its QEMU: see domain.h
 */

#include <libvirt/libvirt-qemu.h>
#include <libvirt/virterror.h>
#include <stdlib.h>
#include <string.h>

#include "libvirt/domain.h"
#include "libvirt/load.h"
#include "monitor/qmp.h"
#include "util/json.h"

const char *domain_last_error(void)
{
    const char *message = virGetLastErrorMessage();

    return message ? message : "unknown error of libvirt";
}

bool domain_is_local(const char *uri)
{
    const char *host = uri ? strstr(uri, "://") : NULL;

    return host && host[3] == '/';
}

/* Keeps libvirt from printing errors itself. */
static void ignore_error(void *opaque, virErrorPtr error)
{
}

static virDomainPtr lookup(virConnectPtr connection, const char *name)
{
    virDomainPtr domain = virDomainLookupByName(connection, name);
    guint64 id;

    if (!domain) {
        domain = virDomainLookupByUUIDString(connection, name);
    }
    if (!domain &&
        g_ascii_string_to_unsigned(name, 10, 0, G_MAXINT, &id, NULL)) {
        domain = virDomainLookupByID(connection, id);
    }
    return domain;
}

bool domain_open(struct domain *d, const char *uri,
                 const char *name, GError **error)
{
    d->connection = NULL;
    d->domain = NULL;
    if (!libvirt_load(error)) {
        return false;
    }
    virSetErrorFunc(NULL, ignore_error);
    d->connection = virConnectOpenAuth(uri, virConnectAuthPtrDefault, 0);
    if (!d->connection) {
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_SYSTEM,
                    "cannot connect to libvirt: %s",
                    domain_last_error());
        return false;
    }
    if (name) {
        d->domain = lookup(d->connection, name);
        if (!d->domain) {
            g_autofree char *where = virConnectGetURI(d->connection);

            g_set_error(error, AGENT_ERROR, AGENT_ERROR_CLOSED,
                        "%s has no domain '%s'; virsh -c %s list --all shows "
                        "all domains", where, name, where);
            domain_close(d);
            return false;
        }
    }
    return true;
}

void domain_close(struct domain *d)
{
    g_clear_pointer(&d->domain, virDomainFree);
    g_clear_pointer(&d->connection, virConnectClose);
}

static void malformed(const char *command, GError **error)
{
    g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                "the reply of QEMU to '%s' is malformed", command);
}

/* A command with a file for QEMU, or without one (-1) */
static int send(struct domain *d, const char *text, int fd,
                char **answer)
{
    return fd < 0 ? virDomainQemuMonitorCommand(d->domain, text, answer, 0) :
           virDomainQemuMonitorCommandWithFiles(d->domain, text, 1, &fd, NULL,
                                                NULL, answer, 0);
}

static JsonNode *execute(void *opaque, const char *command,
                         JsonObject *arguments, int fd, GError **error)
{
    g_autofree char *text = qmp_format(command, arguments, 0);
    g_autoptr(JsonNode) reply = NULL;
    char *answer = NULL;

    if (send(opaque, text, fd, &answer) < 0) {
        g_set_error_literal(error, AGENT_ERROR,
                            AGENT_ERROR_SYSTEM,
                            domain_last_error());
        return NULL;
    }
    reply = btrail_json_parse_object(answer);
    free(answer);
    if (!reply) {
        malformed(command, error);
        return NULL;
    }
    return qmp_result(json_node_get_object(reply), error);
}

struct qmp *domain_monitor(struct domain *d)
{
    return qmp_through(execute, d);
}

JsonObject *domain_execute(struct domain *d, const char *command,
                           JsonObject *arguments, GError **error)
{
    g_autoptr(JsonNode) result = execute(d, command, arguments, -1, error);

    if (result && !JSON_NODE_HOLDS_OBJECT(result)) {
        malformed(command, error);
        return NULL;
    }
    return result ? json_node_dup_object(result) : NULL;
}
