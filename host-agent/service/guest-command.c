/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands of clients: see guest-private.h
 */

#include <gio/gio.h>
#include <string.h>

#include "service/guest-private.h"
#include "util/json.h"
#include "service/listing.h"
#include "service/log.h"

/*
 * After so long a client is told how far an end or a dump has come, and asks
 * for more: nobody else can use QEMU's monitor while it waits.
 */
#define REPLY_S         2

/* Dumps that are done and can still be asked about */
#define MAX_DUMPS       16

/*
 * Replies
 */

static struct waiting waiting(const struct btrail_guest *g, gint64 id)
{
    return (struct waiting) { g->connections, id };
}

static bool still_there(const struct btrail_guest *g, struct waiting w)
{
    return g->control && w.connection == g->connections && w.id >= 0;
}

void guest_reply(struct btrail_guest *g, struct waiting w, JsonObject *result)
{
    JsonNode *node = json_node_new(JSON_NODE_OBJECT);

    json_node_take_object(node, result);
    if (still_there(g, w)) {
        btrail_control_return(g->control, w.id, node);
    } else {
        json_node_unref(node);
    }
}

void guest_refuse(struct btrail_guest *g, struct waiting w, const char *why)
{
    if (still_there(g, w)) {
        btrail_control_fail(g->control, w.id, why);
    }
}

/*
 * Commands
 */

/* A dump that somebody has asked for, or the host */
struct guest_dump {
    struct btrail_guest *g;
    struct waiting w;
    guint reply_source;
    char *session;
    JsonObject *status;         /* never changed, but replaced */
    bool done;
};

static char *free_name(struct btrail_guest *g)
{
    unsigned i;

    for (i = 1; ; i++) {
        char *name = g_strdup_printf("trace-%u", i);

        if (!guest_find_session(g, name)) {
            return name;
        }
        g_free(name);
    }
}

/* Not what another session is writing, or is going to write in the end, and no
 * dump that is being written */
static bool check_file(struct btrail_guest *g, const char *file,
                       GError **error)
{
    unsigned i;
    GList *l;

    for (l = g->dumps.head; l; l = l->next) {
        const struct guest_dump *d = l->data;

        if (!d->done && !strcmp(btrail_json_string(d->status, "file"),
                                file)) {
            return btrail_daemon_fail(error, BTRAIL_SERVICE_ERROR_NAME,
                                      "'%s' is being written already, a dump "
                                      "of session '%s'; give this one another "
                                      "name", file, d->session);
        }
    }
    for (i = 0; i < g->sessions->len; i++) {
        const struct guest_session *m = session_at(g, i);

        if (!strcmp(command_of(m)->file, file)) {
            return btrail_daemon_fail(error, BTRAIL_SERVICE_ERROR_NAME,
                                      "'%s' is the trace of session '%s' "
                                      "already; give this one another name",
                                      file, name_of(m));
        }
    }
    return true;
}

static bool check_start(struct btrail_guest *g, const struct btrail_command *c,
                        GError **error)
{
    unsigned n = g->sessions->len;

    if (guest_find_session(g, c->session)) {
        return btrail_daemon_fail(error, BTRAIL_SERVICE_ERROR_COMMAND,
                                  "there is a session '%s' already",
                                  c->session);
    }
    if (c->vcpus && g_array_index(c->vcpus, unsigned, c->vcpus->len - 1) >=
        g->vcpus) {
        return btrail_daemon_fail(error, BTRAIL_SERVICE_ERROR_COMMAND,
                                  "the guest has no vCPU %u; the last one it "
                                  "can have is %u",
                                  g_array_index(c->vcpus, unsigned,
                                                c->vcpus->len - 1),
                                  g->vcpus - 1);
    }
    return check_file(g, c->file, error) &&
           g->host->admit(g->opaque, g,
                          guest_memory(g, n + 1) - guest_memory(g, n), error);
}

/* @c is taken. */
static void do_start(struct btrail_guest *g, gint64 id,
                     struct btrail_command *c)
{
    g_autoptr(GError) error = NULL;
    struct guest_session *m = NULL;

    if (!c->session) {
        c->session = free_name(g);
    }
    if (!c->file) {
        c->file = btrail_folder_default_name(c->session, NULL);
    }
    if (!check_start(g, c, &error)) {
        btrail_command_free(c);
    } else {
        m = guest_new_session(g, c, NULL, NULL, &error);
    }
    if (!m) {
        guest_refuse(g, waiting(g, id), error->message);
        return;
    }
    m->start = waiting(g, id);
    guest_advance(g);
}

static void no_session(struct btrail_guest *g, gint64 id, const char *name)
{
    g_autofree char *why =
        name ? g_strdup_printf("there is no session '%s'", name) :
        g_strdup("'session' is missing: there is not exactly one session");

    guest_refuse(g, waiting(g, id), why);
}

/* The one that a command names, or the only one; NULL if there is none. */
static struct guest_session *session_for(struct btrail_guest *g,
                                         const struct btrail_command *c)
{
    if (c->session) {
        return guest_find_session(g, c->session);
    }
    return g->sessions->len == 1 ? session_at(g, 0) : NULL;
}

