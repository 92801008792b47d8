/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: a client of the service
 *
 * The first line of the input is what a user gives as the value of options, the
 * rest is the service's answer, which the command and virsh print.
 */

#include <string.h>

#include "client/answer.h"
#include "client/service-client.h"
#include "client/session-facts.h"
#include "client/session-options.h"
#include "fuzz.h"
#include "util/json.h"

static void give(const char *text)
{
    char *texts[] = { (char *)text, NULL };
    const struct session_options given[] = {
        { .vcpus = (char *)text },
        { .cr3 = texts },
        { .process = texts },
        { .trigger = texts },
        { .mode = (char *)"last", .size = (char *)text },
        { .duration = (char *)text, .split = (char *)"1M" },
        { .duration = (char *)"1", .split = (char *)text },
        { .names = (char *)text, .overflow = (char *)"drop" },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(given); i++) {
        struct session_options o = given[i];
        g_autoptr(GError) error = NULL;
        g_autoptr(JsonObject) json = session_options_check(&o, &error) ?
            session_options_start(&o, NULL, &error) : NULL;

        fuzz_require(!json == !!error);
    }
}

static JsonObject *ask(void *opaque, JsonObject *command, GError **error)
{
    json_object_unref(command);
    return json_object_ref(opaque);
}

static void add(void *opaque, const char *title, const char *text)
{
    fuzz_require(*title && *text);
    *(unsigned *)opaque += 1;
}

static void read_session(JsonObject *session)
{
    struct progress p = answer_progress(session);
    g_autofree char *path = answer_path(session);
    g_autofree char *missing = answer_missing(session);
    g_autofree char *line = progress_line(1, &p, PROGRESS_NO_RATE);
    g_autofree char *sum = progress_sum(path, &p, answer_why(session));
    unsigned facts = 0;

    session_facts(session, add, &facts);
    answer_has_ended(session);
    answer_is_written(session);
    fuzz_require(!missing || json_object_has_member(session, "not-found"));
    fuzz_require(facts <= json_object_get_size(session) +
                 answer_members(session, "triggers"));
    fuzz_require(*line && g_str_has_prefix(sum, path));
}

static void read_answer(JsonObject *answer)
{
    const struct service_client client = { .ask = ask, .opaque = answer };
    g_autofree char *name = service_client_choose(&client, NULL, NULL);
    g_auto(GStrv) all = answer_active(answer, NULL);
    JsonObject *last = answer_last(answer, ANSWER_SESSIONS, NULL, NULL);

    fuzz_require(!name || g_strv_contains((const char *const *)all, name));
    fuzz_require(!*all || last || answer_members(answer, ANSWER_SESSIONS));
    for (unsigned i = 0; i < answer_members(answer, ANSWER_SESSIONS); i++) {
        JsonObject *one = answer_member(answer, ANSWER_SESSIONS, i);

        if (one) {
            read_session(one);
        }
    }
}

int fuzz_input(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, '\n', size);
    g_autofree char *value = g_strndup((const char *)data,
                                       end ? (size_t)(end - data) : size);
    g_autofree char *text = end ? g_strndup((const char *)end + 1,
                                            size - (end + 1 - data)) : NULL;
    g_autoptr(JsonNode) node = text ? btrail_json_parse_object(text) : NULL;

    give(value);
    if (node) {
        fuzz_accepted();
        read_answer(json_node_get_object(node));
    }
    return 0;
}
