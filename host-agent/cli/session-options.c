/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Options that say what a session records: see session-options.h
 */

#include <string.h>

#include "cli/complete.h"
#include "cli/session-options.h"
#include "service/command.h"
#include "util/json.h"

/* A chunk must fit. */
#define MIN_FILE_SIZE   (1u << 20)

bool session_options_file_size(const char *option, const char *text,
                               uint64_t *value)
{
    if (!text) {
        return true;
    }
    if (!cli_parse_size(option, text, value)) {
        return false;
    }
    if (*value < MIN_FILE_SIZE) {
        cli_error("%s: '%s' is below 1M", option, text);
        return false;
    }
    return true;
}

static bool add_vcpus(const char *text, JsonObject *json)
{
    bool vcpus[BTRAIL_MAX_VCPUS];
    JsonArray *array;

    if (!text) {
        return true;
    }
    if (!cli_parse_vcpus("--vcpus", text, vcpus)) {
        return false;
    }
    array = json_array_new();
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        if (vcpus[i]) {
            json_array_add_int_element(array, i);
        }
    }
    json_object_set_array_member(json, "vcpus", array);
    return true;
}

static bool add_cr3s(char **texts, JsonObject *json)
{
    g_autoptr(GArray) cr3s = NULL;
    JsonArray *array;

    if (!cli_parse_cr3s(texts, &cr3s)) {
        return false;
    }
    if (cr3s) {
        array = json_array_new();
        for (unsigned i = 0; i < cr3s->len; i++) {
            json_array_add_int_element(array,
                                       g_array_index(cr3s, uint64_t, i));
        }
        json_object_set_array_member(json, "cr3", array);
    }
    return true;
}

static void add_processes(char **texts, JsonObject *json)
{
    JsonArray *array;

    if (!texts) {
        return;
    }
    array = json_array_new();
    for (; *texts; texts++) {
        guint64 pid;

        if (g_ascii_string_to_unsigned(*texts, 10, 0, G_MAXINT, &pid, NULL)) {
            json_array_add_int_element(array, pid);
        } else {
            json_array_add_string_element(array, *texts);
        }
    }
    json_object_set_array_member(json, "processes", array);
}

/* "64M", "64MiB", "30s" or "1000000records" */
static bool add_size(const char *text, JsonObject *json)
{
    g_autofree char *bytes = NULL;
    const char *member = "bytes", *end;
    JsonObject *size;
    uint64_t value;

    if (!text) {
        return true;
    }
    if (g_str_has_suffix(text, "iB")) {
        bytes = g_strndup(text, strlen(text) - 2);
    }
    if (btrail_parse_number(text, &end, &value) && !strcmp(end, "records")) {
        member = "records";
    } else if (!btrail_parse_size(bytes ? bytes : text, NULL, &value)) {
        if (!btrail_parse_time(text, NULL, &value)) {
            cli_error("--size: '%s' is not a size such as 64M, a time such as "
                      "30s, or a number such as 1000000records", text);
            return false;
        }
        member = "seconds";
        value /= 1000000000;
    }
    size = json_object_new();
    json_object_set_int_member(size, member, value);
    json_object_set_object_member(json, "size", size);
    return true;
}

static const char *field_value(const char *field, const char *name)
{
    return g_str_has_prefix(field, name) ? field + strlen(name) : NULL;
}

/* How many fields are the place?  That of a mark can have commas. */
static unsigned count_place(const char *text, char **fields)
{
    unsigned n = g_strv_length(fields);

    if (!btrail_command_mark(text)) {
        return MIN(n, 1);
    }
    while (n > 1 && (field_value(fields[n - 1], "do=") ||
                     field_value(fields[n - 1], "hits=") ||
                     field_value(fields[n - 1], "longer="))) {
        n--;
    }
    return n;
}

/* "PROCESS:SYMBOL,do=dump,hits=3,longer=10ms", "mark:NAME=5,do=dump" */
static JsonObject *parse_trigger(const char *text, bool last)
{
    g_auto(GStrv) fields = g_strsplit(text, ",", -1);
    const char *action = last ? "dump" : "start", *value;
    unsigned n = count_place(text, fields);
    uint64_t hits = 1, ns = 0;
    g_autofree char *place = NULL;
    JsonObject *trigger;
    size_t size = 0;

    for (unsigned i = n; fields[i]; i++) {
        if ((value = field_value(fields[i], "do="))) {
            action = value;
        } else if (!((value = field_value(fields[i], "hits=")) &&
                     btrail_parse_number(value, NULL, &hits)) &&
                   !((value = field_value(fields[i], "longer=")) &&
                     btrail_parse_time(value, NULL, &ns) && ns)) {
            cli_error("--trigger: '%s': '%s' is not do=ACTION, hits=NUMBER or "
                      "longer=TIME", text, fields[i]);
            return NULL;
        }
    }
    for (unsigned i = 0; i < n; i++) {
        size += (i > 0) + strlen(fields[i]);
    }
    place = g_strndup(text, size);
    trigger = btrail_json_new("s:at", place, "s:do", action, "U:hits", hits,
                              NULL);
    if (ns) {
        json_object_set_double_member(trigger, "longer", ns / 1e9);
    }
    return trigger;
}

