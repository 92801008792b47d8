/*
 * virsh-trace-agent.c: Ask the trace agent of a domain, and its QEMU
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#include <config.h>
#include "virsh-trace-agent.h"
#include "virsh-trace-text.h"

#include <libvirt/libvirt-qemu.h>

#include "monitor/qmp-message.h"
#include "util/json.h"

/* Stores the error of a libvirt function that has failed. */
static void
virshTraceFailLibvirt(virDomainPtr dom,
                      GError **error)
{
    int code = virGetLastErrorCode();
    /* Any other call resets it. */
    g_autofree char *why = g_strdup(virGetLastErrorMessage());
    bool unable = code == VIR_ERR_NO_DOMAIN || code == VIR_ERR_NO_SUPPORT ||
                  virDomainIsActive(dom) == 0;

    agent_fail(error, unable ? AGENT_ERROR_CLOSED :
               AGENT_ERROR_SYSTEM, "%s", why);
    vshResetLibvirtError();
}

/**
 * virshTraceExecute:
 * @dom: a running domain
 * @name: QMP command
 * @arguments: its arguments, stolen; NULL for none
 * @error: gets the error
 *
 * Returns what the command returned, or NULL on error.
 */
static JsonObject *
virshTraceExecute(virDomainPtr dom,
                  const char *name,
                  JsonObject *arguments,
                  GError **error)
{
    g_autofree char *command = qmp_format(name, arguments, 0);
    g_autofree char *answer = NULL;
    g_autoptr(JsonNode) reply = NULL;
    g_autoptr(JsonNode) result = NULL;

    if (virDomainQemuMonitorCommand(dom, command, &answer, 0) < 0) {
        virshTraceFailLibvirt(dom, error);
        return NULL;
    }

    if ((reply = btrail_json_parse_object(answer)) &&
        !(result = qmp_result(json_node_get_object(reply), error)))
        return NULL;

    if (!result || !JSON_NODE_HOLDS_OBJECT(result)) {
        agent_fail(error, AGENT_ERROR_PROTOCOL,
                   _("the reply of QEMU to '%1$s' is malformed"), name);
        return NULL;
    }

    return json_node_dup_object(result);
}

/* Returns what the domain's device says. */
JsonObject *
virshTraceQuery(virDomainPtr dom,
                GError **error)
{
    return virshTraceExecute(dom, "query-branch-trace", NULL, error);
}

/* Returns what the agent on the domain's host returned to @command, which is
 * stolen. */
JsonObject *
virshTraceAsk(virDomainPtr dom,
              JsonObject *command,
              GError **error)
{
    return virshTraceExecute(dom, SERVICE_CLIENT_COMMAND,
                             service_client_arguments(command, NULL), error);
}

static JsonObject *
virshTraceClientAsk(void *opaque,
                    JsonObject *command,
                    GError **error)
{
    return virshTraceAsk(opaque, command, error);
}

struct service_client
virshTraceClient(virDomainPtr dom)
{
    return (struct service_client) { .ask = virshTraceClientAsk, .opaque = dom };
}

/* Is the domain being traced, whether its agent answers or not? */
bool
virshTraceIsCaptured(virDomainPtr dom)
{
    g_autoptr(JsonObject) info = virshTraceQuery(dom, NULL);

    return info && STRNEQ_NULLABLE(btrail_json_string(info, "state"), "inactive");
}

/* Can the domain not be traced, or is it not running? */
bool
virshTraceIsUnable(const GError *error)
{
    return error->domain == AGENT_ERROR &&
           (error->code == AGENT_ERROR_CLOSED ||
            error->code == AGENT_ERROR_NO_COMMAND ||
            error->code == AGENT_ERROR_NO_DEVICE);
}

void
virshTraceReport(vshControl *ctl,
                 const char *domain,
                 const GError *error)
{
    if (g_error_matches(error, AGENT_ERROR,
                        AGENT_ERROR_NO_COMMAND)) {
        virshTraceComplain(ctl, _("the QEMU of domain '%1$s' cannot trace branches"),
                           domain);
    } else if (g_error_matches(error, AGENT_ERROR,
                               AGENT_ERROR_NO_DEVICE)) {
        virshTraceComplain(ctl, _("domain '%1$s' has no branch-trace device; it must be started with one"),
                           domain);
    } else {
        virshTraceComplain(ctl, _("domain '%1$s': %2$s"), domain, error->message);
    }
}
