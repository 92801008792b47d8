/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail stop: ends a session, and waits until its trace is complete
 */

#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/guest-client.h"
#include "cli/pt-sessions.h"
#include "cli/sessions.h"
#include "client/answer.h"
#include "util/json.h"

/* How services name their captures */
#define SERVICE_CAPTURE "backtraild-"

static int report(struct cli_guest *g, JsonObject *session, bool json)
{
    const char *why = answer_why(session);
    g_autofree char *path = answer_path(session), *sum = NULL;
    struct progress p = answer_progress(session);
    bool failed = answer_has_failed(session);

    if (failed) {
        cli_error("%s is incomplete: %s", path, why ? why :
                  "the service does not say why");
    }
    if (json) {
        cli_print_json(json_object_ref(session));
    } else {
        sum = progress_sum(path, &p, failed ? NULL : why);
        cli_printf("%s\n", sum);
    }
    cli_session_explain_missing(g, session);
    return fflush(stdout) ? CLI_FAILED : failed ? CLI_DAMAGED : CLI_OK;
}

/*
 * The capture that QEMU makes for backtrail record --qmp, which may have died,
 * and not for a service; NULL if there is none.  To be freed
 */
static char *find_recorded(struct cli_guest *g, const char *given)
{
    g_autoptr(JsonObject) info = cli_guest_execute(g, "query-branch-trace",
                                                   NULL, NULL);
    const char *state = info ? btrail_json_string(info, "state") : NULL;
    const char *name = info ? btrail_json_string(info, "capture") : NULL;

    return state && strcmp(state, "inactive") && name &&
           !g_str_has_prefix(name, SERVICE_CAPTURE) &&
           (!given || !strcmp(given, name)) ? g_strdup(name) : NULL;
}

static int stop_recorded(struct cli_guest *g, const char *name, bool json)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonObject) info = cli_guest_execute(
        g, "branch-trace-stop", btrail_json_new("s:capture", name, NULL),
        &error);

    if (!info) {
        cli_guest_explain(g, error);
        return CLI_FAILED;
    }
    if (json) {
        cli_print_json(btrail_json_new("s:session", name, "s:state", "ended",
                                       NULL));
    } else {
        cli_printf("%s: stopped '%s'; backtrail record completes its trace, or "
                   "backtrail repair if that has died\n", g->name, name);
    }
    return fflush(stdout) ? CLI_FAILED : CLI_OK;
}

static int stop(struct cli_guest *g, const char *given, bool json)
{
    g_autofree char *recorded = find_recorded(g, given);
    g_autofree char *name = NULL;
    g_autoptr(JsonObject) session = NULL;

    if (recorded) {
        return stop_recorded(g, recorded, json);
    }
    name = cli_session_choose(g, given);
    session = name ? cli_session_do(
        g, btrail_json_new("s:do", "stop", "s:session", name, NULL),
        ANSWER_SESSIONS) : NULL;
    return session ? report(g, session, json) : CLI_FAILED;
}

/* By the session's process, which prints what it does */
static int stop_pt(const char *socket, bool json)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonObject) session = pt_sessions_ask(
        socket, btrail_json_new("s:do", "stop", NULL), -1, &error);
    g_autofree char *path = session ? answer_path(session) : NULL;

    if (!session) {
        cli_error("%s", error->message);
        return CLI_FAILED;
    }
    if (json) {
        cli_print_json(json_object_ref(session));
    } else if (!answer_has_failed(session)) {
        cli_printf("%s\n", path);
    }
    return fflush(stdout) ? CLI_FAILED :
           answer_has_failed(session) ? CLI_DAMAGED : CLI_OK;
}

int cmd_stop(int argc, char **argv)
{
    struct cli_guest guest = { 0 };
    g_autofree char *session = NULL, *pt = NULL;
    g_autoptr(GError) error = NULL;
    bool several;
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
        pt = pt_sessions_choose(guest.connect, argv[1], guest.qmp, session,
                                &several);
        if (pt) {
            code = stop_pt(pt, json);
        } else if (several) {
            code = CLI_FAILED;
        } else if (cli_guest_open(&guest, argv[1], &error)) {
            code = stop(&guest, session, json);
        } else {
            cli_error("%s", error->message);
        }
    }
    cli_guest_clear(&guest);
    return code;
}