static bool add_triggers(const struct session_options *o, JsonObject *json)
{
    bool last = !g_strcmp0(o->mode, "last");
    JsonArray *array;

    if (!o->triggers) {
        return true;
    }
    array = json_array_new();
    json_object_set_array_member(json, "triggers", array);
    for (char **text = o->triggers; *text; text++) {
        JsonObject *trigger = parse_trigger(*text, last);

        if (!trigger) {
            return false;
        }
        json_array_add_object_element(array, trigger);
    }
    return true;
}

bool session_options_add_filter(const struct session_options *o,
                                JsonObject *json)
{
    if (o->overflow && btrail_overflow_value(o->overflow) < 0) {
        cli_error("--overflow: '%s' is not pause, drop or overwrite",
                  o->overflow);
        return false;
    }
    btrail_json_add(json, "S:privilege", o->user == o->kernel ? NULL :
                    o->user ? "user" : "kernel", "S:overflow", o->overflow,
                    NULL);
    return add_vcpus(o->vcpus, json) && add_cr3s(o->cr3, json);
}

bool session_options_check(struct session_options *o)
{
    if (o->session && strlen(o->session) > BTRAIL_COMMAND_MAX_NAME) {
        cli_error("--session: a name has at most %d bytes",
                  BTRAIL_COMMAND_MAX_NAME);
        return false;
    }
    if (o->names && strcmp(o->names, "auto") && strcmp(o->names, "all") &&
        strcmp(o->names, "off")) {
        cli_error("--names: '%s' is not auto, all or off", o->names);
        return false;
    }
    if (o->duration) {
        if (!cli_parse_duration("--duration", o->duration, &o->duration_ns)) {
            return false;
        }
        if (!o->duration_ns) {
            cli_error("--duration: 0 is too short");
            return false;
        }
    }
    return session_options_file_size("--split", o->split, &o->part_size);
}

bool session_options_need_service(const struct session_options *o)
{
    return o->processes || o->triggers || o->mode || o->size;
}

JsonObject *session_options_start(const struct session_options *o,
                                  const char *file)
{
    g_autofree char *owner = session_options_owner();
    g_autoptr(JsonObject) json = btrail_json_new(
        "s:do", "start", "s:session", o->session ? o->session :
        g_get_user_name(), "s:owner", owner, "S:file", file,
        "S:names", o->names, "S:mode", o->mode, NULL);
    g_autoptr(btrail_command) command = NULL;
    g_autoptr(GError) error = NULL;

    if (!session_options_add_filter(o, json) || !add_size(o->size, json) ||
        !add_triggers(o, json)) {
        return NULL;
    }
    add_processes(o->processes, json);
    if (o->duration) {
        json_object_set_double_member(json, "duration", o->duration_ns / 1e9);
    }
    if (o->split) {
        json_object_set_int_member(json, "split", o->part_size);
    }
    /* As the service will */
    command = btrail_command_parse(json, &error);
    if (!command) {
        cli_error("%s", error->message);
        return NULL;
    }
    return g_steal_pointer(&json);
}

char *session_options_owner(void)
{
    return g_strdup_printf("%s@%s", g_get_user_name(), g_get_host_name());
}

static const char *overflow_value(unsigned i)
{
    return btrail_overflow_name(i);
}

static const char *mode_value(unsigned i)
{
    return i == 0 ? "continuous" : i == 1 ? "last" : NULL;
}

static const char *names_value(unsigned i)
{
    return i == 0 ? "auto" : i == 1 ? "all" : i == 2 ? "off" : NULL;
}

void session_options_complete(void)
{
    cli_complete_value("POLICY", overflow_value);
    cli_complete_value("MODE", mode_value);
    cli_complete_value("NAMES", names_value);
}

void session_options_clear(struct session_options *o)
{
    g_free(o->session);
    g_free(o->vcpus);
    g_strfreev(o->cr3);
    g_strfreev(o->processes);
    g_strfreev(o->triggers);
    g_free(o->mode);
    g_free(o->size);
    g_free(o->overflow);
    g_free(o->duration);
    g_free(o->split);
    g_free(o->names);
}
