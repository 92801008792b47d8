/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What has to survive this process: see state.h
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/folder.h"
#include "service/log.h"
#include "service/peer-process.h"
#include "service/replace-file.h"
#include "service/state.h"
#include "util/close.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/read-file.h"

#define VERSION     2
#define FOLDER      "sessions"
#define SUFFIX      ".json"
#define NEXT_FILE   ".new"

#define ID_LENGTH   16
#define MAX_TEXT    (1 << 20)       /* bytes of a file */
#define MAX_NAME    255             /* bytes of the name of a capture */
#define MAX_ASIDE   1000            /* files of one name */

/**
 * struct state_files
 * @fd:    the folder of sessions
 * @texts: what the files have, by the ids of their sessions
 */
struct state_files {
    int fd;
    GHashTable *texts;
};

GPtrArray *state_files_new(void)
{
    return g_ptr_array_new_with_free_func((GDestroyNotify)json_object_unref);
}

char *state_files_new_id(void)
{
    return g_strdup_printf("%08x%08x", g_random_int(), g_random_int());
}

/*
 * Checks
 */

static bool refuse_state(GError **error, const char *what)
{
    return service_fail(error, SERVICE_ERROR_CONFIG,
                        "the state of a session makes no sense: %s",
                        what);
}

/* A name in a folder, not a path */
static bool is_plain(const char *name)
{
    return name && *name && strlen(name) <= MAX_NAME && !strchr(name, '/') &&
           strcmp(name, ".") && strcmp(name, "..");
}

/* Names of traces, as a client may give them */
static bool check_dumps(JsonObject *json)
{
    JsonArray *dumps = btrail_json_array(json, "dumps");

    for (unsigned i = 0; dumps && i < json_array_get_length(dumps); i++) {
        JsonNode *node = json_array_get_element(dumps, i);
        g_autofree char *name =
            json_node_get_value_type(node) == G_TYPE_STRING ?
            folder_check_name(json_node_get_string(node), NULL) : NULL;

        if (!name) {
            return false;
        }
    }
    return dumps || !json_object_has_member(json, "dumps");
}

/* Is a member missing, or of this type? */
static bool is_type(JsonObject *json, const char *name, GType type)
{
    JsonNode *node = json_object_get_member(json, name);

    return !node || json_node_get_value_type(node) == type;
}

static bool check_session(JsonObject *json, GError **error)
{
    JsonObject *command = btrail_json_object(json, "command");
    const char *ring = btrail_json_string(json, "ring");
    g_autoptr(GError) e = NULL;
    g_autoptr(service_command) parsed = NULL;

    if (!command) {
        return refuse_state(error, "a session without 'command'");
    }
    parsed = command_parse(command, &e);
    if (!parsed) {
        return refuse_state(error, e->message);
    }
    if (parsed->what != COMMAND_START || !parsed->session ||
        !parsed->file || (ring && !is_plain(ring))) {
        return refuse_state(error, "a session without names");
    }
    return (is_type(json, "started", G_TYPE_INT64) &&
            is_type(json, "ring", G_TYPE_STRING) &&
            is_type(json, "whole", G_TYPE_BOOLEAN) &&
            is_type(json, "keeping", G_TYPE_BOOLEAN) &&
            btrail_json_int(json, "off", 0) >= 0 &&
            is_type(json, "over", G_TYPE_BOOLEAN) && check_dumps(json) &&
            btrail_json_int(json, "parts", 0) >= 0 &&
            btrail_json_int(json, "parts", 0) <= UINT32_MAX) ||
           refuse_state(error, "a member of another type");
}

static JsonArray *sessions_of(JsonObject *capture)
{
    return json_object_get_array_member(capture, "sessions");
}

JsonObject *state_files_parse(const char *text, const char *id,
                              GError **error)
{
    g_autoptr(JsonNode) node = btrail_json_parse_object(text);
    JsonObject *json = node ? json_node_get_object(node) : NULL;
    JsonObject *session = json ? btrail_json_object(json, "session") : NULL;
    const char *name, *folder, *process;
    JsonObject *capture;

    if (!session || btrail_json_int(json, "version", 0) != VERSION) {
        refuse_state(error, "no session, or another version");
        return NULL;
    }
    name = btrail_json_string(json, "capture");
    folder = btrail_json_string(json, "folder");
    process = btrail_json_string(json, "process");
    if (!name || strlen(name) > MAX_NAME || !is_plain(folder) || !process ||
        strlen(process) >= PROCESS_ID) {
        refuse_state(error, "a capture without names");
        return NULL;
    }
    if (!check_session(session, error)) {
        return NULL;
    }
    json_object_set_string_member(session, "id", id);
    capture = btrail_json_new("s:name", name, "s:folder", folder,
                              "s:process", process,
                              "a:sessions", json_array_new(), NULL);
    json_array_add_object_element(sessions_of(capture),
                                  json_object_ref(session));
    return capture;
}

