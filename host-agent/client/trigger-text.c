/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Triggers as people write and read them: see trigger-text.h
 */

#include <string.h>

#include "client/answer.h"
#include "client/trigger-text.h"
#include "util/json.h"
#include "util/last-colon.h"
#include "util/parse.h"
#include "util/session-words.h"

/* Each sets a member of the trigger, or returns false if the value is none. */

static bool set_action(JsonObject *trigger, const char *name,
                       const char *value)
{
    unsigned action;

    json_object_set_string_member(trigger, name, value);
    return word_find(trigger_action_name, value, &action);
}

static bool set_number(JsonObject *trigger, const char *name,
                       const char *value)
{
    uint64_t n = 0;

    if (!parse_text_number(value, NULL, &n) || !n || n > G_MAXINT64) {
        return false;
    }
    json_object_set_int_member(trigger, name, n);
    return true;
}

static bool set_seconds(JsonObject *trigger, const char *name,
                        const char *value)
{
    uint64_t ns = 0;

    if (!parse_text_time(value, NULL, &ns) || !ns) {
        return false;
    }
    json_object_set_double_member(trigger, name, ns / 1e9);
    return true;
}

static bool set_mark(JsonObject *trigger, const char *name, const char *value)
{
    json_object_set_string_member(trigger, name, value);
    return g_str_has_prefix(value, "mark:");
}

static bool set_true(JsonObject *trigger, const char *name, const char *value)
{
    json_object_set_boolean_member(trigger, name, TRUE);
    return true;
}

/* What can follow the place, as in "hits=3"; @alone: without a value */
static const struct trigger_field {
    const char *name;
    bool (*set)(JsonObject *trigger, const char *name, const char *value);
    bool alone;
} fields[] = {
    { "do", set_action },
    { "hits", set_number },
    { "longer", set_seconds },
    { "until", set_mark },
    { "once", set_true, true },
};

/* Before the second mark, whose name can have commas, too */
#define UNTIL   ",until=mark:"

/* The field of a text such as "hits=3", and its value; or NULL */
static const struct trigger_field *find_field(const char *text,
                                              const char **value)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(fields); i++) {
        size_t length = strlen(fields[i].name);

        if (strncmp(text, fields[i].name, length)) {
            continue;
        }
        if (fields[i].alone ? !text[length] || text[length] == ',' :
            text[length] == '=') {
            *value = text + length + !fields[i].alone;
            return &fields[i];
        }
    }
    return NULL;
}

const char *trigger_mark(const char *place)
{
    const char *mark = g_str_has_prefix(place, "mark:") ? place :
                       strstr(place, ":mark:");

    /* Namespaces can have this name. */
    while (mark && mark > place && (mark[-1] == ':' || mark[6] == ':')) {
        mark = strstr(mark + 1, ":mark:");
    }
    return mark && *mark == ':' ? mark + 1 : mark;
}

/* Does an option begin at this comma? */
static bool is_option(const char *comma)
{
    const char *value;

    return *comma == ',' && find_field(comma + 1, &value);
}

/*
 * The place of a mark, whose name can have any comma: options are last of the
 * first @size bytes.
 */
static size_t mark_size(const char *text, size_t size)
{
    for (size_t n = size; n--;) {
        if (text[n] == ',') {
            if (!is_option(text + n)) {
                break;
            }
            size = n;
        }
    }
    return size;
}

/*
 * A function can have commas in brackets, and a process anywhere, but neither
 * has what is an option.
 */
static size_t place_size(const char *text)
{
    const char *end = text, *colon, *comma;
    g_autofree char *place = NULL;

    while (*end && !is_option(end)) {
        end++;
    }
    place = g_strndup(text, end - text);
    colon = last_colon(place);
    comma = last_colon_comma(colon ? colon + 1 : place);
    return comma ? comma - place : end - text;
}

/* Adds the options of a text that is empty or begins with a comma. */
static void add_options(GStrvBuilder *options, const char *text)
{
    g_auto(GStrv) parts = g_strsplit(text, ",", -1);

    for (unsigned i = 1; *parts && parts[i]; i++) {
        g_strv_builder_add(options, parts[i]);
    }
}

/* Returns the place, and the options after it. */
static char *split(const char *text, char ***options)
{
    g_autoptr(GStrvBuilder) all = g_strv_builder_new();
    const char *until = trigger_mark(text) ? g_strrstr(text, UNTIL) : NULL;
    size_t n = until ? (size_t)(until - text) : strlen(text);
    size_t size = trigger_mark(text) ? mark_size(text, n) : place_size(text);
    g_autofree char *before = g_strndup(text + size, n - size);

    add_options(all, before);
    if (until) {
        const char *option = until + 1;
        size_t end = mark_size(option, strlen(option));
        g_autofree char *mark = g_strndup(option, end);

        g_strv_builder_add(all, mark);
        add_options(all, option + end);
    }
    *options = g_strv_builder_end(all);
    return g_strndup(text, size);
}

JsonObject *trigger_parse(const char *text, unsigned action, GError **error)
{
    g_auto(GStrv) parts = NULL;
    g_autofree char *place = split(text, &parts);
    g_autoptr(JsonObject) trigger = NULL;

    trigger = btrail_json_new("s:at", place, "s:do",
                              trigger_action_name(action), "u:hits", 1,
                              NULL);
    for (unsigned i = 0; i < g_strv_length(parts); i++) {
        const char *value = NULL;
        const struct trigger_field *field = find_field(parts[i], &value);

        if (!field || !field->set(trigger, field->name, value)) {
            g_autofree char *actions = word_list(
                trigger_action_name, "");

            g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                        "--trigger: '%s': '%s' is not do=ACTION (%s), "
                        "hits=NUMBER, longer=TIME, until=mark:NAME or once",
                        text, parts[i], actions);
            return NULL;
        }
    }
    return g_steal_pointer(&trigger);
}

char *trigger_text(JsonObject *trigger)
{
    const char *at = btrail_json_string(trigger, "at");
    const char *action = btrail_json_string(trigger, "do");
    const char *until = btrail_json_string(trigger, "until");
    double longer = answer_double(trigger, "longer");
    uint64_t unmeasured = answer_number(trigger, "unmeasured");
    GString *text = g_string_new(at);

    /* As trigger_parse() takes it */
    g_string_append_printf(text, ",do=%s,hits=%" G_GUINT64_FORMAT,
                           action ? action : "-",
                           answer_number(trigger, "hits"));
    if (longer > 0) {
        g_string_append_printf(text, ",longer=%.12gs", longer);
    }
    if (until) {
        g_string_append_printf(text, ",until=%s", until);
    }
    if (btrail_json_is_true(trigger, "once")) {
        g_string_append(text, ",once");
    }
    if (json_object_has_member(trigger, "places")) {
        g_string_append_printf(text, ": %" G_GUINT64_FORMAT " places",
                               answer_number(trigger, "places"));
        if (btrail_json_is_true(trigger, "capped")) {
            g_string_append(text, ", not all");
        }
    }
    if (btrail_json_is_true(trigger, "off")) {
        g_string_append(text, ", off");
    }
    if (unmeasured) {
        g_string_append_printf(text, ", %" G_GUINT64_FORMAT " not measured",
                               unmeasured);
    }
    return g_string_free(text, FALSE);
}
