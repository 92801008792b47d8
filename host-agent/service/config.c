/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The configuration of the service: see config.h
 */

#include <stddef.h>
#include <string.h>

#include "lib/agent/budget.h"
#include "service/config.h"
#include "util/parse.h"

#define GiB (UINT64_C(1) << 30)

/* The file says nothing of permissions. */
#define NO_MODE ((mode_t)-1)

enum key_kind {
    PATH,                       /* char *, absolute */
    PATHS,                      /* char **, absolute each */
    TEXT,                       /* char * */
    MODE,                       /* mode_t, octal */
    NUMBER,                     /* uint64_t */
    SIZE,                       /* uint64_t, 10G */
    FLAG,                       /* bool */
};

static const struct config_key {
    const char *group, *name;
    enum key_kind kind;
    size_t offset;
    uint64_t least, most;
} keys[] = {
#define KEY(g, n, k, member, ...) \
    { g, n, k, offsetof(struct config, member), ##__VA_ARGS__ }
    KEY("service", "socket", PATH, socket),
    KEY("service", "socket-mode", MODE, socket_mode),
    KEY("service", "socket-group", TEXT, socket_group),
    KEY("service", "traces", PATH, traces),
    KEY("service", "state", PATH, state),
    KEY("service", "verbose", FLAG, verbose),
    KEY("guests", "most", NUMBER, guests, 1, 100000),
    KEY("guests", "buffer-size", SIZE, buffer_size, 128 << 10, 4 * GiB),
    KEY("guests", "agent-timeout", NUMBER, agent_timeout, 100, 3600000),
    KEY("guests", "sysroots", PATHS, sysroots),
    KEY("guests", "debug-dirs", PATHS, debug_dirs),
    KEY("each-guest", "sessions", NUMBER, each.sessions, 0, 1000),
    KEY("each-guest", "cpu", NUMBER, each.cpu, 0, 100000),
    KEY("each-guest", "disk", SIZE, each.disk, 0, INT64_MAX),
    KEY("each-guest", "memory", SIZE, each.memory, 0, INT64_MAX),
    KEY("each-guest", "names", SIZE, names, 1 << 20, INT64_MAX),
    KEY("each-guest", "ring", SIZE, ring, 1 << 20, INT64_MAX),
    KEY("all-guests", "sessions", NUMBER, all.sessions, 0, 100000),
    KEY("all-guests", "cpu", NUMBER, all.cpu, 0, 100000),
    KEY("all-guests", "disk", SIZE, all.disk, 0, INT64_MAX),
    KEY("all-guests", "memory", SIZE, all.memory, 0, INT64_MAX),
    KEY("all-guests", "keep-free", SIZE, keep_free, 0, INT64_MAX),
#undef KEY
};

static struct config *new_config(void)
{
    struct config *c = g_new0(struct config, 1);

    c->socket = g_strdup("/run/backtrail/agent.sock");
    c->socket_mode = NO_MODE;
    c->traces = g_strdup("/var/lib/backtrail/traces");
    c->state = g_strdup("/var/lib/backtrail/state");
    c->guests = 256;
    c->each = (struct config_limits) {
        .sessions = 8,
        .memory = GiB,
    };
    c->all = (struct config_limits) {
        .sessions = 256,
        .memory = 8 * GiB,
    };
    c->names = BTRAIL_BUDGET_GUEST;
    c->ring = GiB;
    c->keep_free = GiB;
    c->buffer_size = 2 << 20;
    c->agent_timeout = 5000;
    return c;
}

void config_free(struct config *c)
{
    if (c) {
        g_free(c->socket);
        g_free(c->socket_group);
        g_free(c->traces);
        g_free(c->state);
        g_strfreev(c->sysroots);
        g_strfreev(c->debug_dirs);
        g_free(c);
    }
}

static const char *set_number(const struct config_key *k, const char *text,
                              uint64_t *value)
{
    uint64_t n;

    if (!(k->kind == SIZE ? parse_text_size : parse_text_number)(
            text, NULL, &n)) {
        return k->kind == SIZE ? "a size such as 512M or 10G" : "a number";
    }
    if (n < k->least || n > k->most) {
        return "in the range that there is";
    }
    *value = n;
    return NULL;
}

/* NULL, or what the value should be */
static const char *set(struct config *c, const struct config_key *k,
                       const char *text)
{
    void *member = (char *)c + k->offset;
    uint64_t n;

    switch (k->kind) {
    case PATH:
        if (*text != '/') {
            return "an absolute path";
        }
        /* fall through */
    case TEXT:
        if (!*text) {
            return "a name";
        }
        g_free(*(char **)member);
        *(char **)member = g_strdup(text);
        return NULL;
    case MODE:
        if (!g_ascii_string_to_unsigned(text, 8, 0, 0777, &n, NULL)) {
            return "permissions such as 0660";
        }
        *(mode_t *)member = n;
        return NULL;
    case FLAG:
        if (strcmp(text, "true") && strcmp(text, "false")) {
            return "true or false";
        }
        *(bool *)member = !strcmp(text, "true");
        return NULL;
    default:
        return set_number(k, text, member);
    }
}

/* A list, as a GKeyFile has it; it may be empty. */
static bool set_paths(struct config *c, const struct config_key *k,
                      GKeyFile *file, const char *name, GError **error)
{
    char ***member = (char ***)((char *)c + k->offset);
    g_auto(GStrv) paths = g_key_file_get_string_list(file, k->group, k->name,
                                                     NULL, error);
    char **path;

    if (!paths) {
        return false;
    }
    for (path = paths; *path; path++) {
        if (*g_strstrip(*path) != '/') {
            return service_fail(error, SERVICE_ERROR_CONFIG,
                                "%s: [%s] %s: '%s' is not an absolute "
                                "path; put ';' between several", name,
                                k->group, k->name, *path);
        }
    }
    g_strfreev(*member);
    *member = g_steal_pointer(&paths);
    return true;
}

static const struct config_key *find_key(const char *group, const char *name)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(keys); i++) {
        if (!strcmp(keys[i].group, group) &&
            (!name || !strcmp(keys[i].name, name))) {
            return &keys[i];
        }
    }
    return NULL;
}

