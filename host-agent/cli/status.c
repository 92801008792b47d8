/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail status: the sessions of guests
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/guest-client.h"
#include "cli/pt-sessions.h"
#include "cli/table.h"
#include "cli/trace-listing.h"
#include "client/answer.h"
#include "client/session-facts.h"
#include "util/json.h"

struct status {
    struct cli_guest guest;
    char *session;
    gboolean json;
    JsonArray *guests;          /* answers */
    int code;
};

/* Asks the service; if it must not fail, @quiet. */
static void ask(struct status *s, bool quiet)
{
    g_autoptr(GError) error = NULL;
    JsonObject *answer = cli_guest_ask(&s->guest, btrail_json_new(
        "s:do", "status", "S:session", s->session, NULL), &error);

    if (answer) {
        json_array_add_object_element(s->guests, answer);
    } else if (!quiet ||
               (!g_error_matches(error, AGENT_ERROR,
                                 AGENT_ERROR_NO_COMMAND) &&
                !g_error_matches(error, AGENT_ERROR,
                                 AGENT_ERROR_NO_DEVICE))) {
        cli_guest_explain(&s->guest, error);
        s->code = CLI_FAILED;
    }
}

/* All that run; those that cannot be traced are left out. */
static void ask_domains(struct status *s)
{
    g_autoptr(GError) error = NULL;
    virDomainPtr *domains = NULL;

    if (!domain_open(&s->guest.domain, s->guest.connect, NULL,
                     &error)) {
        cli_error("%s", error->message);
        s->code = CLI_FAILED;
        return;
    }
    if (virConnectListAllDomains(s->guest.domain.connection, &domains,
                                 VIR_CONNECT_LIST_DOMAINS_ACTIVE) < 0) {
        cli_error("%s", domain_last_error());
        s->code = CLI_FAILED;
    }
    for (unsigned i = 0; domains && domains[i]; i++) {
        s->guest.domain.domain = domains[i];
        s->guest.name = virDomainGetName(domains[i]);
        ask(s, true);
        virDomainFree(domains[i]);
    }
    s->guest.domain.domain = NULL;
    free(domains);
}

/* A guest that does not run has no sessions; where are its traces? */
static int print_gone(struct status *s, const char *name, const char *why)
{
    struct cli_traces t = { .name = name };
    g_autoptr(GPtrArray) folders = NULL;
    JsonArray *guests;

    if (!name || s->session ||
        (s->guest.connect && !domain_is_local(s->guest.connect))) {
        cli_error("%s: %s", s->guest.name, why);
        return CLI_FAILED;
    }
    cli_fprintf(stderr, "%s does not run\n", name);
    folders = cli_traces_folders(&t);
    if (!folders) {
        return CLI_FAILED;
    }
    guests = cli_listing(folders);
    if (s->json) {
        cli_print_json(btrail_json_new("a:guests", guests, NULL));
    } else {
        cli_listing_print(guests);
        json_array_unref(guests);
    }
    return CLI_OK;
}

static void add_session(GPtrArray *table, JsonObject *guest,
                        JsonObject *session)
{
    const char *const names[] = { "session", "owner", "state", "mode" };
    const char *texts[G_N_ELEMENTS(names)];
    struct progress p = answer_progress(session);
    g_autofree char *records = g_strdup_printf("%" PRIu64, p.records);
    g_autofree char *lost = g_strdup_printf("%" PRIu64, p.lost);
    g_autofree char *bytes = g_strdup_printf("%" PRIu64, p.bytes);
    g_autofree char *path = answer_path(session);
    const char *name = btrail_json_string(guest, "guest");

    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        const char *text = btrail_json_string(session, names[i]);

        texts[i] = text ? text : "-";
    }
    cli_table_add(table, name ? name : "-", texts[0], texts[1], texts[2],
                  texts[3], records, lost, bytes, path, NULL);
}

static void print_fact(void *opaque, const char *title, const char *text)
{
    cli_printf("%-15s %s\n", title, text);
}

