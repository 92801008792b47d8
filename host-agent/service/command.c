/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands of clients: see command.h
 */

#include <limits.h>
#include <string.h>

#include "backtrail/words.h"
#include "client/trigger-text.h"
#include "service/command.h"
#include "service/folder.h"
#include "util/json.h"
#include "util/last-colon.h"
#include "util/mark.h"
#include "util/parse.h"
#include "util/sort.h"

/* A year: what is longer is a mistake. */
#define MAX_SECONDS     (366 * 24 * 3600)

/* Smaller parts than the file has overhead make no sense. */
#define MIN_SPLIT       (1 << 20)
#define MIN_LAST_BYTES  (1 << 20)

static const char *what_name(unsigned what)
{
    static const char *const words[] = {
        [COMMAND_START] = "start",
        [COMMAND_STOP] = "stop",
        [COMMAND_DUMP] = "dump",
        [COMMAND_STATUS] = "status",
        [COMMAND_LIST] = "list",
    };

    return what < G_N_ELEMENTS(words) ? words[what] : NULL;
}

/* What a session of mode "last" may be asked to keep */
static const struct {
    const char *name;
    uint64_t least, most, unit;
    size_t offset;              /* in struct session_limit */
} sizes[] = {
    { "bytes", MIN_LAST_BYTES, G_MAXINT64, 1,
      offsetof(struct session_limit, bytes) },
    { "records", 1, G_MAXINT64, 1,
      offsetof(struct session_limit, records) },
    { "seconds", 1, MAX_SECONDS, 1000000000,
      offsetof(struct session_limit, ns) },
};

static const char *size_name(unsigned size)
{
    return size < G_N_ELEMENTS(sizes) ? sizes[size].name : NULL;
}

#define refuse(error, ...) \
    service_fail(error, SERVICE_ERROR_COMMAND, __VA_ARGS__)

static bool find_word(word_fn *name, const char *member,
                      const char *text, unsigned *value, GError **error)
{
    g_autofree char *list = NULL;

    if (word_find(name, text, value)) {
        return true;
    }
    list = word_list(name, "'");
    return refuse(error, "'%s' must be %s", member, list);
}

/* Reads a member that is a word; without it @value stays as it is. */
static bool parse_word(JsonObject *json, const char *member,
                       word_fn *name, unsigned *value, GError **error)
{
    return !json_object_has_member(json, member) ||
           find_word(name, member, btrail_json_string(json, member), value,
                     error);
}

static bool parse_text(JsonObject *json, const char *member, size_t most,
                       char **text, GError **error)
{
    const char *t = btrail_json_string(json, member);

    if (!json_object_has_member(json, member)) {
        return true;
    }
    if (!t || !*t || strlen(t) > most || !g_utf8_validate(t, -1, NULL)) {
        return refuse(error, "'%s' must be a text of 1 to %zu bytes", member,
                      most);
    }
    for (const char *p = t; *p; p = g_utf8_next_char(p)) {
        if (g_unichar_iscntrl(g_utf8_get_char(p))) {
            return refuse(error, "'%s' has control characters", member);
        }
    }
    *text = g_strdup(t);
    return true;
}

static bool parse_number(JsonObject *json, const char *member, uint64_t least,
                         uint64_t most, uint64_t *value, GError **error)
{
    gint64 n;

    if (!json_object_has_member(json, member)) {
        return true;
    }
    n = btrail_json_int(json, member, -1);
    if (n < 0 || (uint64_t)n < least || (uint64_t)n > most) {
        return refuse(error, "'%s' must be a number from %" G_GUINT64_FORMAT
                      " to %" G_GUINT64_FORMAT, member, least, most);
    }
    *value = n;
    return true;
}

/* Seconds, with a fraction or without */
static bool parse_seconds(JsonObject *json, const char *member, uint64_t *ms,
                          GError **error)
{
    JsonNode *node = json_object_get_member(json, member);
    GType type = node ? json_node_get_value_type(node) : G_TYPE_INVALID;
    double seconds;

    if (!node) {
        return true;
    }
    if (type != G_TYPE_INT64 && type != G_TYPE_DOUBLE) {
        return refuse(error, "'%s' must be a number of seconds", member);
    }
    seconds = json_node_get_double(node);
    if (!(seconds >= 0.001 && seconds <= MAX_SECONDS)) {
        return refuse(error, "'%s' must be from 0.001 to %d seconds", member,
                      MAX_SECONDS);
    }
    *ms = seconds * 1000;
    return true;
}

