/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail dump: writes what a session of mode "last" has kept into a trace
 */

#include <stdio.h>

#include "cli/cli.h"
#include "cli/guest-client.h"
#include "cli/pt-sessions.h"
#include "cli/sessions.h"
#include "client/answer.h"
#include "util/json.h"

static int report(JsonObject *dump, bool json)
{
    const char *why = answer_why(dump);
    g_autofree char *path = answer_path(dump);
    struct progress p = answer_progress(dump);
    g_autofree char *written = progress_written(path, &p);

    if (answer_has_failed(dump)) {
        cli_error("%s could not be written: %s", path, why ? why :
                  "the service does not say why");
        return CLI_FAILED;
    }
    if (json) {
        cli_print_json(json_object_ref(dump));
    } else {
        cli_printf("%s\n", written);
    }
    return fflush(stdout) ? CLI_FAILED : CLI_OK;
}

/* By the session's process, which prints what it does */
static int dump_pt(const char *socket, const char *file, bool json)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonObject) dump = pt_sessions_ask(
        socket, btrail_json_new("s:do", "dump", "S:file", file, NULL), -1,
        &error);
    g_autofree char *path = dump ? answer_path(dump) : NULL;

    if (!dump) {
        cli_error("%s", error->message);
    }
    if (!dump || answer_has_failed(dump)) {
        return CLI_FAILED;
    }
    if (json) {
        cli_print_json(json_object_ref(dump));
    } else {
        cli_printf("%s\n", path);
    }
    return fflush(stdout) ? CLI_FAILED : CLI_OK;
}

static int dump(struct cli_guest *g, const char *given, const char *file,
                bool json)
{
    g_autofree char *name = cli_session_choose(g, given);
    g_autoptr(JsonObject) done = name ? cli_session_do(
        g, btrail_json_new("s:do", "dump", "s:session", name, "S:file", file,
                           NULL), ANSWER_DUMPS) : NULL;

    return done ? report(done, json) : CLI_FAILED;
}

int cmd_dump(int argc, char **argv)
{
    struct cli_guest guest = { 0 };
    g_autofree char *session = NULL, *file = NULL, *pt = NULL;
    bool several;
    g_autoptr(GError) error = NULL;
    gboolean json = FALSE;
    const GOptionEntry entries[] = {
        CLI_GUEST_ENTRIES(&guest),
        { "session", 0, 0, G_OPTION_ARG_STRING, &session,
          "name of the session (default: the only one of yours)", "NAME" },
        { "file", 'o', 0, G_OPTION_ARG_STRING, &file,
          "name of the trace in the guest's folder on its host (default: "
          "session and time)", "NAME" },
        { "json", 0, 0, G_OPTION_ARG_NONE, &json, "print JSON", NULL },
        { NULL }
    };
    int code = CLI_USAGE;

    if (cli_parse(&argc, &argv, entries, CLI_OPTIONAL, "[DOMAIN]",
                  "Write what a session of --mode last has kept.") &&
        cli_guest_check(&guest, argv[1])) {
        code = CLI_FAILED;
        pt = pt_sessions_choose(guest.connect, argv[1], guest.qmp, session,
                                &several);
        if (pt) {
            code = dump_pt(pt, file, json);
        } else if (several) {
            code = CLI_FAILED;
        } else if (cli_guest_open(&guest, argv[1], &error)) {
            code = dump(&guest, session, file, json);
        } else {
            cli_error("%s", error->message);
        }
    }
    cli_guest_clear(&guest);
    return code;
}