static bool take_group(struct config *c, GKeyFile *file,
                       const char *group, const char *name, GError **error)
{
    g_auto(GStrv) names = g_key_file_get_keys(file, group, NULL, error);

    if (!names) {
        return false;
    }
    if (!find_key(group, NULL)) {
        return service_fail(error, SERVICE_ERROR_CONFIG,
                            "%s: there is no group [%s]", name, group);
    }
    for (char **n = names; *n; n++) {
        const struct config_key *k = find_key(group, *n);
        g_autofree char *text = NULL;
        const char *want;

        if (!k) {
            return service_fail(error, SERVICE_ERROR_CONFIG,
                                "%s: there is no key '%s' in group "
                                "[%s]", name, *n, group);
        }
        if (k->kind == PATHS) {
            if (!set_paths(c, k, file, name, error)) {
                return false;
            }
            continue;
        }
        text = g_key_file_get_string(file, group, *n, error);
        if (!text) {
            return false;
        }
        want = set(c, k, g_strstrip(text));
        if (want) {
            return service_fail(error, SERVICE_ERROR_CONFIG,
                                "%s: [%s] %s: '%s' is not %s", name,
                                group, *n, text, want);
        }
    }
    return true;
}

struct config *config_parse(const char *text, const char *name,
                            GError **error)
{
    struct config *c = new_config();
    g_autoptr(GKeyFile) file = g_key_file_new();
    g_auto(GStrv) groups = NULL;
    g_autoptr(GError) e = NULL;

    if (!g_key_file_load_from_data(file, text, strlen(text),
                                   G_KEY_FILE_NONE, &e)) {
        /* An empty file is a good one. */
        if (!g_error_matches(e, G_KEY_FILE_ERROR,
                             G_KEY_FILE_ERROR_NOT_FOUND)) {
            service_fail(error, SERVICE_ERROR_CONFIG, "%s: %s",
                         name, e->message);
            goto fail;
        }
    }
    groups = g_key_file_get_groups(file, NULL);
    for (char **g = groups; *g; g++) {
        if (!take_group(c, file, *g, name, error)) {
            goto fail;
        }
    }
    if (c->socket_mode == NO_MODE) {
        /* The group of the process may be that of all users. */
        c->socket_mode = c->socket_group ? 0660 : 0600;
    }
    return c;

fail:
    config_free(c);
    return NULL;
}

struct config *config_read(const char *path, GError **error)
{
    g_autofree char *text = NULL;
    g_autoptr(GError) e = NULL;

    if (path && !g_file_get_contents(path, &text, NULL, &e)) {
        service_fail(error, SERVICE_ERROR_CONFIG, "%s",
                     e->message);
        return NULL;
    }
    return config_parse(text ? text : "", path ? path : "default",
                        error);
}