/* An array that has something; NULL if it is not there */
static bool parse_array(JsonObject *json, const char *member, unsigned most,
                        JsonArray **array, GError **error)
{
    *array = btrail_json_array(json, member);
    if (!json_object_has_member(json, member)) {
        return true;
    }
    if (!*array || !json_array_get_length(*array) ||
        json_array_get_length(*array) > most) {
        return refuse(error, "'%s' must be an array with 1 to %u members",
                      member, most);
    }
    return true;
}

static bool parse_vcpus(JsonObject *json, struct session_filter *f,
                        GError **error)
{
    g_autoptr(GArray) vcpus = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    JsonArray *array;

    if (!parse_array(json, "vcpus", BTRAIL_MAX_VCPUS, &array, error)) {
        return false;
    }
    for (unsigned i = 0; array && i < json_array_get_length(array); i++) {
        JsonNode *node = json_array_get_element(array, i);
        gint64 n = json_node_get_value_type(node) == G_TYPE_INT64 ?
                   json_node_get_int(node) : -1;
        uint32_t vcpu = n;

        if (n < 0 || n >= BTRAIL_MAX_VCPUS) {
            return refuse(error, "'vcpus' must have numbers of vCPUs, from 0 "
                          "to %d", BTRAIL_MAX_VCPUS - 1);
        }
        g_array_append_val(vcpus, vcpu);
    }
    btrail_sort_vcpus(vcpus);
    f->n_vcpus = vcpus->len;
    f->vcpus = g_array_steal(vcpus, NULL);
    return true;
}

/* A number or a text */
static bool parse_address(JsonNode *node, uint64_t *address)
{
    GType type = json_node_get_value_type(node);

    if (type == G_TYPE_INT64) {
        *address = json_node_get_int(node);
        return json_node_get_int(node) >= 0;
    }
    return type == G_TYPE_STRING &&
           parse_text_number(json_node_get_string(node), NULL, address);
}

/* JSON's integers have a sign: with BTRAIL_CR3_PAE, one is negative. */
static bool parse_pae(JsonNode *node, uint64_t *cr3)
{
    if (!JSON_NODE_HOLDS_VALUE(node) ||
        json_node_get_value_type(node) != G_TYPE_INT64) {
        return false;
    }
    *cr3 = json_node_get_int(node);
    return *cr3 & BTRAIL_CR3_PAE && !(*cr3 << 1 >> 33);
}

static bool parse_cr3(JsonObject *json, struct session_filter *f,
                      GError **error)
{
    g_autoptr(GArray) cr3s = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    JsonArray *array;

    if (!parse_array(json, "cr3", COMMAND_MAX_CR3, &array, error)) {
        return false;
    }
    for (unsigned i = 0; array && i < json_array_get_length(array); i++) {
        uint64_t root;

        if (!parse_address(json_array_get_element(array, i), &root) &&
            !parse_pae(json_array_get_element(array, i), &root)) {
            return refuse(error, "'cr3' must have addresses, as numbers or as "
                          "texts such as \"0x1234000\"");
        }
        g_array_append_val(cr3s, root);
    }
    f->n_cr3s = cr3s->len;
    f->cr3s = g_array_steal(cr3s, NULL);
    return true;
}

static bool parse_processes(JsonObject *json, struct session_filter *f,
                            GError **error)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    JsonArray *array;

    if (!parse_array(json, "processes", COMMAND_MAX_PROCESSES, &array,
                     error)) {
        return false;
    }
    if (!array) {
        return true;
    }
    for (unsigned i = 0; i < json_array_get_length(array); i++) {
        JsonNode *node = json_array_get_element(array, i);
        GType type = json_node_get_value_type(node);

        if (type == G_TYPE_INT64 && json_node_get_int(node) > 0 &&
            json_node_get_int(node) <= G_MAXINT) {
            g_ptr_array_add(names, g_strdup_printf("%" G_GINT64_FORMAT,
                                                   json_node_get_int(node)));
        } else if (type == G_TYPE_STRING && *json_node_get_string(node) &&
                   strlen(json_node_get_string(node)) <=
                   COMMAND_MAX_TEXT) {
            g_ptr_array_add(names, json_node_dup_string(node));
        } else {
            return refuse(error, "'processes' must have names and numbers of "
                          "processes");
        }
    }
    g_ptr_array_add(names, NULL);
    f->processes = (const char *const *)g_ptr_array_steal(names, NULL);
    return true;
}