/* The text of a file for a session of a capture */
static char *format(JsonObject *capture, JsonObject *session)
{
    JsonObject *copy = json_object_new();
    g_autoptr(JsonObject) root = btrail_json_new(
        "u:version", VERSION,
        "s:capture", btrail_json_string(capture, "name"),
        "s:folder", btrail_json_string(capture, "folder"),
        "s:process", btrail_json_string(capture, "process"),
        "o:session", copy, NULL);

    btrail_json_add_all(copy, session);
    json_object_remove_member(copy, "id");
    return btrail_json_text(root, FALSE);
}

JsonObject *state_files_command(const struct service_command *c)
{
    JsonObject *command = json_object_new();

    btrail_json_add_all(command, c->json);
    btrail_json_add(command, "s:session", c->session, "s:file", c->file, NULL);
    return command;
}

bool state_files_admit(const struct service_command *c, GError **error)
{
    g_autofree char *longest = g_strnfill(MAX_NAME, 'x');
    g_autofree char *process = g_strnfill(PROCESS_ID - 1, 'x');
    g_autoptr(JsonObject) capture = btrail_json_new(
        "s:name", longest, "s:folder", longest, "s:process", process, NULL);
    g_autoptr(JsonObject) session = btrail_json_new(
        "o:command", state_files_command(c), "U:started", G_MAXINT64,
        "s:ring", longest, "b:whole", false, "b:keeping", false,
        "U:off", (uint64_t)UINT32_MAX, NULL);
    g_autofree char *text = format(capture, session);
    g_autoptr(JsonObject) parsed =
        strlen(text) > MAX_TEXT ? NULL : state_files_parse(text, "", NULL);

    return parsed ||
           service_fail(error, SERVICE_ERROR_COMMAND,
                        "the session could not continue when the "
                        "service restarts; make its names shorter or "
                        "plainer");
}

/*
 * Files
 */

/* The service does not read files with such names; a person may. */
static void set_aside(int fd, const char *name, const char *why)
{
    g_autofree char *aside = g_strconcat(name, ".unreadable", NULL);

    for (unsigned i = 1;
         renameat2(fd, name, fd, aside, RENAME_NOREPLACE) < 0; i++) {
        if (errno != EEXIST || i > MAX_ASIDE) {
            service_log(SERVICE_LOG_ERROR, "state: %s cannot be read: %s; it "
                        "cannot be renamed either: %s", name, why,
                        g_strerror(errno));
            return;
        }
        g_free(aside);
        aside = g_strdup_printf("%s.unreadable.%u", name, i);
    }
    service_log(SERVICE_LOG_ERROR, "state: %s cannot be read, and is now %s; "
                "what it describes does not continue: %s", name, aside, why);
}

static char *read_text(int folder, const char *name, GError **error)
{
    g_autofree char *path = g_strdup_printf("/proc/self/fd/%d/%s", folder,
                                            name);
    size_t size;
    g_autofree char *text = read_whole_file(path, MAX_TEXT, &size, error);

    if (text && strlen(text) < size) {
        refuse_state(error, "it has NUL bytes");
        return NULL;
    }
    return g_steal_pointer(&text);
}

static char *file_of(const char *id)
{
    return g_strconcat(id, SUFFIX, NULL);
}

/* The id that a file is named by, or NULL */
static char *id_of(const char *name)
{
    return strlen(name) == ID_LENGTH + strlen(SUFFIX) &&
           strspn(name, "0123456789abcdef") == ID_LENGTH &&
           g_str_has_suffix(name, SUFFIX) ? g_strndup(name, ID_LENGTH) : NULL;
}

/*
 * Reading
 */

static bool is_same(JsonObject *a, JsonObject *b, const char *member)
{
    return !g_strcmp0(btrail_json_string(a, member),
                      btrail_json_string(b, member));
}

/* Puts sessions of one capture together; @capture, with one, is taken. */
static void add_capture(GPtrArray *captures, JsonObject *capture)
{
    for (unsigned i = 0; i < captures->len; i++) {
        JsonObject *other = g_ptr_array_index(captures, i);

        if (is_same(other, capture, "name") &&
            is_same(other, capture, "folder") &&
            is_same(other, capture, "process")) {
            json_array_add_element(sessions_of(other), json_array_dup_element(
                sessions_of(capture), 0));
            json_object_unref(capture);
            return;
        }
    }
    g_ptr_array_add(captures, capture);
}

static gint64 started(JsonObject *capture)
{
    return btrail_json_int(json_array_get_object_element(sessions_of(capture),
                                                         0), "started", 0);
}

