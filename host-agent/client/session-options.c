/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Options that say what a session records: see session-options.h
 */

#include <stddef.h>
#include <string.h>

#include "backtrail/words.h"
#include "client/service-client.h"
#include "client/session-options.h"
#include "client/trigger-text.h"
#include "util/json.h"
#include "util/parse.h"

/* A chunk must fit. */
#define MIN_FILE_SIZE   (1u << 20)

static bool refuse(GError **error, const char *format, ...)
    G_GNUC_PRINTF(2, 3);

static bool refuse(GError **error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    g_propagate_error(error, g_error_new_valist(G_OPTION_ERROR,
                                                G_OPTION_ERROR_BAD_VALUE,
                                                format, args));
    va_end(args);
    return false;
}

/* "5m" could be minutes or megabytes. */
static bool is_ambiguous(const char *text, uint64_t *n)
{
    const char *end;

    return parse_text_number(text, &end, n) && !strcmp(end, "m");
}

/* "64M" or "64MiB" */
static bool parse_bytes(const char *text, uint64_t *value)
{
    const char *end;

    return parse_text_size(text, &end, value) && *value <= G_MAXINT64 &&
           (!*end || (!strcmp(end, "iB") && !g_ascii_isdigit(end[-1])));
}

bool session_options_file_size(const char *option, const char *text,
                               uint64_t *value, GError **error)
{
    if (!text) {
        return true;
    }
    if (!parse_bytes(text, value)) {
        return refuse(error, "%s: '%s' is not a size such as 512K or 2M",
                      option, text);
    }
    return *value >= MIN_FILE_SIZE ||
           refuse(error, "%s: '%s' is below 1M", option, text);
}

/*
 * Each sets a member of a command.  @at: where the option is in *@o
 */

static bool set_text(const struct session_options *o, const void *at,
                     const char *member, JsonObject *json, GError **error)
{
    json_object_set_string_member(json, member, *(char *const *)at);
    return true;
}

static bool set_vcpus(const struct session_options *o, const void *at,
                      const char *member, JsonObject *json, GError **error)
{
    bool vcpus[BTRAIL_MAX_VCPUS];
    JsonArray *array;

    if (!parse_text_list(o->vcpus, vcpus, BTRAIL_MAX_VCPUS)) {
        return refuse(error, "--vcpus: '%s' is not a list of vCPUs such as "
                      "0,2-3", o->vcpus);
    }
    array = json_array_new();
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        if (vcpus[i]) {
            json_array_add_int_element(array, i);
        }
    }
    json_object_set_array_member(json, member, array);
    return true;
}

/* Both are as good as none. */
static bool set_privilege(const struct session_options *o, const void *at,
                          const char *member, JsonObject *json, GError **error)
{
    if (o->user != o->kernel) {
        json_object_set_string_member(json, member, btrail_privilege_name(
            o->user ? BTRAIL_PRIVILEGE_USER : BTRAIL_PRIVILEGE_KERNEL));
    }
    return true;
}

static bool set_cr3s(const struct session_options *o, const void *at,
                     const char *member, JsonObject *json, GError **error)
{
    g_autoptr(JsonArray) array = json_array_new();

    for (char **text = o->cr3; *text; text++) {
        uint64_t cr3;

        if (!parse_text_number(*text, NULL, &cr3)) {
            return refuse(error, "--cr3: '%s' is not a value of CR3, such as "
                          "0x1234000", *text);
        }
        json_array_add_int_element(array, cr3);
    }
    json_object_set_array_member(json, member, g_steal_pointer(&array));
    return true;
}

static bool set_processes(const struct session_options *o, const void *at,
                          const char *member, JsonObject *json, GError **error)
{
    JsonArray *array = json_array_new();

    for (char **text = o->process; *text; text++) {
        guint64 pid;

        if (g_ascii_string_to_unsigned(*text, 10, 0, G_MAXINT, &pid, NULL)) {
            json_array_add_int_element(array, pid);
        } else {
            json_array_add_string_element(array, *text);
        }
    }
    json_object_set_array_member(json, member, array);
    return true;
}

static bool keeps_last(const struct session_options *o)
{
    return !g_strcmp0(o->mode, session_mode_name(SESSION_LAST));
}

static bool set_triggers(const struct session_options *o, const void *at,
                         const char *member, JsonObject *json, GError **error)
{
    g_autoptr(JsonArray) array = json_array_new();

    for (char **text = o->trigger; *text; text++) {
        JsonObject *trigger = trigger_parse(*text, keeps_last(o) ?
                                            TRIGGER_DUMP :
                                            TRIGGER_START, error);

        if (!trigger) {
            return false;
        }
        json_array_add_object_element(array, trigger);
    }
    json_object_set_array_member(json, member, g_steal_pointer(&array));
    return true;
}

/* The service has a working directory of its own. */
static bool set_sysroots(const struct session_options *o, const void *at,
                         const char *member, JsonObject *json, GError **error)
{
    JsonArray *array = json_array_new();

    for (char **text = o->sysroot; *text; text++) {
        g_autofree char *path = g_canonicalize_filename(*text, NULL);

        json_array_add_string_element(array, path);
    }
    json_object_set_array_member(json, member, array);
    return true;
}