/* All members of an object must be among those that are known. */
static bool check_members(JsonObject *json, const char *const *known,
                          const char *of, GError **error)
{
    g_autoptr(GList) members = json_object_get_members(json);

    for (GList *l = members; l; l = l->next) {
        if (!g_strv_contains(known, l->data)) {
            g_autofree char *name = g_utf8_make_valid(
                l->data, MIN(strlen(l->data), 100));

            return refuse(error, "%s has no member '%s'", of, name);
        }
    }
    return true;
}

static bool check_mark_name(const char *at, const struct mark_wanted *mark,
                            GError **error)
{
    return strlen(mark->name) <= MARK_NAME_MAX ||
           refuse(error, "trigger '%s': the name of a mark has at most %d "
                  "bytes", at, MARK_NAME_MAX);
}

/* PROCESS:mark:NAME is a mark in a process, mark:NAME one of anybody. */
static bool read_mark(const char *at, const char *mark,
                      struct trigger *t, GError **error)
{
    mark_wanted_parse(mark, &t->mark);
    if (!check_mark_name(at, &t->mark, error)) {
        return false;
    }
    if (mark == at) {
        return true;
    }
    t->process = g_strndup(at, mark - 1 - at);
    if (!*t->process || !strcmp(t->process, "kernel")) {
        return refuse(error, "trigger '%s': a mark is of a process "
                      "(PROCESS:mark:NAME) or of anybody, also the kernel "
                      "(mark:NAME)", at);
    }
    return true;
}

/*
 * PROCESS:SYMBOL is of programs, PROCESS:kernel:SYMBOL of the kernel while it
 * works for the process, kernel:SYMBOL of the kernel.
 */
static void read_place(const char *at, const char *colon, struct trigger *t)
{
    const char *place = colon + 1;
    char *process = g_strndup(at, colon - at);

    if (!parse_text_number(place, NULL, &t->address)) {
        t->symbol = g_strdup(place);
    }
    if (!strcmp(process, "kernel")) {
        g_clear_pointer(&process, g_free);
    } else if (g_str_has_suffix(process, ":kernel")) {
        process[strlen(process) - strlen(":kernel")] = '\0';
    } else {
        t->user = t->symbol != NULL;
    }
    t->process = process;
}

/* The mark that ends a span.  Its process is that of the first one. */
static bool read_until(const char *at, const char *until, struct trigger *t,
                       GError **error)
{
    if (!t->mark.name) {
        return refuse(error, "trigger '%s': 'until' is for marks", at);
    }
    if (!mark_wanted_parse(until, &t->until)) {
        return refuse(error, "trigger '%s': 'until' must be mark:NAME, not "
                      "'%s'", at, until);
    }
    if (t->mark.condition || t->until.condition) {
        /* A value that is not known would leave the time unknown, too. */
        return refuse(error, "trigger '%s': with 'until', marks have no "
                      "condition", at);
    }
    if (!t->longer_ns) {
        return refuse(error, "trigger '%s': 'until' needs 'longer'", at);
    }
    return check_mark_name(at, &t->until, error);
}

static bool parse_trigger(JsonNode *node, char **at, char **until,
                          struct trigger *t, GError **error)
{
    static const char *const known[] = {
        "at", "until", "do", "hits", "longer", "once", NULL
    };
    uint64_t longer_ms = 0;
    const char *mark, *colon;
    JsonObject *json = JSON_NODE_HOLDS_OBJECT(node) ?
                       json_node_get_object(node) : NULL;

    if (!json) {
        return refuse(error, "'triggers' must have objects");
    }
    if (!check_members(json, known, "a trigger", error) ||
        !parse_text(json, "at", COMMAND_MAX_TEXT, at, error) ||
        !parse_text(json, "until", COMMAND_MAX_TEXT, until, error) ||
        !find_word(trigger_action_name, "do",
                   btrail_json_string(json, "do"), &t->action, error)) {
        return false;
    }
    t->hits = 1;
    t->once = btrail_json_is_true(json, "once");
    if (!t->once && json_object_has_member(json, "once")) {
        return refuse(error, "'once' of a trigger must be true");
    }
    mark = *at ? trigger_mark(*at) : NULL;
    colon = *at ? last_colon(*at) : NULL;
    if (!mark && (!colon || colon == *at || !colon[1])) {
        return refuse(error, "'at' of a trigger must be PROCESS:SYMBOL or "
                      "PROCESS:ADDRESS, where 'kernel' is a process, or "
                      "mark:NAME");
    }
    if (!mark) {
        read_place(*at, colon, t);
    } else if (!read_mark(*at, mark, t, error)) {
        return false;
    }
    if (!parse_seconds(json, "longer", &longer_ms, error)) {
        return false;
    }
    t->longer_ns = longer_ms * 1000000;
    if (*until && !read_until(*at, *until, t, error)) {
        return false;
    }
    if (mark && longer_ms && !*until) {
        return refuse(error, "trigger '%s': 'longer' is for calls, and a mark "
                      "is none; 'until' says which mark ends the time", *at);
    }
    return parse_number(json, "hits", 1, G_MAXINT64, &t->hits, error);
}

