/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands about sessions of a guest: see sessions.h
 */

#include <string.h>

#include "cli/complete.h"
#include "cli/sessions.h"
#include "client/answer.h"
#include "service/command.h"
#include "util/json.h"

/* How often to ask whether something is written */
#define POLL_US     200000

void cli_session_complete(void)
{
    for (unsigned i = 0; i < SESSION_OPTION_COUNT; i++) {
        const char *value;
        word_fn *words = session_option_words(i, &value);

        if (words) {
            cli_complete_value(value, words);
        }
    }
}

bool cli_session_check(struct session_options *o)
{
    g_autoptr(GError) error = NULL;

    if (!session_options_check(o, &error)) {
        cli_error("%s", error->message);
    }
    return !error;
}

JsonObject *cli_session_start(const struct session_options *o,
                              const char *file)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonObject) json = session_options_start(o, file, &error);
    g_autoptr(service_command) command = json ?
        command_parse(json, &error) : NULL;

    if (!command) {
        cli_error("%s", error->message);
        return NULL;
    }
    return g_steal_pointer(&json);
}

/* Is a symbol of a program missing, and not one of the kernel? */
static bool misses_program(const char *list)
{
    return g_regex_match_simple("(^| )(?!kernel:)[^,:]*:(?!kernel:)", list, 0,
                                0);
}

void cli_session_explain_cr3(const char *guest)
{
    cli_error("%s: the guest has not run in the address space of --cr3; "
              "backtrail report shows those that it runs in", guest);
}

void cli_session_explain_missing(struct cli_guest *g, JsonObject *session)
{
    g_autofree char *list = answer_missing(session);
    bool ended = answer_has_ended(session);

    if (list) {
        cli_error("%s: %s found in the guest%s: %s%s%s", g->name,
                  ended ? "never" : "not", ended ? "" : " so far", list,
                  ended ? "" : "; the session looks for it until it ends, so "
                  "check the name if it should be there already",
                  misses_program(list) ? "; for functions that a program does "
                  "not export, the service needs its file: see sysroots in "
                  "backtraild(8)" : "");
    }
    if (ended && json_object_has_member(session, "cr3") &&
        !answer_number(session, "records")) {
        cli_session_explain_cr3(g->name);
    }
}

char *cli_session_choose(struct cli_guest *g, const char *given)
{
    const struct service_client client = cli_guest_client(g);
    g_autoptr(GError) error = NULL;
    char *name = service_client_choose(&client, given, &error);

    if (!name) {
        cli_guest_explain(g, error);
    }
    return name;
}

static JsonObject *wait_written(struct cli_guest *g, JsonObject *answer,
                                const char *array)
{
    const struct service_client client = cli_guest_client(g);
    g_autofree char *session = g_strdup(btrail_json_string(answer, "session"));
    g_autofree char *file = g_strdup(btrail_json_string(answer, "file"));
    bool dump = !strcmp(array, ANSWER_DUMPS);

    while (answer && !(dump ? answer_is_written(answer) :
                       answer_has_ended(answer))) {
        g_autoptr(GError) error = NULL;
        g_autoptr(JsonObject) status = NULL;

        g_usleep(POLL_US);
        json_object_unref(answer);
        status = service_client_status(&client, session, &error);
        answer = status ? answer_last(status, array, session, file) : NULL;
        if (answer) {
            json_object_ref(answer);
        } else if (error) {
            cli_guest_explain(g, error);
        } else {
            cli_error("%s: the service no longer knows '%s'; backtrail list "
                      "shows whether it is whole", g->name, file);
        }
    }
    return answer;
}

JsonObject *cli_session_do(struct cli_guest *g, JsonObject *command,
                           const char *array)
{
    g_autoptr(GError) error = NULL;
    JsonObject *answer = cli_guest_ask(g, command, &error);

    if (!answer) {
        cli_guest_explain(g, error);
        return NULL;
    }
    return wait_written(g, answer, array);
}