/* What is missing of a guest's names, and what is lost by that */
static void print_missing(JsonObject *guest)
{
    const char *name = btrail_json_string(guest, "guest");
    JsonObject *capture = btrail_json_object(guest, "capture");
    JsonObject *names = capture ? btrail_json_object(capture, "names") : NULL;
    JsonArray *missing = names ? btrail_json_array(names, "missing") : NULL;
    unsigned n = missing ? json_array_get_length(missing) : 0;

    for (unsigned i = 0; i < n; i++) {
        JsonNode *node = json_array_get_element(missing, i);

        if (JSON_NODE_HOLDS_VALUE(node) && json_node_get_string(node)) {
            cli_printf("names of %s: %s\n", name ? name : "the guest",
                       json_node_get_string(node));
        }
    }
}

static void print_answers(const struct status *s)
{
    GPtrArray *table = cli_table_new("Guest", "Session", "Owner", "State",
                                     "Mode", "Records", "Lost", "Bytes",
                                     "Trace", NULL);

    for (unsigned i = 0; i < json_array_get_length(s->guests); i++) {
        JsonObject *guest = json_array_get_object_element(s->guests, i);
        JsonObject *last = answer_last(guest, ANSWER_SESSIONS, NULL, NULL);

        if (s->session && last) {
            session_facts(last, print_fact, NULL);
        }
        for (unsigned k = 0; k < answer_members(guest, ANSWER_SESSIONS); k++) {
            JsonObject *one = answer_member(guest, ANSWER_SESSIONS, k);

            if (one && !s->session) {
                add_session(table, guest, one);
            }
        }
    }
    if (s->session) {
        g_ptr_array_unref(table);
    } else {
        cli_table_print(table);
    }
    for (unsigned i = 0; i < json_array_get_length(s->guests); i++) {
        print_missing(json_array_get_object_element(s->guests, i));
    }
}

/* Are there sessions by Intel PT? */
static bool add_pt(struct status *s, const char *domain)
{
    g_autoptr(GPtrArray) list = pt_sessions_find(
        s->guest.connect, domain, s->guest.qmp, s->session);

    for (unsigned i = 0; i < list->len; i++) {
        const struct pt_session_found *f = list->pdata[i];

        json_array_add_object_element(s->guests, json_object_ref(f->status));
    }
    return list->len;
}

static int status(struct status *s, const char *domain)
{
    g_autoptr(GError) error = NULL;

    /* Such a guest has no device that could be asked, as a rule. */
    if (add_pt(s, domain) && (domain || s->guest.qmp)) {
        s->code = CLI_OK;
    } else if (!domain && !s->guest.qmp) {
        ask_domains(s);
    } else if (!cli_guest_open(&s->guest, domain, &error)) {
        if (!g_error_matches(error, AGENT_ERROR,
                             AGENT_ERROR_CLOSED)) {
            cli_error("%s", error->message);
            return CLI_FAILED;
        }
        return print_gone(s, domain, error->message);
    } else if (domain && cli_guest_is_off(&s->guest)) {
        return print_gone(s, virDomainGetName(s->guest.domain.domain),
                          "it does not run");
    } else {
        ask(s, false);
    }
    if (s->json) {
        cli_print_json(btrail_json_new("a:guests", json_array_ref(s->guests),
                                       NULL));
    } else if (!s->code || json_array_get_length(s->guests)) {
        print_answers(s);
    }
    return fflush(stdout) ? CLI_FAILED : s->code;
}

int cmd_status(int argc, char **argv)
{
    struct status s = { 0 };
    const GOptionEntry entries[] = {
        CLI_GUEST_ENTRIES(&s.guest),
        { "session", 0, 0, G_OPTION_ARG_STRING, &s.session,
          "show all that is known of this session", "NAME" },
        { "json", 0, 0, G_OPTION_ARG_NONE, &s.json, "print JSON", NULL },
        { NULL }
    };
    int code = CLI_USAGE;

    if (cli_parse(&argc, &argv, entries, CLI_OPTIONAL, "[DOMAIN]",
                  "Show the sessions of a guest, or of all domains that "
                  "run.")) {
        if (!argv[1] && !s.guest.qmp) {
            if (s.session || s.guest.agent) {
                cli_error("--session and --agent need a DOMAIN or --qmp");
            } else {
                code = CLI_OK;
            }
        } else if (cli_guest_check(&s.guest, argv[1])) {
            code = CLI_OK;
        }
    }
    if (code == CLI_OK) {
        s.guests = json_array_new();
        code = status(&s, argv[1]);
        json_array_unref(s.guests);
    }
    cli_guest_clear(&s.guest);
    g_free(s.session);
    return code;
}