static gboolean reply_late(gpointer opaque)
{
    struct guest_session *m = opaque;
    unsigned i;

    m->reply_source = 0;
    for (i = 0; i < m->stops->len; i++) {
        guest_reply(m->g, g_array_index(m->stops, struct waiting, i),
                    btrail_service_session_status(m->s));
    }
    g_array_set_size(m->stops, 0);
    return G_SOURCE_REMOVE;
}

/* The last one of this name that is done */
static struct btrail_service_session *find_done(struct btrail_guest *g,
                                              const char *name)
{
    GList *l;

    for (l = g->done.tail; l; l = l->prev) {
        if (!strcmp(btrail_service_session_command(l->data)->session, name)) {
            return l->data;
        }
    }
    return NULL;
}

static void do_stop(struct btrail_guest *g, gint64 id,
                    const struct btrail_command *c)
{
    struct guest_session *m = session_for(g, c);
    struct btrail_service_session *done =
        !m && c->session ? find_done(g, c->session) : NULL;
    struct waiting w = waiting(g, id);

    if (m) {
        g_array_append_val(m->stops, w);
        if (!m->reply_source) {
            m->reply_source = g_timeout_add_seconds(REPLY_S, reply_late, m);
        }
        guest_end_session(m, NULL);
    } else if (done) {
        guest_reply(g, w, btrail_service_session_status(done));
    } else {
        no_session(g, id, c->session);
    }
}

static void free_dump(struct guest_dump *d)
{
    json_object_unref(d->status);
    g_free(d->session);
    g_free(d);
}

void guest_forget_dumps(struct btrail_guest *g)
{
    g_queue_clear_full(&g->dumps, (GDestroyNotify)free_dump);
}

static void set_dump_status(struct guest_dump *d, const char *state,
                            const char *file, JsonObject *result,
                            const char *why)
{
    JsonObject *json = json_object_new();

    json_object_set_string_member(json, "session", d->session);
    json_object_set_string_member(json, "file", file);
    json_object_set_string_member(json, "folder", d->g->folder->path);
    json_object_set_string_member(json, "state", state);
    if (result) {
        json_object_set_int_member(json, "records",
                                   btrail_json_int(result, "records", 0));
        json_object_set_int_member(json, "bytes",
                                   btrail_json_int(result, "bytes", 0));
    }
    if (why) {
        g_autofree char *text = g_utf8_make_valid(why, -1);

        json_object_set_string_member(json, "why", text);
    }
    if (d->status) {
        json_object_unref(d->status);
    }
    d->status = json;
}

static gboolean reply_writing(gpointer opaque)
{
    struct guest_dump *d = opaque;

    d->reply_source = 0;
    guest_reply(d->g, d->w, json_object_ref(d->status));
    d->w.id = -1;
    return G_SOURCE_REMOVE;
}

/* The oldest of those that are done go. */
static void limit_dumps(struct btrail_guest *g)
{
    GList *l = g->dumps.head;

    while (l && g->dumps.length > MAX_DUMPS) {
        GList *next = l->next;
        struct guest_dump *d = l->data;

        if (d->done) {
            g_queue_delete_link(&g->dumps, l);
            free_dump(d);
        }
        l = next;
    }
}

static void dumped(void *opaque, JsonObject *result, const GError *error)
{
    struct guest_dump *d = opaque;
    struct btrail_guest *g = d->g;
    g_autofree char *file = g_strdup(btrail_json_string(d->status, "file"));
    bool told = !d->reply_source;

    if (!told) {
        g_source_remove(d->reply_source);
        d->reply_source = 0;
    }
    d->done = true;
    if (error) {
        btrail_log(BTRAIL_LOG_WARNING, "guest %s: not dumped into %s: %s",
                   g->name, file, error->message);
        set_dump_status(d, "failed", file, NULL, error->message);
        guest_refuse(g, d->w, error->message);
        if (!told) {
            /* Nobody is to ask: there may be a good one of this name. */
            g_queue_remove(&g->dumps, d);
            free_dump(d);
        }
    } else {
        btrail_log(BTRAIL_LOG_INFO, "guest %s: dumped into %s", g->name,
                   file);
        set_dump_status(d, "written", file, result, NULL);
        guest_reply(g, d->w, json_object_ref(d->status));
    }
    limit_dumps(g);
    guest_unref(g);
}

bool guest_dump(struct guest_session *m, gint64 id, const char *file,
                enum btrail_service_session_why why, GError **error)
{
    struct guest_dump *d = g_new0(struct guest_dump, 1);
    g_autofree char *name = NULL;

    d->g = m->g;
    d->w = waiting(m->g, id);
    d->session = g_strdup(name_of(m));
    if (!btrail_service_session_dump(m->s, file, why, &name, dumped, d, error)) {
        g_free(d->session);
        g_free(d);
        return false;
    }
    set_dump_status(d, "writing", name, NULL, NULL);
    g_queue_push_tail(&m->g->dumps, d);
    d->reply_source = g_timeout_add_seconds(REPLY_S, reply_writing, d);
    m->g->refs++;
    return true;
}

