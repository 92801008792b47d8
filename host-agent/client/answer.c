/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the service answers: see answer.h
 */

#include "client/answer.h"
#include "util/json.h"

uint64_t answer_number(JsonObject *object, const char *name)
{
    return MAX(0, btrail_json_int(object, name, 0));
}

double answer_double(JsonObject *object, const char *name)
{
    JsonNode *node = json_object_get_member(object, name);

    return node && JSON_NODE_HOLDS_VALUE(node) ?
           MAX(0, json_node_get_double(node)) : 0;
}

JsonObject *answer_member(JsonObject *answer, const char *array, unsigned i)
{
    JsonNode *node = json_array_get_element(btrail_json_array(answer, array),
                                            i);

    return JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) : NULL;
}

unsigned answer_members(JsonObject *answer, const char *array)
{
    JsonArray *members = btrail_json_array(answer, array);

    return members ? json_array_get_length(members) : 0;
}

bool answer_has_ended(JsonObject *session)
{
    JsonNode *ended = json_object_get_member(session, "ended");

    return ended && !JSON_NODE_HOLDS_NULL(ended);
}

static bool has_state(JsonObject *object, const char *state)
{
    return !g_strcmp0(btrail_json_string(object, "state"), state);
}

bool answer_is_written(JsonObject *dump)
{
    return !has_state(dump, "writing");
}

bool answer_has_failed(JsonObject *session_or_dump)
{
    return has_state(session_or_dump, "failed");
}

struct progress answer_progress(JsonObject *session)
{
    return (struct progress) {
        .records = answer_number(session, "records"),
        .bytes = answer_number(session, "bytes"),
        .record_bytes = answer_number(session, "record-bytes"),
        .lost = answer_number(session, "lost"),
        .paused_ns = answer_number(session, "paused-ns"),
    };
}

char *answer_path(JsonObject *session_or_dump)
{
    const char *file = btrail_json_string(session_or_dump, "file");
    const char *folder = btrail_json_string(session_or_dump, "folder");

    return g_build_filename(folder ? folder : "", file ? file : "", NULL);
}

const char *answer_why(JsonObject *session_or_dump)
{
    const char *why = btrail_json_string(session_or_dump, "why");

    return why && *why ? why : NULL;
}

char *answer_size_text(JsonObject *object, const char *name)
{
    static const char *const units[] = {
        "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB",
    };
    double size = answer_number(object, name);
    unsigned i;

    for (i = 0; size >= 1024; i++) {
        size /= 1024;
    }
    return g_strdup_printf("%.3f %s", size, units[i]);
}

static bool matches(JsonObject *one, const char *name, const char *wanted)
{
    return !wanted || !g_strcmp0(btrail_json_string(one, name), wanted);
}

JsonObject *answer_last(JsonObject *status, const char *array,
                        const char *session, const char *file)
{
    for (unsigned n = answer_members(status, array); n > 0; n--) {
        JsonObject *one = answer_member(status, array, n - 1);

        if (one && matches(one, "session", session) &&
            matches(one, "file", file)) {
            return one;
        }
    }
    return NULL;
}

char *answer_missing(JsonObject *session)
{
    JsonArray *array = btrail_json_array(session, "not-found");
    unsigned n = array ? json_array_get_length(array) : 0;
    g_autoptr(GPtrArray) texts = g_ptr_array_new();

    for (unsigned i = 0; i < n; i++) {
        JsonNode *node = json_array_get_element(array, i);

        if (JSON_NODE_HOLDS_VALUE(node) && json_node_get_string(node)) {
            g_ptr_array_add(texts, (char *)json_node_get_string(node));
        }
    }
    g_ptr_array_add(texts, NULL);
    return texts->len > 1 ? g_strjoinv(", ", (char **)texts->pdata) : NULL;
}

char **answer_active(JsonObject *status, const char *owner)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    unsigned n = answer_members(status, ANSWER_SESSIONS);

    for (unsigned i = 0; i < n; i++) {
        JsonObject *one = answer_member(status, ANSWER_SESSIONS, i);
        const char *name = one ? btrail_json_string(one, "session") : NULL;

        if (name && !answer_has_ended(one) && matches(one, "owner", owner)) {
            g_ptr_array_add(names, g_strdup(name));
        }
    }
    g_ptr_array_add(names, NULL);
    return (char **)g_ptr_array_steal(names, NULL);
}