/* "64M", "64MiB", "30s" or "1000000records" */
static bool set_size(const struct session_options *o, const void *at,
                     const char *member, JsonObject *json, GError **error)
{
    const char *unit = NULL, *end;
    JsonObject *size;
    uint64_t value;

    if (is_ambiguous(o->size, &value)) {
        return refuse(error, "--size: '%s' is ambiguous: write %"
                      G_GUINT64_FORMAT "min for minutes, or %"
                      G_GUINT64_FORMAT "MiB", o->size, value, value);
    }
    if (parse_text_number(o->size, &end, &value) &&
        !strcmp(end, "records")) {
        unit = "records";
    } else if (parse_bytes(o->size, &value)) {
        unit = "bytes";
    } else if (parse_text_time(o->size, NULL, &value)) {
        unit = "seconds";
        value /= 1000000000;
    } else {
        value = 0;
    }
    if (!value || value > G_MAXINT64) {
        return refuse(error, "--size: '%s' is not a size such as 64MiB, a "
                      "time such as 30s, or a number such as 1000000records",
                      o->size);
    }
    size = json_object_new();
    json_object_set_int_member(size, unit, value);
    json_object_set_object_member(json, member, size);
    return true;
}

static bool set_duration(const struct session_options *o, const void *at,
                         const char *member, JsonObject *json, GError **error)
{
    json_object_set_double_member(json, member, o->duration_ns / 1e9);
    return true;
}

static bool set_split(const struct session_options *o, const void *at,
                      const char *member, JsonObject *json, GError **error)
{
    json_object_set_int_member(json, member, o->part_size);
    return true;
}

#define SESSION_OPTION_IS(o, name, type, use, json, set, words, value, help) \
    { #name, IS_ ## type, USE_ ## use, json, set_ ## set, words, value,      \
      offsetof(struct session_options, name) },

static const struct {
    const char *name;
    enum { IS_FLAG, IS_TEXT, IS_TEXTS } type;
    enum { USE_DEVICE, USE_RECORDER, USE_SERVICE } use;
    const char *json;
    bool (*set)(const struct session_options *o, const void *at,
                const char *member, JsonObject *json, GError **error);
    word_fn *words;
    const char *value;
    size_t offset;
} options[SESSION_OPTION_COUNT] = {
    SESSION_OPTIONS(SESSION_OPTION_IS, )
};

static void *where(const struct session_options *o, unsigned i)
{
    return (char *)o + options[i].offset;
}

static bool is_given(const struct session_options *o, unsigned i)
{
    return options[i].type == IS_FLAG ? *(gboolean *)where(o, i) :
           *(void **)where(o, i) != NULL;
}

word_fn *session_option_words(unsigned option, const char **value)
{
    *value = options[option].value;
    return options[option].words;
}

static bool check_words(const struct session_options *o, GError **error)
{
    for (unsigned i = 0; i < SESSION_OPTION_COUNT; i++) {
        const char *text = options[i].words ? *(char **)where(o, i) : NULL;
        unsigned value;

        if (text && !word_find(options[i].words, text, &value)) {
            g_autofree char *list = word_list(options[i].words, "");

            return refuse(error, "--%s: '%s' is not %s", options[i].name, text,
                          list);
        }
    }
    return true;
}

static bool check_duration(struct session_options *o, GError **error)
{
    uint64_t n;

    if (!o->duration) {
        return true;
    }
    if (is_ambiguous(o->duration, &n)) {
        return refuse(error, "--duration: '%s' is ambiguous: write %"
                      G_GUINT64_FORMAT "min for minutes", o->duration, n);
    }
    if (!parse_text_time(o->duration, NULL, &o->duration_ns)) {
        return refuse(error, "--duration: '%s' is not a time such as 3, 2.5s, "
                      "500ms, 5min or 1h", o->duration);
    }
    return o->duration_ns || refuse(error, "--duration: 0 is too short");
}

bool session_options_check(struct session_options *o, GError **error)
{
    if (o->session && strlen(o->session) > SESSION_MAX_NAME) {
        return refuse(error, "--session: a name has at most %d bytes",
                      SESSION_MAX_NAME);
    }
    if (!check_words(o, error)) {
        return false;
    }
    if (keeps_last(o) && !o->size) {
        return refuse(error, "--mode last needs --size, how much to keep");
    }
    if (o->size && !keeps_last(o)) {
        return refuse(error, "--size needs --mode last");
    }
    if (o->sysroot && !o->trigger) {
        return refuse(error, "--sysroot needs --trigger");
    }
    return check_duration(o, error) &&
           session_options_file_size("--split", o->split, &o->part_size,
                                     error);
}

bool session_options_need_service(const struct session_options *o)
{
    for (unsigned i = 0; i < SESSION_OPTION_COUNT; i++) {
        if (options[i].use == USE_SERVICE && is_given(o, i)) {
            return true;
        }
    }
    return false;
}

/* Sets the members of all options up to a use. */
static bool set_all(const struct session_options *o, int use, JsonObject *json,
                    GError **error)
{
    for (unsigned i = 0; i < SESSION_OPTION_COUNT; i++) {
        if ((int)options[i].use <= use && is_given(o, i) &&
            !options[i].set(o, where(o, i), options[i].json, json, error)) {
            return false;
        }
    }
    return true;
}

bool session_options_add_filter(const struct session_options *o,
                                JsonObject *json, GError **error)
{
    return set_all(o, USE_DEVICE, json, error);
}

JsonObject *session_options_start(const struct session_options *o,
                                  const char *file, GError **error)
{
    g_autofree char *owner = service_client_owner();
    g_autoptr(JsonObject) json = btrail_json_new(
        "s:do", "start", "s:session", g_get_user_name(), "s:owner", owner,
        "S:file", file, NULL);

    return set_all(o, USE_SERVICE, json, error) ? g_steal_pointer(&json) :
           NULL;
}

void session_options_clear(struct session_options *o)
{
    for (unsigned i = 0; i < SESSION_OPTION_COUNT; i++) {
        if (options[i].type == IS_TEXT) {
            g_free(*(char **)where(o, i));
        } else if (options[i].type == IS_TEXTS) {
            g_strfreev(*(char ***)where(o, i));
        }
    }
}
