/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail start: begins a session, which continues without this command
 */

#include <stdio.h>

#include "cli/cli.h"
#include "cli/guest-client.h"
#include "cli/record/pt-session.h"
#include "cli/sessions.h"
#include "client/answer.h"
#include "util/json.h"

struct start {
    struct cli_guest guest;
    struct session_options session;
    char *file, *last;
    gboolean boot, json, pt;
    bool started;               /* the domain, which waits */
};

/* Starts the domain, which does not run before it is traced. */
static bool start_domain(struct start *s)
{
    if (virDomainCreateWithFlags(s->guest.domain.domain,
                                 VIR_DOMAIN_START_PAUSED) < 0) {
        cli_error("%s: %s", s->guest.name, domain_last_error());
        return false;
    }
    s->started = true;
    return true;
}

static bool open_guest(struct start *s, const char *domain)
{
    g_autoptr(GError) error = NULL;
    bool off;

    if (!cli_guest_open(&s->guest, domain, &error)) {
        cli_error("%s", error->message);
        return false;
    }
    off = domain && cli_guest_is_off(&s->guest);
    if (off && !s->boot) {
        cli_error("%s is not running; --boot starts it and traces it from its "
                  "first instruction on", s->guest.name);
        return false;
    }
    if (s->boot && !off) {
        cli_error("%s runs already; leave out --boot", s->guest.name);
        return false;
    }
    return !off || start_domain(s);
}

/* A domain that could not be traced as it was asked for runs all the same. */
static bool resume_domain(struct start *s)
{
    if (s->started && virDomainResume(s->guest.domain.domain) < 0) {
        cli_error("%s is paused: %s", s->guest.name,
                  domain_last_error());
        return false;
    }
    return true;
}

static int start(struct start *s, JsonObject *command)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonObject) answer = cli_guest_ask(
        &s->guest, json_object_ref(command), &error);
    const struct service_client client = cli_guest_client(&s->guest);
    g_autoptr(JsonObject) waiting = NULL;
    g_autofree char *path = NULL;
    const char *session;

    if (!answer) {
        cli_guest_explain(&s->guest, error);
        resume_domain(s);
        return CLI_FAILED;
    }
    if (!resume_domain(s)) {
        return CLI_FAILED;
    }
    path = answer_path(answer);
    session = btrail_json_string(answer, "session");
    if (s->json) {
        btrail_json_add(answer, "s:guest", s->guest.name, NULL);
        cli_print_json(json_object_ref(answer));
    } else {
        cli_printf("%s is being traced by session '%s' into %s%s\n",
                   s->guest.name, session ? session : "", path,
                   s->guest.qmp ? "" : " on its host");
    }
    /* What has not booted yet has nothing that could be found. */
    if (!s->boot && (s->session.process || s->session.trigger)) {
        fflush(stdout);
        waiting = service_client_await_found(&client, answer);
    }
    if (waiting) {
        cli_session_explain_missing(&s->guest, waiting);
    }
    return fflush(stdout) ? CLI_FAILED : CLI_OK;
}

static bool check_pt(const struct start *s)
{
    const struct session_options *o = &s->session;

    if (s->last && !s->pt) {
        cli_error("--last needs --pt");
        return false;
    }
    if (s->pt && (s->boot || s->guest.agent || o->vcpus || o->user ||
                  o->kernel || o->cr3 || o->overflow || o->split ||
                  session_options_need_service(o))) {
        cli_error("--pt can be combined with --connect, --qmp, --last, "
                  "--session, --file, --duration, --names and --json only: a "
                  "session by Intel PT is of all that the guest does");
        return false;
    }
    return true;
}

/* The service has no right to look into guests: see docs/pt.md. */
static int start_pt(struct start *s, char *domain)
{
    struct record_request r = {
        .domain = domain, .guest = s->guest, .session = s->session,
        .pt = TRUE, .store = { .sync = BTRAIL_SYNC_END }, .signal_fd = -1,
    };
    g_autoptr(JsonObject) facts = NULL;
    g_autofree char *path = NULL;
    JsonObject *session;

    if (!record_parse_pt_size("--last", s->last, &r.pt_size)) {
        return CLI_USAGE;
    }
    r.metadata = json_object_new();
    facts = pt_session_start(&r, s->file);
    json_object_unref(r.metadata);
    s->guest.qmp = r.guest.qmp;
    if (!facts) {
        return CLI_FAILED;
    }
    session = answer_member(facts, ANSWER_SESSIONS, 0);
    if (s->json) {
        btrail_json_add(session, "s:guest",
                        btrail_json_string(facts, "guest"), NULL);
        cli_print_json(json_object_ref(session));
    } else {
        path = answer_path(session);
        cli_printf("%s is being traced by session '%s'; backtrail dump and "
                   "stop write what it did last into %s\n",
                   domain ? domain : s->guest.qmp,
                   btrail_json_string(session, "session"), path);
    }
    return fflush(stdout) ? CLI_FAILED : CLI_OK;
}

int cmd_start(int argc, char **argv)
{
    struct start s = { 0 };
    g_autoptr(JsonObject) command = NULL;
    const GOptionEntry entries[] = {
        CLI_GUEST_ENTRIES(&s.guest),
        { "file", 'o', 0, G_OPTION_ARG_STRING, &s.file,
          "name of the trace in the guest's folder on its host (default: "
          "session and time)", "NAME" },
        { "boot", 0, 0, G_OPTION_ARG_NONE, &s.boot,
          "start DOMAIN, too, and trace it from its first instruction on",
          NULL },
        CLI_SESSION_ENTRIES(&s.session)
        { "pt", 0, 0, G_OPTION_ARG_NONE, &s.pt,
          "trace by Intel PT, under any QEMU with KVM, by a process of your "
          "own", NULL },
        { "last", 0, 0, G_OPTION_ARG_STRING, &s.last,
          "with --pt: how much each vCPU's ring has (default: 64M)", "SIZE" },
        { "json", 0, 0, G_OPTION_ARG_NONE, &s.json, "print JSON", NULL },
        { NULL }
    };
    int code = CLI_USAGE;

    cli_session_complete();
    if (cli_parse(&argc, &argv, entries, CLI_OPTIONAL, "[DOMAIN]",
                  "Start to trace a guest, by the service on its host.") &&
        cli_guest_check(&s.guest, argv[1]) &&
        cli_session_check(&s.session)) {
        if (!check_pt(&s)) {
            code = CLI_USAGE;
        } else if (s.pt) {
            code = start_pt(&s, argv[1]);
        } else if (s.boot && !argv[1]) {
            cli_error("--boot needs a DOMAIN");
        } else {
            command = cli_session_start(&s.session, s.file);
        }
    }
    if (command) {
        code = open_guest(&s, argv[1]) ? start(&s, command) : CLI_FAILED;
    }
    cli_guest_clear(&s.guest);
    session_options_clear(&s.session);
    g_free(s.file);
    g_free(s.last);
    return code;
}