static void do_dump(struct btrail_guest *g, gint64 id,
                    const struct btrail_command *c)
{
    struct guest_session *m = session_for(g, c);
    g_autoptr(GError) error = NULL;

    if (!m) {
        no_session(g, id, c->session);
    } else if ((c->file && !check_file(g, c->file, &error)) ||
               !guest_dump(m, id, c->file, BTRAIL_SERVICE_SESSION_ASKED,
                           &error)) {
        guest_refuse(g, waiting(g, id), error->message);
    }
}

static void do_status(struct btrail_guest *g, gint64 id,
                      const struct btrail_command *c)
{
    JsonObject *json = json_object_new();
    JsonArray *sessions = json_array_new();
    JsonArray *dumps;
    GList *l;
    g_autofree char *name = g_utf8_make_valid(g->name, -1);
    struct guest_session *m = c->session ?
                              guest_find_session(g, c->session) : NULL;
    unsigned i;

    guest_update_paused(g);
    if (m) {
        json_array_add_object_element(sessions,
                                      btrail_service_session_status(m->s));
    } else {
        g->host->past(g->opaque, g, c->session, sessions);
        btrail_guest_past(g, c->session, sessions);
        for (i = 0; !c->session && i < g->sessions->len; i++) {
            json_array_add_object_element(
                sessions, btrail_service_session_status(session_at(g, i)->s));
        }
    }
    if (c->session && !json_array_get_length(sessions)) {
        json_array_unref(sessions);
        json_object_unref(json);
        no_session(g, id, c->session);
        return;
    }
    dumps = json_array_new();
    for (l = g->dumps.head; l; l = l->next) {
        const struct guest_dump *d = l->data;

        if (!c->session || !strcmp(c->session, d->session)) {
            json_array_add_object_element(dumps, json_object_ref(d->status));
        }
    }
    json_object_set_string_member(json, "guest", name);
    json_object_set_object_member(json, "capture", guest_capture_status(g));
    json_object_set_array_member(json, "sessions", sessions);
    json_object_set_array_member(json, "dumps", dumps);
    guest_reply(g, waiting(g, id), json);
}

struct list {
    struct btrail_guest *g;
    struct waiting w;
    struct btrail_folder *folder;       /* of another guest, or NULL */
    GHashTable *writing;
};

static void list_thread(GTask *task, gpointer source, gpointer data,
                        GCancellable *cancellable)
{
    struct list *l = data;

    g_task_return_pointer(task, btrail_listing(l->folder ? l->folder :
                                               l->g->folder, l->writing),
                          (GDestroyNotify)json_node_unref);
}

static void listed(GObject *source, GAsyncResult *async, gpointer opaque)
{
    struct list *l = opaque;
    JsonNode *node = g_task_propagate_pointer(G_TASK(async), NULL);

    if (still_there(l->g, l->w)) {
        btrail_control_return(l->g->control, l->w.id, node);
    } else {
        json_node_unref(node);
    }
    g_hash_table_unref(l->writing);
    btrail_folder_free(l->folder);
    guest_unref(l->g);
    g_free(l);
}

static void do_list(struct btrail_guest *g, gint64 id,
                    const struct btrail_command *c)
{
    g_autoptr(GError) error = NULL;
    struct btrail_folder *folder = c->guest ?
        btrail_folder_sibling(g->folder, c->guest, c->uuid, &error) : NULL;
    g_autoptr(GTask) task = NULL;
    struct list *l;
    unsigned i;

    if (error) {
        guest_refuse(g, waiting(g, id), error->message);
        return;
    }
    l = g_new0(struct list, 1);
    l->g = g;
    l->w = waiting(g, id);
    l->folder = folder;
    l->writing = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (i = 0; !folder && i < g->sessions->len; i++) {
        g_hash_table_add(l->writing,
                         g_strdup(command_of(session_at(g, i))->file));
    }
    g->refs++;
    task = g_task_new(NULL, NULL, listed, l);
    g_task_set_task_data(task, l, NULL);
    g_task_run_in_thread(task, list_thread);
}

void btrail_guest_command(struct btrail_guest *g, gint64 id,
                          JsonObject *command)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(btrail_command) c = btrail_command_parse(command, &error);

    if (!c) {
        guest_refuse(g, waiting(g, id), error->message);
        return;
    }
    switch (c->what) {
    case BTRAIL_COMMAND_START:
        do_start(g, id, g_steal_pointer(&c));
        break;
    case BTRAIL_COMMAND_STOP:
        do_stop(g, id, c);
        break;
    case BTRAIL_COMMAND_DUMP:
        do_dump(g, id, c);
        break;
    case BTRAIL_COMMAND_STATUS:
        do_status(g, id, c);
        break;
    case BTRAIL_COMMAND_LIST:
        do_list(g, id, c);
        break;
    }
}