static bool parse_triggers(struct service_command *c, GError **error)
{
    JsonArray *array;

    if (!parse_array(c->json, "triggers", COMMAND_MAX_TRIGGERS, &array,
                     error)) {
        return false;
    }
    c->n_triggers = array ? json_array_get_length(array) : 0;
    c->triggers = g_new0(struct trigger, c->n_triggers);
    c->at = g_new0(char *, c->n_triggers + 1);
    c->until = g_new0(char *, c->n_triggers + 1);
    for (unsigned i = 0; i < c->n_triggers; i++) {
        if (!parse_trigger(json_array_get_element(array, i), &c->at[i],
                           &c->until[i], &c->triggers[i], error)) {
            return false;
        }
    }
    return true;
}

static bool parse_sysroots(struct service_command *c, GError **error)
{
    g_autoptr(GStrvBuilder) paths = g_strv_builder_new();
    JsonArray *array;

    if (!parse_array(c->json, "sysroots", COMMAND_MAX_SYSROOTS, &array,
                     error)) {
        return false;
    }
    for (unsigned i = 0; array && i < json_array_get_length(array); i++) {
        JsonNode *node = json_array_get_element(array, i);
        const char *path =
            json_node_get_value_type(node) == G_TYPE_STRING ?
            json_node_get_string(node) : "";

        if (!g_path_is_absolute(path) || strlen(path) >= PATH_MAX) {
            return refuse(error, "'sysroots' must have absolute paths of "
                          "folders");
        }
        g_strv_builder_add(paths, path);
    }
    if (array && !c->n_triggers) {
        return refuse(error, "'sysroots' are for 'triggers'");
    }
    c->sysroots = array ? (const char *const *)g_strv_builder_end(paths) :
                  NULL;
    return true;
}

static bool parse_size(struct service_command *c, GError **error)
{
    JsonNode *node = json_object_get_member(c->json, "size");
    bool last = c->mode == SESSION_LAST;
    g_autoptr(GList) members = NULL;
    JsonObject *size;
    uint64_t n = 0;
    unsigned i;

    if (!node != !last) {
        return refuse(error, last ? "mode 'last' needs a 'size'" :
                      "'size' is for mode 'last'");
    }
    if (!node) {
        return true;
    }
    size = btrail_json_object(c->json, "size");
    members = size ? json_object_get_members(size) : NULL;
    if (!members || members->next) {
        return refuse(error, "'size' must be an object with one member: "
                      "'bytes', 'records' or 'seconds'");
    }
    if (!find_word(size_name, "size", members->data, &i, error) ||
        !parse_number(size, sizes[i].name, sizes[i].least, sizes[i].most, &n,
                      error)) {
        return false;
    }
    *(uint64_t *)((char *)&c->limit + sizes[i].offset) = n * sizes[i].unit;
    return true;
}

