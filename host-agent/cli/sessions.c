/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sessions of a guest: see sessions.h
 */

#include <string.h>

#include "cli/cli.h"
#include "cli/session-options.h"
#include "cli/sessions.h"
#include "util/json.h"

/* How often to ask whether something is written or found */
#define POLL_US     200000
/* How many times to ask whether all is found */
#define FOUND_POLLS 5

bool cli_session_has_ended(JsonObject *session)
{
    JsonNode *ended = json_object_get_member(session, "ended");

    return ended && !JSON_NODE_HOLDS_NULL(ended);
}

static uint64_t number(JsonObject *session, const char *name)
{
    return MAX(0, btrail_json_int(session, name, 0));
}

struct progress cli_session_progress(JsonObject *session)
{
    return (struct progress) {
        .records = number(session, "records"),
        .bytes = number(session, "bytes"),
        .record_bytes = number(session, "record-bytes"),
        .lost = number(session, "lost"),
        .paused_ns = number(session, "paused-ns"),
    };
}

char *cli_session_path(JsonObject *session)
{
    const char *file = btrail_json_string(session, "file");
    const char *folder = btrail_json_string(session, "folder");

    return g_build_filename(folder ? folder : "", file ? file : "", NULL);
}

/* What it has not found, or NULL; to be freed */
static char *missing(JsonObject *session)
{
    JsonArray *array = btrail_json_array(session, "not-found");
    unsigned n = array ? json_array_get_length(array) : 0;
    g_autoptr(GPtrArray) texts = g_ptr_array_new();

    for (unsigned i = 0; i < n; i++) {
        JsonNode *node = json_array_get_element(array, i);

        if (json_node_get_value_type(node) == G_TYPE_STRING) {
            g_ptr_array_add(texts, (char *)json_node_get_string(node));
        }
    }
    g_ptr_array_add(texts, NULL);
    return n ? g_strjoinv(", ", (char **)texts->pdata) : NULL;
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
    g_autofree char *list = missing(session);
    bool ended = cli_session_has_ended(session);

    if (list) {
        cli_error("%s: %s: %s%s", g->name, ended ?
                  "never found in the guest" :
                  "not found in the guest so far, and waited for", list,
                  misses_program(list) ? "; for functions that a program does "
                  "not export, the service needs its file: see sysroots in "
                  "backtraild(8)" : "");
    }
    if (ended && json_object_has_member(session, "cr3") &&
        !number(session, "records")) {
        cli_session_explain_cr3(g->name);
    }
}

/* Adds the names of sessions that have not ended; of one owner, or of all. */
static void add_names(GPtrArray *names, JsonArray *sessions, const char *owner)
{
    unsigned n = sessions ? json_array_get_length(sessions) : 0;

    for (unsigned i = 0; i < n; i++) {
        JsonNode *node = json_array_get_element(sessions, i);
        JsonObject *session = JSON_NODE_HOLDS_OBJECT(node) ?
                              json_node_get_object(node) : NULL;
        const char *name = session ? btrail_json_string(session, "session") :
                           NULL;

        if (name && !cli_session_has_ended(session) &&
            (!owner || !g_strcmp0(btrail_json_string(session, "owner"),
                                  owner))) {
            g_ptr_array_add(names, (char *)name);
        }
    }
}

char *cli_session_choose(struct cli_guest *g, const char *given)
{
    g_autofree char *owner = session_options_owner();
    g_autoptr(GPtrArray) mine = g_ptr_array_new();
    g_autoptr(GPtrArray) all = g_ptr_array_new();
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonObject) answer = NULL;
    g_autofree char *list = NULL;
    JsonArray *sessions;

    if (given) {
        return g_strdup(given);
    }
    answer = cli_guest_ask(g, btrail_json_new("s:do", "status", NULL), &error);
    if (!answer) {
        cli_guest_explain(g, error);
        return NULL;
    }
    sessions = btrail_json_array(answer, "sessions");
    add_names(mine, sessions, owner);
    add_names(all, sessions, NULL);
    if (mine->len == 1) {
        return g_strdup(mine->pdata[0]);
    }
    g_ptr_array_add(all, NULL);
    list = g_strjoinv(", ", (char **)all->pdata);
    if (all->len == 1) {
        cli_error("%s has no session", g->name);
    } else {
        cli_error("%s: name one with --session, as you have %s: %s", g->name,
                  mine->len ? "several" : "none", list);
    }
    return NULL;
}

/* The last one of this name and file, as others ones may have ended; or NULL */
static JsonObject *find_last(JsonObject *status, const char *list,
                             const char *session, const char *file)
{
    JsonArray *array = btrail_json_array(status, list);

    for (unsigned n = array ? json_array_get_length(array) : 0; n > 0; n--) {
        JsonNode *node = json_array_get_element(array, n - 1);
        JsonObject *one = JSON_NODE_HOLDS_OBJECT(node) ?
                          json_node_get_object(node) : NULL;

        if (one && !g_strcmp0(btrail_json_string(one, "session"), session) &&
            !g_strcmp0(btrail_json_string(one, "file"), file)) {
            return json_object_ref(one);
        }
    }
    return NULL;
}

void cli_session_await_found(struct cli_guest *g, JsonObject *answer)
{
    const char *session = btrail_json_string(answer, "session");
    const char *file = btrail_json_string(answer, "file");
    g_autoptr(JsonObject) last = NULL;

    for (unsigned i = 0; i < FOUND_POLLS; i++) {
        g_autoptr(JsonObject) status = NULL;

        g_usleep(POLL_US);
        status = cli_guest_ask(g, btrail_json_new("s:do", "status",
                                                  "s:session", session, NULL),
                               NULL);
        g_clear_pointer(&last, json_object_unref);
        last = status ? find_last(status, "sessions", session, file) : NULL;
        if (!last || !json_object_has_member(last, "not-found")) {
            return;
        }
    }
    cli_session_explain_missing(g, last);
}

static bool is_written(JsonObject *one, const char *list)
{
    return strcmp(list, "dumps") ? cli_session_has_ended(one) :
           g_strcmp0(btrail_json_string(one, "state"), "writing") != 0;
}

static JsonObject *wait_written(struct cli_guest *g, JsonObject *answer,
                                const char *list)
{
    g_autofree char *session = g_strdup(btrail_json_string(answer, "session"));
    g_autofree char *file = g_strdup(btrail_json_string(answer, "file"));

    while (answer && !is_written(answer, list)) {
        g_autoptr(GError) error = NULL;
        g_autoptr(JsonObject) status = NULL;

        g_usleep(POLL_US);
        json_object_unref(answer);
        status = cli_guest_ask(g, btrail_json_new("s:do", "status",
                                                  "s:session", session, NULL),
                               &error);
        answer = status ? find_last(status, list, session, file) : NULL;
        if (error) {
            cli_guest_explain(g, error);
        } else if (!answer) {
            cli_error("%s: the service no longer knows '%s'; backtrail list "
                      "shows whether it is whole", g->name, file);
        }
    }
    return answer;
}

JsonObject *cli_session_do(struct cli_guest *g, JsonObject *command,
                           const char *list)
{
    g_autoptr(GError) error = NULL;
    JsonObject *answer = cli_guest_ask(g, command, &error);

    if (!answer) {
        cli_guest_explain(g, error);
        return NULL;
    }
    return wait_written(g, answer, list);
}
