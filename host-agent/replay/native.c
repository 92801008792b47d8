/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libvirt's command line for a domain: see native.h
 */

#include <json-glib/json-glib.h>
#include <string.h>

#include "replay/native.h"
#include "replay/option-list.h"
#include "util/json.h"

#define fail(error, ...) \
    agent_fail(error, AGENT_ERROR_COMMAND, __VA_ARGS__)

/* ISA has as many serial ports. */
#define MAX_PORTS   4

struct native {
    GPtrArray *out;             /* of char * */
    GHashTable *nodes;          /* name of a block node: JsonObject */
    char *ports[MAX_PORTS];     /* the character device of each */
};

static void put(struct native *n, const char *option, const char *value)
{
    g_ptr_array_add(n->out, g_strdup(option));
    if (value) {
        g_ptr_array_add(n->out, g_strdup(value));
    }
}

/*
 * JSON: options have it flat, except for block nodes
 */

/* A text that QEMU's options can have; NULL if it cannot.  To be freed. */
static char *scalar_text(JsonNode *node)
{
    if (!JSON_NODE_HOLDS_VALUE(node)) {
        return NULL;
    }
    switch (json_node_get_value_type(node)) {
    case G_TYPE_STRING:
        return json_node_dup_string(node);
    case G_TYPE_BOOLEAN:
        return g_strdup(json_node_get_boolean(node) ? "on" : "off");
    case G_TYPE_INT64:
        return g_strdup_printf("%" G_GINT64_FORMAT, json_node_get_int(node));
    default:
        return NULL;
    }
}

static GPtrArray *list_of_object(JsonObject *o, const char *value,
                                 GError **error)
{
    g_autoptr(GPtrArray) list = option_list_parse("", NULL);
    g_autoptr(GList) names = json_object_get_members(o);

    for (GList *name = names; name; name = name->next) {
        g_autofree char *text = scalar_text(json_object_get_member(
            o, name->data));

        if (!text) {
            fail(error, "%s: its member '%s' is not plain; a recording does "
                 "not know it", value, (char *)name->data);
            return NULL;
        }
        option_list_set(list, name->data, text);
    }
    return g_steal_pointer(&list);
}

/* The value of an option, which is JSON or not */
static GPtrArray *parse(const char *value, const char *implied, GError **error)
{
    g_autoptr(JsonNode) node = NULL;

    if (*value != '{') {
        return option_list_parse(value, implied);
    }
    node = btrail_json_parse_object(value);
    if (!node) {
        fail(error, "%s: it is not JSON", value);
        return NULL;
    }
    return list_of_object(json_node_get_object(node), value, error);
}

/* Has @implied first, as people write it. */
static void put_list(struct native *n, const char *option, GPtrArray *list,
                     const char *implied)
{
    g_autofree char *first = option_list_take(list, implied);
    g_autoptr(GPtrArray) sorted = option_list_parse("", NULL);
    g_autofree char *text = NULL;

    if (first) {
        option_list_set(sorted, implied, first);
    }
    for (unsigned i = 0; i < list->len; i++) {
        const struct option_pair *p = g_ptr_array_index(list, i);

        option_list_set(sorted, p->key, p->value);
    }
    text = option_list_format(sorted, implied);
    put(n, option, text);
}

/*
 * Block nodes
 */

static bool take_node(struct native *n, const char *value, GError **error)
{
    g_autoptr(JsonNode) node = btrail_json_parse_object(value);
    JsonObject *o = node ? json_node_get_object(node) : NULL;
    const char *name = o ? btrail_json_string(o, "node-name") : NULL;

    if (!name) {
        return fail(error, "-blockdev %s: it has no name", value);
    }
    g_hash_table_insert(n->nodes, g_strdup(name), json_object_ref(o));
    return true;
}

/* The node that a member names or has in it; NULL if there is none */
static JsonObject *child_node(struct native *n, JsonObject *o,
                              const char *member)
{
    JsonObject *inside = btrail_json_object(o, member);
    const char *name = btrail_json_string(o, member);

    return inside ? inside : name ? g_hash_table_lookup(n->nodes, name) : NULL;
}

