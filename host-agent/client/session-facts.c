/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * All that the service says of a session: see session-facts.h
 */

#include "client/answer.h"
#include "client/session-facts.h"
#include "client/trigger-text.h"
#include "util/json.h"

/* These return a member as text, to be freed; NULL without a value. */

static char *text(JsonObject *object, const char *name)
{
    return g_strdup(btrail_json_string(object, name));
}

static char *number(JsonObject *object, const char *name)
{
    return g_strdup_printf("%" G_GUINT64_FORMAT, answer_number(object, name));
}

static char *nanoseconds(JsonObject *object, const char *name)
{
    return g_strdup_printf("%.3f s", answer_number(object, name) / 1e9);
}

static char *seconds(JsonObject *object, const char *name)
{
    return g_strdup_printf("%g s", answer_double(object, name));
}

/* The values of an array; @format is of those that are numbers. */
static char *join(JsonObject *object, const char *name, const char *format)
{
    JsonArray *array = btrail_json_array(object, name);
    unsigned n = array ? json_array_get_length(array) : 0;
    g_autoptr(GString) list = g_string_new(NULL);

    for (unsigned i = 0; i < n; i++) {
        JsonNode *node = json_array_get_element(array, i);
        GType type = json_node_get_value_type(node);

        g_string_append(list, i ? "," : "");
        if (type == G_TYPE_STRING) {
            g_string_append(list, json_node_get_string(node));
        } else if (type == G_TYPE_INT64) {
            g_string_append_printf(list, format, json_node_get_int(node));
        }
    }
    return list->len ? g_string_free(g_steal_pointer(&list), FALSE) : NULL;
}

static char *values(JsonObject *object, const char *name)
{
    return join(object, name, "%" G_GUINT64_FORMAT);
}

static char *addresses(JsonObject *object, const char *name)
{
    return join(object, name, "0x%" G_GINT64_MODIFIER "x");
}

/* How much a session of last branches keeps */
static char *kept(JsonObject *object, const char *name)
{
    JsonObject *size = btrail_json_object(object, name);

    if (size && json_object_has_member(size, "bytes")) {
        return answer_size_text(size, "bytes");
    }
    if (size && json_object_has_member(size, "records")) {
        return g_strdup_printf("%" G_GUINT64_FORMAT " branches",
                               answer_number(size, "records"));
    }
    return size && json_object_has_member(size, "seconds") ?
           seconds(size, "seconds") : NULL;
}

struct fact {
    const char *title;
    const char *name;
    char *(*text)(JsonObject *object, const char *name);
};

/* How it was started */
static const struct fact options[] = {
    { "Session:", "session", text },
    { "Owner:", "owner", text },
    { "State:", "state", text },
    { "Mode:", "mode", text },
    { "File:", "file", text },
    { "Folder:", "folder", text },
    { "Branches:", "privilege", text },
    { "vCPUs:", "vcpus", values },
    { "CR3:", "cr3", addresses },
    { "Processes:", "processes", values },
    { "Overflow:", "overflow", text },
    { "Keeps:", "size", kept },
    { "Split:", "split", answer_size_text },
    { "Duration:", "duration", seconds },
};

/* What has become of it */
static const struct fact results[] = {
    { "Not found:", "not-found", values },
    { "Started:", "started", text },
    { "Ended:", "ended", text },
    { "Why:", "why", text },
    { "Recorded:", "records", number },
    { "Left out:", "filtered", number },
    { "Lost:", "lost", number },
    { "Waited:", "paused-ns", nanoseconds },
    { "Limited:", "limited-ns", nanoseconds },
    { "CPU time:", "cpu-ns", nanoseconds },
    { "Size:", "bytes", answer_size_text },
};

static void show(JsonObject *session, const struct fact *facts, unsigned n,
                 session_fact_fn *fact, void *opaque)
{
    for (unsigned i = 0; i < n; i++) {
        JsonNode *node = json_object_get_member(session, facts[i].name);
        g_autofree char *value = node && !JSON_NODE_HOLDS_NULL(node) ?
            facts[i].text(session, facts[i].name) : NULL;

        if (value && *value) {
            fact(opaque, facts[i].title, value);
        }
    }
}

void session_facts(JsonObject *session, session_fact_fn *fact, void *opaque)
{
    show(session, options, G_N_ELEMENTS(options), fact, opaque);
    for (unsigned i = 0; i < answer_members(session, "triggers"); i++) {
        JsonObject *one = answer_member(session, "triggers", i);
        g_autofree char *trigger = one ? trigger_text(one) : NULL;

        if (trigger) {
            fact(opaque, "Trigger:", trigger);
        }
    }
    show(session, results, G_N_ELEMENTS(results), fact, opaque);
}
