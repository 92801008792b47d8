/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Messages of QMP: see qmp-message.h
 */

#include "monitor/qmp-message.h"
#include "util/json.h"

char *qmp_format(const char *command, JsonObject *arguments, gint64 id)
{
    g_autoptr(JsonObject) object = json_object_new();

    json_object_set_string_member(object, "execute", command);
    if (arguments) {
        json_object_set_object_member(object, "arguments", arguments);
    }
    if (id) {
        json_object_set_int_member(object, "id", id);
    }
    return btrail_json_text(object, FALSE);
}

static void set_command_error(GError **error, JsonObject *failure)
{
    const char *class = btrail_json_string(failure, "class");
    const char *desc = btrail_json_string(failure, "desc");
    int code = !g_strcmp0(class, "CommandNotFound") ?
               AGENT_ERROR_NO_COMMAND :
               !g_strcmp0(class, "DeviceNotFound") ?
               AGENT_ERROR_NO_DEVICE : AGENT_ERROR_COMMAND;

    g_set_error_literal(error, AGENT_ERROR, code,
                        desc ? desc : "failed without a reason");
}

JsonNode *qmp_result(JsonObject *reply, GError **error)
{
    JsonObject *failure = btrail_json_object(reply, "error");

    if (failure) {
        set_command_error(error, failure);
        return NULL;
    }
    if (!json_object_has_member(reply, "return")) {
        agent_fail(error, AGENT_ERROR_PROTOCOL,
                   "QEMU's reply has no result");
        return NULL;
    }
    return json_object_dup_member(reply, "return");
}
