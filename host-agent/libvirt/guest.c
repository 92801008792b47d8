/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guests that libvirt runs: see guest.h
 */

#include <libvirt/libvirt-qemu.h>
#include <libvirt/virterror.h>
#include <stdlib.h>

#include "libvirt/guest.h"
#include "util/json.h"

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

/* {"execute": @command, "arguments": @arguments}, to be freed */
static char *command_text(const char *command, JsonObject *arguments)
{
    g_autoptr(JsonNode) root = json_node_new(JSON_NODE_OBJECT);
    JsonObject *object = json_object_new();

    json_object_set_string_member(object, "execute", command);
    if (arguments) {
        json_object_set_object_member(object, "arguments", arguments);
    }
    json_node_take_object(root, object);
    return json_to_string(root, FALSE);
}

/* What @error of QEMU's says, which is of no trusted origin */
static char *error_text(JsonObject *error)
{
    const char *desc = error ? btrail_json_string(error, "desc") : NULL;
    char *text = g_strdup(desc ? desc : "QEMU answers what makes no sense");
    char *p;

    for (p = text; *p; p++) {
        *p = g_ascii_iscntrl(*p) ? '?' : *p;
    }
    return text;
}

JsonNode *cli_guest_execute(struct cli_guest *guest, const char *command,
                            JsonObject *arguments,
                            enum cli_guest_refusal *refusal, char **why)
{
    g_autofree char *text = command_text(command, arguments);
    g_autoptr(JsonNode) node = NULL;
    JsonObject *reply, *error;
    JsonObject *result;
    enum cli_guest_refusal unused;
    const char *class;
    char *answer = NULL;

    refusal = refusal ? refusal : &unused;
    *refusal = CLI_GUEST_LIBVIRT;
    if (virDomainQemuMonitorCommand(guest->domain, text, &answer, 0) < 0) {
        *why = g_strdup(cli_guest_error());
        return NULL;
    }
    node = btrail_json_parse_object(answer);
    free(answer);
    reply = node ? json_node_get_object(node) : NULL;
    result = reply ? btrail_json_object(reply, "return") : NULL;
    if (result) {
        JsonNode *ret = json_node_new(JSON_NODE_OBJECT);

        json_node_set_object(ret, result);
        return ret;
    }
    error = reply ? btrail_json_object(reply, "error") : NULL;
    class = error ? btrail_json_string(error, "class") : NULL;
    *refusal = !error ? CLI_GUEST_LIBVIRT :
               !g_strcmp0(class, "CommandNotFound") ? CLI_GUEST_NO_COMMAND :
               !g_strcmp0(class, "DeviceNotFound") ? CLI_GUEST_NO_DEVICE :
               CLI_GUEST_REFUSED;
    *why = error_text(error);
    return NULL;
}

JsonNode *cli_guest_ask_agent(struct cli_guest *guest, JsonObject *command,
                              unsigned timeout_ms,
                              enum cli_guest_refusal *refusal, char **why)
{
    JsonObject *arguments = json_object_new();

    json_object_set_object_member(arguments, "command", command);
    json_object_set_int_member(arguments, "timeout", timeout_ms);
    return cli_guest_execute(guest, "branch-trace-agent", arguments, refusal,
                             why);
}
