/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest that a command is about: see guest-client.h
 */

#include <string.h>

#include "cli/cli.h"
#include "cli/guest-client.h"
#include "cli/own-service.h"
#include "util/json.h"

#define QMP_TIMEOUT_MS  10000

/* How long this program waits for QEMU's answer when QEMU asks the service */
#define ASK_TIMEOUT_MS  (SERVICE_CLIENT_TIMEOUT_MS + QMP_TIMEOUT_MS)

/* Where devices are among QEMU's objects, with an id and without one */
static const char *const device_folders[] = {
    "/machine/peripheral", "/machine/peripheral-anon",
};

bool cli_guest_check(const struct cli_guest *g, const char *domain)
{
    if (domain && g->qmp) {
        cli_error("either DOMAIN, a guest of libvirt, or --qmp SOCKET");
    } else if (!domain && !g->qmp) {
        cli_error("missing DOMAIN, a guest of libvirt, or --qmp SOCKET, a "
                  "QEMU started with -qmp unix:SOCKET,server=on,wait=off");
    } else if (g->qmp && g->connect) {
        cli_error("--connect needs a DOMAIN");
    } else if (domain && g->agent) {
        cli_error("--agent needs --qmp: the device of a domain names its "
                  "service");
    } else {
        return true;
    }
    return false;
}

/* The result of a command whose arguments are the path of an object and, if it
 * is not NULL, the name of a property; NULL on failure */
static JsonNode *ask_object(struct qmp *qmp, const char *command,
                            const char *path, const char *property,
                            GError **error)
{
    return qmp_execute(qmp, command,
                       btrail_json_new("s:path", path, "S:property",
                                       property, NULL), -1,
                       QMP_TIMEOUT_MS, -1, error);
}

/* The path of the device in one of @device_folders, to be freed; or NULL */
static char *find_device(struct qmp *qmp, const char *folder,
                         GError **error)
{
    g_autoptr(JsonNode) list = ask_object(qmp, "qom-list", folder, NULL,
                                          error);
    JsonArray *items = list && JSON_NODE_HOLDS_ARRAY(list) ?
                       json_node_get_array(list) : NULL;
    unsigned n = items ? json_array_get_length(items) : 0;

    for (unsigned i = 0; i < n; i++) {
        JsonNode *node = json_array_get_element(items, i);
        JsonObject *item = JSON_NODE_HOLDS_OBJECT(node) ?
                           json_node_get_object(node) : NULL;
        const char *name = item ? btrail_json_string(item, "name") : NULL;

        if (name && !g_strcmp0(btrail_json_string(item, "type"),
                               "child<branch-trace>")) {
            return g_build_path("/", folder, name, NULL);
        }
    }
    return NULL;
}

/* Does the device name its service? */
static bool names_service(struct qmp *qmp, bool *names, GError **error)
{
    g_autofree char *path = NULL;
    g_autoptr(JsonNode) agent = NULL;
    GError *e = NULL;

    for (unsigned i = 0; i < G_N_ELEMENTS(device_folders) && !path && !e;
         i++) {
        path = find_device(qmp, device_folders[i], &e);
    }
    if (e) {
        g_propagate_error(error, e);
        return false;
    }
    if (!path) {
        /* QEMU will say so. */
        *names = true;
        return true;
    }
    agent = ask_object(qmp, "qom-get", path, "agent", error);
    *names = agent && JSON_NODE_HOLDS_VALUE(agent) &&
             json_node_get_value_type(agent) == G_TYPE_STRING &&
             *json_node_get_string(agent);
    return agent;
}

static struct qmp *connect_monitor(const struct cli_guest *g,
                                   GError **error)
{
    return qmp_connect(g->qmp, QMP_TIMEOUT_MS, -1, error);
}

static bool find_service(struct cli_guest *g, GError **error)
{
    struct qmp *qmp = connect_monitor(g, error);
    bool names = false;
    bool ok = qmp && names_service(qmp, &names, error);

    g_clear_pointer(&qmp, qmp_free);
    if (ok && !names) {
        g->agent = cli_own_service_start(error);
        ok = g->agent;
    }
    return ok;
}

bool cli_guest_open(struct cli_guest *g, const char *domain, GError **error)
{
    g->name = domain ? domain : g->qmp;
    if (domain) {
        return domain_open(&g->domain, g->connect, domain, error);
    }
    if (g->agent) {
        g_autofree char *given = g_steal_pointer(&g->agent);

        g->agent = g_canonicalize_filename(given, NULL);
        return true;
    }
    return find_service(g, error);
}

bool cli_guest_is_off(struct cli_guest *g)
{
    struct qmp *qmp;

    if (g->domain.domain) {
        return virDomainIsActive(g->domain.domain) == 0;
    }
    qmp = connect_monitor(g, NULL);
    g_clear_pointer(&qmp, qmp_free);
    return !qmp;
}

static JsonObject *execute(struct cli_guest *g, const char *command,
                           JsonObject *arguments, int timeout_ms,
                           GError **error)
{
    struct qmp *qmp = connect_monitor(g, error);
    g_autoptr(JsonNode) result = NULL;

    if (!qmp) {
        g_clear_pointer(&arguments, json_object_unref);
        return NULL;
    }
    result = qmp_execute(qmp, command, arguments, -1, timeout_ms, -1,
                         error);
    qmp_free(qmp);
    if (result && !JSON_NODE_HOLDS_OBJECT(result)) {
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                    "the reply of QEMU to '%s' is malformed", command);
        return NULL;
    }
    return result ? json_node_dup_object(result) : NULL;
}

JsonObject *cli_guest_execute(struct cli_guest *g, const char *command,
                              JsonObject *arguments, GError **error)
{
    return g->qmp ? execute(g, command, arguments, QMP_TIMEOUT_MS, error) :
           domain_execute(&g->domain, command, arguments, error);
}

JsonObject *cli_guest_ask(struct cli_guest *g, JsonObject *command,
                          GError **error)
{
    JsonObject *arguments = service_client_arguments(command, g->agent);

    return g->qmp ? execute(g, SERVICE_CLIENT_COMMAND, arguments,
                            ASK_TIMEOUT_MS, error) :
           domain_execute(&g->domain, SERVICE_CLIENT_COMMAND, arguments,
                          error);
}

static JsonObject *ask(void *opaque, JsonObject *command, GError **error)
{
    return cli_guest_ask(opaque, command, error);
}

struct service_client cli_guest_client(struct cli_guest *g)
{
    return (struct service_client) { .ask = ask, .opaque = g };
}

void cli_guest_explain(const struct cli_guest *g, const GError *error)
{
    bool unable = g_error_matches(error, AGENT_ERROR,
                                  AGENT_ERROR_NO_COMMAND) ||
                  g_error_matches(error, AGENT_ERROR,
                                  AGENT_ERROR_NO_DEVICE);

    if (unable && g->qmp) {
        cli_error("%s: this guest cannot be traced: start a QEMU with "
                  "Backtrail's patches with -device branch-trace", g->name);
    } else if (unable) {
        cli_error("%s cannot be traced as it runs: backtrail enable %s, then "
                  "shut it down and start it; backtrail doctor %s says what "
                  "is missing", g->name, g->name, g->name);
    } else {
        cli_error("%s: %s", g->name, error->message);
    }
}

void cli_guest_close(struct cli_guest *g)
{
    domain_close(&g->domain);
}

void cli_guest_clear(struct cli_guest *g)
{
    cli_guest_close(g);
    g_free(g->connect);
    g_free(g->qmp);
    g_free(g->agent);
}
