/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail stop: ends a session, and waits until its trace is complete
 */

#include <stdio.h>

#include "cli/cli.h"
#include "cli/guest.h"
#include "cli/sessions.h"
#include "util/json.h"

static int report(JsonObject *session, bool json)
{
    const char *state = btrail_json_string(session, "state");
    const char *why = btrail_json_string(session, "why");
    g_autofree char *path = cli_session_path(session);
    struct progress p = cli_session_progress(session);
    bool failed = !g_strcmp0(state, "failed");

    if (failed) {
        cli_error("%s is incomplete: %s", path, why ? why :
                  "the service does not say why");
    }
    if (json) {
        cli_print_json(json_object_ref(session));
    } else {
        progress_sum(stdout, path, &p, failed ? NULL : why);
    }
    return fflush(stdout) ? CLI_FAILED : failed ? CLI_DAMAGED : CLI_OK;
}

static int stop(struct cli_guest *g, const char *given, bool json)
{
    g_autofree char *name = cli_session_choose(g, given);
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonObject) session = NULL;
    JsonObject *answer;

    if (!name) {
        return CLI_FAILED;
    }
    answer = cli_guest_ask(g, btrail_json_new("s:do", "stop", "s:session",
                                              name, NULL), &error);
    if (!answer) {
        cli_guest_explain(g, error);
        return CLI_FAILED;
    }
    session = cli_session_wait(g, answer, "sessions");
    return session ? report(session, json) : CLI_FAILED;
}

int cmd_stop(int argc, char **argv)
{
    struct cli_guest guest = { 0 };
    g_autofree char *session = NULL;
    g_autoptr(GError) error = NULL;
    gboolean json = FALSE;
    const GOptionEntry entries[] = {
        CLI_GUEST_ENTRIES(&guest),
        { "session", 0, 0, G_OPTION_ARG_STRING, &session,
          "name of the session (default: the only one of yours)", "NAME" },
        { "json", 0, 0, G_OPTION_ARG_NONE, &json, "print JSON", NULL },
        { NULL }
    };
    int code = CLI_USAGE;

    if (cli_parse(&argc, &argv, entries, CLI_OPTIONAL, "[DOMAIN]",
                  "End a session, and wait until its trace is complete.") &&
        cli_guest_check(&guest, argv[1])) {
        code = CLI_FAILED;
        if (cli_guest_open(&guest, argv[1], &error)) {
            code = stop(&guest, session, json);
        } else {
            cli_error("%s", error->message);
        }
    }
    cli_guest_clear(&guest);
    return code;
}
