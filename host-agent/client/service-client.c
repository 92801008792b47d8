/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A client of the service: see service-client.h
 */

#include "client/answer.h"
#include "client/service-client.h"
#include "util/json.h"

/* How often to ask whether all is found, and how many times */
#define FOUND_US    200000
#define FOUND_POLLS 5

JsonObject *service_client_arguments(JsonObject *command, const char *agent)
{
    JsonObject *arguments = btrail_json_new(
        "o:command", command, "u:timeout", SERVICE_CLIENT_TIMEOUT_MS, NULL);

    if (agent) {
        btrail_json_add(arguments, "o:agent", btrail_json_new(
            "s:type", "unix", "s:path", agent, NULL), NULL);
    }
    return arguments;
}

char *service_client_owner(void)
{
    return g_strdup_printf("%s@%s", g_get_user_name(), g_get_host_name());
}

JsonObject *service_client_status(const struct service_client *c,
                                  const char *session, GError **error)
{
    return c->ask(c->opaque, btrail_json_new("s:do", "status",
                                             "S:session", session, NULL),
                  error);
}

char *service_client_choose(const struct service_client *c, const char *given,
                            GError **error)
{
    g_autofree char *owner = service_client_owner(), *list = NULL;
    g_autoptr(JsonObject) answer = NULL;
    g_auto(GStrv) mine = NULL, all = NULL;

    if (given) {
        return g_strdup(given);
    }
    answer = service_client_status(c, NULL, error);
    if (!answer) {
        return NULL;
    }
    mine = answer_active(answer, owner);
    all = answer_active(answer, NULL);
    if (g_strv_length(mine) == 1) {
        return g_strdup(*mine);
    }
    if (!*all) {
        g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_FAILED,
                    "it has no session");
        return NULL;
    }
    list = g_strjoinv(", ", all);
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_FAILED,
                "name one with --session, as you have %s: %s",
                *mine ? "several" : "none", list);
    return NULL;
}

JsonObject *service_client_await_found(const struct service_client *c,
                                       JsonObject *answer)
{
    const char *session = btrail_json_string(answer, "session");
    const char *file = btrail_json_string(answer, "file");
    g_autoptr(JsonObject) status = NULL;
    JsonObject *last = NULL;

    for (unsigned i = 0; i < FOUND_POLLS; i++) {
        g_usleep(FOUND_US);
        g_clear_pointer(&status, json_object_unref);
        status = service_client_status(c, session, NULL);
        last = status ? answer_last(status, ANSWER_SESSIONS, session, file) :
               NULL;
        if (!last || !json_object_has_member(last, "not-found")) {
            return NULL;
        }
    }
    return json_object_ref(last);
}