static bool parse_start(struct service_command *c, GError **error)
{
    static const char *const known[] = {
        "do", "session", "file", "owner", "vcpus", "processes", "cr3",
        "privilege", "mode", "size", "overflow", "duration", "triggers",
        "sysroots", "names", "split", NULL
    };
    unsigned i;

    c->privilege = BTRAIL_PRIVILEGE_USER | BTRAIL_PRIVILEGE_KERNEL;
    c->overflow = BTRAIL_OVERFLOW_PAUSE;
    c->names = NAMES_AUTO;
    if (!check_members(c->json, known, "'start'", error) ||
        !parse_text(c->json, "owner", COMMAND_MAX_TEXT, &c->owner,
                    error) ||
        !parse_vcpus(c->json, &c->filter, error) ||
        !parse_cr3(c->json, &c->filter, error) ||
        !parse_processes(c->json, &c->filter, error) ||
        !parse_word(c->json, "privilege", btrail_privilege_name,
                    &c->privilege, error) ||
        !parse_word(c->json, "mode", session_mode_name, &c->mode,
                    error) ||
        !parse_word(c->json, "overflow", btrail_overflow_name,
                    &c->overflow, error) ||
        !parse_word(c->json, "names", names_wanted_name, &c->names, error) ||
        !parse_seconds(c->json, "duration", &c->duration_ms, error) ||
        !parse_triggers(c, error) || !parse_sysroots(c, error) ||
        !parse_number(c->json, "split", MIN_SPLIT, G_MAXINT64, &c->split,
                      error)) {
        return false;
    }
    /* In the filter, all is 0. */
    if (c->privilege != (BTRAIL_PRIVILEGE_USER | BTRAIL_PRIVILEGE_KERNEL)) {
        c->filter.privilege = c->privilege;
    }
    if (c->overflow == BTRAIL_OVERFLOW_OVERWRITE &&
        c->mode != SESSION_LAST) {
        return refuse(error, "to keep what was recorded last is mode 'last', "
                      "with a 'size'");
    }
    for (i = 0; c->names == NAMES_OFF && i < c->n_triggers;
         i++) {
        if (c->triggers[i].process || c->triggers[i].symbol) {
            return refuse(error, "trigger '%s' needs names, and 'names' are "
                          "'off'", c->at[i]);
        }
    }
    for (i = 0; c->filter.n_vcpus && i < c->n_triggers; i++) {
        if (c->triggers[i].longer_ns) {
            return refuse(error, "trigger '%s' measures what threads do, and "
                          "they can go to any vCPU: leave out 'vcpus'",
                          c->at[i]);
        }
    }
    if (c->names == NAMES_OFF && c->filter.processes) {
        return refuse(error, "'processes' needs names, and 'names' are 'off'; "
                      "'cr3' works without names");
    }
    if (c->mode == SESSION_LAST && c->split) {
        return refuse(error, "'split' is not for mode 'last'");
    }
    return parse_size(c, error);
}

static bool parse_file(struct service_command *c, GError **error)
{
    g_autofree char *name = NULL;

    if (!parse_text(c->json, "file", 1000, &name, error)) {
        return false;
    }
    if (!name) {
        return true;
    }
    c->file = folder_check_name(name, error);
    return c->file;
}

static bool parse_command(struct service_command *c, GError **error)
{
    static const char *const session[] = { "do", "session", NULL };
    static const char *const dump[] = { "do", "session", "file", NULL };
    static const char *const list[] = { "do", "guest", "uuid", NULL };

    if (!find_word(what_name, "do", btrail_json_string(c->json, "do"),
                   &c->what, error) ||
        !parse_text(c->json, "session", SESSION_MAX_NAME, &c->session,
                    error) ||
        !parse_file(c, error)) {
        return false;
    }
    switch (c->what) {
    case COMMAND_START:
        return parse_start(c, error);
    case COMMAND_STOP:
        return check_members(c->json, session, "'stop'", error);
    case COMMAND_DUMP:
        return check_members(c->json, dump, "'dump'", error);
    case COMMAND_STATUS:
        return check_members(c->json, session, "'status'", error);
    default:
        return check_members(c->json, list, "'list'", error) &&
               parse_text(c->json, "guest", COMMAND_MAX_TEXT, &c->guest,
                          error) &&
               parse_text(c->json, "uuid", COMMAND_MAX_TEXT, &c->uuid,
                          error);
    }
}

struct service_command *command_parse(JsonObject *json, GError **error)
{
    struct service_command *c = g_new0(struct service_command, 1);

    c->json = json_object_ref(json);
    if (!parse_command(c, error)) {
        command_free(c);
        return NULL;
    }
    return c;
}

void command_free(struct service_command *c)
{
    if (c) {
        json_object_unref(c->json);
        g_free(c->session);
        g_free(c->file);
        g_free(c->owner);
        g_free(c->guest);
        g_free(c->uuid);
        session_filter_clear(&c->filter);
        for (unsigned i = 0; i < c->n_triggers; i++) {
            g_free((char *)c->triggers[i].process);
            g_free((char *)c->triggers[i].symbol);
            mark_wanted_clear(&c->triggers[i].mark);
            mark_wanted_clear(&c->triggers[i].until);
            g_free(c->until[i]);
        }
        g_free(c->triggers);
        g_strfreev(c->at);
        g_strfreev((char **)c->sysroots);
        g_free(c->until);
        g_free(c);
    }
}

struct session_settings
command_options(const struct service_command *c, uint64_t ring)
{
    struct session_settings o = {
        .mode = c->mode,
        .limit = c->limit,
        .filter = c->filter,
        .triggers = c->triggers,
        .n_triggers = c->n_triggers,
        .drop = c->overflow != BTRAIL_OVERFLOW_PAUSE,
    };

    if (!o.limit.bytes) {
        o.limit.bytes = ring;
    }
    return o;
}