static gint compare_started(gconstpointer a, gconstpointer b)
{
    gint64 x = started(*(JsonObject *const *)a);
    gint64 y = started(*(JsonObject *const *)b);

    return (x > y) - (x < y);
}

/* Reads a file into @found, a capture with one session. */
static void read_file(struct state_files *s, const char *name,
                      const char *id, GPtrArray *found)
{
    g_autoptr(GError) error = NULL;
    char *text = read_text(s->fd, name, &error);
    JsonObject *capture = text ? state_files_parse(text, id, &error) : NULL;

    if (!capture) {
        g_free(text);
        set_aside(s->fd, name, error->message);
        return;
    }
    g_hash_table_insert(s->texts, g_strdup(id), text);
    g_ptr_array_add(found, capture);
}

static void read_files(struct state_files *s, GPtrArray *found)
{
    DIR *dir = fdopendir(openat(s->fd, ".", O_RDONLY | O_DIRECTORY |
                                O_CLOEXEC));
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    struct dirent *e;

    while (dir && (e = readdir(dir))) {
        g_ptr_array_add(names, g_strdup(e->d_name));
    }
    if (dir) {
        closedir(dir);
    }
    for (unsigned i = 0; i < names->len; i++) {
        const char *name = g_ptr_array_index(names, i);
        g_autofree char *id = id_of(name);

        if (id) {
            read_file(s, name, id, found);
        }
    }
}

GPtrArray *state_files_read(struct state_files *s)
{
    g_autoptr(GPtrArray) found = state_files_new();
    GPtrArray *captures = state_files_new();

    read_files(s, found);
    g_ptr_array_sort(found, compare_started);
    for (unsigned i = 0; i < found->len; i++) {
        add_capture(captures, json_object_ref(g_ptr_array_index(found, i)));
    }
    return captures;
}

/*
 * Writing
 */

/* Writes the file of a session unless it has that text already. */
static bool write_session(struct state_files *s, JsonObject *capture,
                          JsonObject *session, GError **error)
{
    const char *id = btrail_json_string(session, "id");
    g_autofree char *name = file_of(id);
    char *text = format(capture, session);

    if (!g_strcmp0(g_hash_table_lookup(s->texts, id), text)) {
        g_free(text);
        return true;
    }
    /*
     * Nobody waits until it is on the disk, which can take a minute where
     * guests are being traced: a crash of the host ends the guests, too, that
     * this is about.
     */
    if (!replace_file(s->fd, name, NEXT_FILE, 0600, text, error)) {
        g_free(text);
        return false;
    }
    g_hash_table_insert(s->texts, g_strdup(id), text);
    return true;
}

bool state_files_write(struct state_files *s, GPtrArray *captures,
                       GError **error)
{
    g_autoptr(GHashTable) kept = g_hash_table_new(btrail_str_hash,
                                                  g_str_equal);
    GHashTableIter iter;
    gpointer id;
    bool ok = true;

    for (unsigned i = 0; i < captures->len; i++) {
        JsonObject *capture = g_ptr_array_index(captures, i);
        JsonArray *sessions = sessions_of(capture);

        for (unsigned k = 0; k < json_array_get_length(sessions); k++) {
            JsonObject *session = json_array_get_object_element(sessions, k);

            g_hash_table_add(kept, (gpointer)btrail_json_string(session,
                                                                "id"));
            ok = write_session(s, capture, session, ok ? error : NULL) && ok;
        }
    }
    g_hash_table_iter_init(&iter, s->texts);
    while (g_hash_table_iter_next(&iter, &id, NULL)) {
        g_autofree char *name = file_of(id);

        if (!g_hash_table_contains(kept, id)) {
            unlinkat(s->fd, name, 0);
            g_hash_table_iter_remove(&iter);
        }
    }
    return ok;
}

static int open_sessions(int root)
{
    if (mkdirat(root, FOLDER, 0700) < 0 && errno != EEXIST) {
        return -1;
    }
    return openat(root, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
                  O_CLOEXEC);
}

struct state_files *state_files_open(const char *folder, GError **error)
{
    int root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = root < 0 ? -1 : open_sessions(root);
    struct state_files *s = NULL;

    if (root >= 0 && fd < 0 && errno == ENOTDIR) {
        set_aside(root, FOLDER, g_strerror(ENOTDIR));
        fd = open_sessions(root);
    }
    if (fd < 0) {
        service_fail_errno(error, "%s", folder);
    } else {
        s = g_new0(struct state_files, 1);
        s->fd = fd;
        s->texts = g_hash_table_new_full(btrail_str_hash, g_str_equal, g_free,
                                         g_free);
    }
    btrail_close(root);
    return s;
}

void state_files_close(struct state_files *s)
{
    if (s) {
        close(s->fd);
        g_hash_table_unref(s->texts);
        g_free(s);
    }
}