static bool put_drive(struct native *n, const char *name, GError **error)
{
    JsonObject *format = g_hash_table_lookup(n->nodes, name);
    JsonObject *file = format ? child_node(n, format, "file") : NULL;
    const char *driver = format ? btrail_json_string(format, "driver") : NULL;
    const char *path = file ? btrail_json_string(file, "filename") : NULL;
    const char *access = file ? btrail_json_string(file, "driver") : NULL;
    g_autoptr(GPtrArray) list = option_list_parse("", NULL);
    g_autofree char *text = NULL;

    /* libvirt 9.10 and later write a raw image as one node. */
    if (format && !file && !g_strcmp0(driver, "file")) {
        path = btrail_json_string(format, "filename");
        access = "file";
        driver = "raw";
    }
    if (!path || g_strcmp0(access, "file") || !driver) {
        return fail(error, "disk %s: its medium is not a file; use an image "
                    "that is one", name);
    }
    if (child_node(n, format, "backing")) {
        return fail(error, "%s: it has a backing file; make an image that "
                    "stands by itself: qemu-img convert -O qcow2 %s NEW", path,
                    path);
    }
    if (json_object_has_member(format, "offset") ||
        json_object_has_member(format, "encrypt")) {
        return fail(error, "%s: only a part of it is the disk, or it is "
                    "encrypted; use an image that stands by itself", path);
    }
    option_list_set(list, "file", path);
    option_list_set(list, "format", driver);
    option_list_set(list, "if", "none");
    option_list_set(list, "id", name);
    if (btrail_json_is_true(format, "read-only")) {
        option_list_set(list, "readonly", "on");
    }
    text = option_list_format(list, NULL);
    put(n, "-drive", text);
    return true;
}

/*
 * Options
 */

static bool take_port(struct native *n, GPtrArray *list, GError **error)
{
    const char *index = option_list_get(list, "index");
    const char *chardev = option_list_get(list, "chardev");
    unsigned i = index ? *index - '0' : MAX_PORTS;

    if (i >= MAX_PORTS || index[1] || !chardev || n->ports[i]) {
        return fail(error, "isa-serial: a recording knows serial ports 0 to "
                    "3, each once");
    }
    n->ports[i] = g_strdup(chardev);
    return true;
}

static bool handle_device(struct native *n, const char *option,
                          const char *value, GError **error)
{
    g_autoptr(GPtrArray) list = parse(value, "driver", error);
    const char *driver = list ? option_list_get(list, "driver") : NULL;
    const char *drive = list ? option_list_get(list, "drive") : NULL;

    if (!list) {
        return false;
    }
    if (!g_strcmp0(driver, "isa-serial")) {
        return take_port(n, list, error);
    }
    if (drive && g_hash_table_contains(n->nodes, drive) &&
        !put_drive(n, drive, error)) {
        return false;
    }
    put_list(n, option, list, "driver");
    return true;
}

/* Leaves it out if @key is @unwanted. */
static bool put_wanted(struct native *n, const char *option, const char *value,
                       const char *implied, const char *key,
                       const char *unwanted, GError **error)
{
    g_autoptr(GPtrArray) list = parse(value, implied, error);

    if (list && g_strcmp0(option_list_get(list, key), unwanted)) {
        put_list(n, option, list, implied);
    }
    return list;
}

static bool handle_object(struct native *n, const char *option,
                          const char *value, GError **error)
{
    /* For what it stores encrypted, which a recording does not have */
    return put_wanted(n, option, value, "qom-type", "qom-type", "secret",
                      error);
}

static bool handle_chardev(struct native *n, const char *option,
                           const char *value, GError **error)
{
    return put_wanted(n, option, value, "backend", "id", "charmonitor", error);
}

/* "256", or "size=262144k" */
static bool handle_memory(struct native *n, const char *option,
                          const char *value, GError **error)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, "size");
    char *size = list->len ? ((struct option_pair *)list->pdata[0])->value :
                 NULL;

    if (size && g_str_has_suffix(size, "k")) {
        size[strlen(size) - 1] = 'K';
    }
    put_list(n, option, list, "size");
    return true;
}

/* A replay has the same date in any time zone. */
static bool handle_rtc(struct native *n, const char *option,
                       const char *value, GError **error)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, NULL);
    g_autoptr(GDateTime) now = g_date_time_new_now_local();
    g_autofree char *text = g_date_time_format(now, "%FT%T");

    if (!g_strcmp0(option_list_get(list, "base"), "localtime")) {
        option_list_set(list, "base", text);
    }
    g_free(option_list_take(list, "driftfix"));
    g_free(text);
    text = option_list_format(list, NULL);
    put(n, option, text);
    return true;
}

static bool keep(struct native *n, const char *option, const char *value,
                 GError **error)
{
    put(n, option, value);
    return true;
}

static bool drop(struct native *n, const char *option, const char *value,
                 GError **error)
{
    return true;
}

static bool handle_blockdev(struct native *n, const char *option,
                            const char *value, GError **error)
{
    return take_node(n, value, error);
}

static const struct {
    const char *name;
    bool value;
    bool (*handle)(struct native *n, const char *option, const char *value,
                   GError **error);
} options[] = {
    { "-blockdev", true, handle_blockdev },
    { "-chardev", true, handle_chardev },
    { "-device", true, handle_device },
    { "-object", true, handle_object },
    { "-m", true, handle_memory },
    { "-rtc", true, handle_rtc },
    /* Values that can begin with a dash */
    { "-append", true, keep },
    { "-name", true, keep },
    /* libvirt's own, and the host's */
    { "-S", false, drop },
    { "-no-shutdown", false, drop },
    { "-mon", true, drop },
    { "-sandbox", true, drop },
    { "-msg", true, drop },
    { "-overcommit", true, drop },
    { "-audiodev", true, drop },
    { "-runas", true, drop },
};

static bool handle(struct native *n, char ***at, GError **error)
{
    char *name = *(*at)++;

    for (unsigned i = 0; i < G_N_ELEMENTS(options); i++) {
        if (strcmp(name, options[i].name)) {
            continue;
        }
        if (options[i].value && !**at) {
            return fail(error, "%s: its value is missing", name);
        }
        return options[i].handle(n, name, options[i].value ? *(*at)++ : NULL,
                                 error);
    }
    return keep(n, name, NULL, error);
}

static void put_ports(struct native *n)
{
    unsigned last = MAX_PORTS;

    while (last && !n->ports[last - 1]) {
        last--;
    }
    for (unsigned i = 0; i < last; i++) {
        g_autofree char *value = n->ports[i] ?
            g_strconcat("chardev:", n->ports[i], NULL) : g_strdup("none");

        put(n, "-serial", value);
    }
}

/* The first argument after the environment and the program */
static char **skip_program(char **argv)
{
    while (*argv && **argv != '/' && strchr(*argv, '=')) {
        argv++;
    }
    return *argv ? argv + 1 : argv;
}

char **native_arguments(const char *text, char *const *added, GError **error)
{
    g_auto(GStrv) argv = NULL;
    g_autoptr(GError) local = NULL;
    struct native n = { NULL };
    char **at;
    bool ok = true;

    if (!g_shell_parse_argv(text, NULL, &argv, &local)) {
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                    "libvirt's command line cannot be read: %s",
                    local->message);
        return NULL;
    }
    n.out = g_ptr_array_new_with_free_func(g_free);
    n.nodes = g_hash_table_new_full(g_str_hash, g_str_equal, g_free,
                                    (GDestroyNotify)json_object_unref);
    at = skip_program(argv);
    while (ok && *at) {
        ok = handle(&n, &at, error);
    }
    put_ports(&n);
    for (char *const *a = added; *a; a++) {
        put(&n, *a, NULL);
    }
    for (unsigned i = 0; i < MAX_PORTS; i++) {
        g_free(n.ports[i]);
    }
    g_hash_table_unref(n.nodes);
    g_ptr_array_add(n.out, NULL);
    if (!ok) {
        g_ptr_array_unref(n.out);
        return NULL;
    }
    return (char **)g_ptr_array_free(n.out, FALSE);
}
