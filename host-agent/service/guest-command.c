/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Executing the commands of a guest's clients, which docs/service.md describes
 */

#include <gio/gio.h>
#include <string.h>

#include "service/guest-command.h"
#include "service/listing.h"
#include "service/service-state.h"
#include "service/usage.h"
#include "util/hash.h"
#include "util/json.h"

static void refuse_command(struct guest *g, gint64 id, const char *why)
{
    guest_link_refuse(&g->link, guest_link_client(&g->link, id), why);
}

static void reply_command(struct guest *g, gint64 id,
                          JsonObject *result)
{
    guest_link_reply(&g->link, guest_link_client(&g->link, id), result);
}

static char *free_name(struct guest *g)
{
    for (unsigned i = 1; ; i++) {
        char *name = g_strdup_printf("trace-%u", i);

        if (!guest_member_find(g->members, name)) {
            return name;
        }
        g_free(name);
    }
}

static bool is_writing(const struct service_session *s, const char *file)
{
    bool is = folder_is_one_trace(s->command->file, file);

    for (unsigned i = 0; !is && i < s->dumping->len; i++) {
        is = folder_is_one_trace(g_ptr_array_index(s->dumping, i), file);
    }
    return is;
}

/* The session of @g that writes, or will write, the trace @file; or NULL */
static const char *writer_of(struct guest *g, const char *file)
{
    for (unsigned i = 0; i < g->members->len; i++) {
        const struct guest_member *m = guest_member_at(g->members, i);

        if (is_writing(m->session, file)) {
            return guest_member_name(m);
        }
    }
    return NULL;
}

/*
 * No two sessions or dumps may write one trace, even if they are of guests that
 * share a folder.  A session of mode "last" writes its file in the end, and one
 * that the last process has left comes again.
 */
static bool check_file(struct guest *g, const char *file,
                       GError **error)
{
    const char *session = service_state_writing(g->host->state,
                                                g->folder, file);

    for (unsigned i = 0; !session && i < g->host->guests->len; i++) {
        struct guest *other = g_ptr_array_index(g->host->guests, i);

        if (!strcmp(other->folder->path, g->folder->path)) {
            session = writer_of(other, file);
        }
    }
    return !session ||
           service_fail(error, SERVICE_ERROR_NAME,
                        "'%s' is being written, or will be: it is the "
                        "trace, a part or a dump of session '%s'; "
                        "choose another name", file, session);
}

static bool check_start(struct guest *g, const struct service_command *c,
                        GError **error)
{
    const struct session_filter *f = &c->filter;
    unsigned last_vcpu = f->n_vcpus ? f->vcpus[f->n_vcpus - 1] : 0;

    if (guest_member_find(g->members, c->session)) {
        return service_fail(error, SERVICE_ERROR_COMMAND,
                            "there is a session '%s' already",
                            c->session);
    }
    if (last_vcpu >= g->vcpus) {
        return service_fail(error, SERVICE_ERROR_COMMAND,
                            "the guest has no vCPU %u; the last one it "
                            "can have is %u", last_vcpu, g->vcpus - 1);
    }
    return check_file(g, c->file, error) && state_files_admit(c, error) &&
           usage_admit(g, error);
}

/* @c is taken. */
static void do_start(struct guest *g, gint64 id,
                     struct service_command *c)
{
    g_autoptr(GError) error = NULL;
    struct guest_member *m = NULL;

    if (!c->session) {
        c->session = free_name(g);
    }
    if (!c->file) {
        c->file = folder_default_name(c->session, NULL);
    }
    if (!check_start(g, c, &error)) {
        command_free(c);
    } else {
        m = guest_add_session(g, c, NULL, NULL, &error);
    }
    if (!m) {
        refuse_command(g, id, error->message);
        return;
    }
    m->start = guest_link_client(&g->link, id);
    guest_capture_advance(&g->capture);
}

static void no_session(struct guest *g, gint64 id, const char *name)
{
    g_autofree char *why =
        name ? g_strdup_printf("there is no session '%s'", name) :
        g_strdup("'session' is missing: there is not exactly one session");

    refuse_command(g, id, why);
}

/* The session that a command names, or the only one; NULL without one */
static struct guest_member *session_for(struct guest *g,
                                         const struct service_command *c)
{
    if (c->session) {
        return guest_member_find(g->members, c->session);
    }
    return g->members->len == 1 ? guest_member_at(g->members, 0) : NULL;
}

/* The last session of this name that is done */
static struct service_session *find_done(struct guest *g,
                                              const char *name)
{
    for (GList *l = g->done.tail; l; l = l->prev) {
        struct service_session *s = l->data;

        if (!strcmp(s->command->session, name)) {
            return s;
        }
    }
    return NULL;
}

static void do_stop(struct guest *g, gint64 id,
                    const struct service_command *c)
{
    struct guest_member *m = session_for(g, c);
    struct service_session *done =
        !m && c->session ? find_done(g, c->session) : NULL;

    if (m) {
        guest_member_add_stop(m, id);
        guest_end_session(g, m, NULL);
    } else if (done) {
        reply_command(g, id, service_session_status(done));
    } else {
        no_session(g, id, c->session);
    }
}

static void do_dump(struct guest *g, gint64 id,
                    const struct service_command *c)
{
    struct guest_member *m = session_for(g, c);
    g_autoptr(GError) error = NULL;

    if (!m) {
        no_session(g, id, c->session);
    } else if ((c->file && !check_file(g, c->file, &error)) ||
               !guest_dump_start(&g->dumps, m, id, c->file,
                                 SERVICE_SESSION_ASKED, &error)) {
        refuse_command(g, id, error->message);
    }
}

/* Adds the status of sessions that are done; all if @session is NULL. */
static void add_done(const struct guest *g, const char *session,
                     JsonArray *status)
{
    for (GList *l = g->done.head; l; l = l->next) {
        struct service_session *s = l->data;

        if (!session || !strcmp(s->command->session, session)) {
            json_array_add_object_element(status,
                                          service_session_status(s));
        }
    }
}

/* Sessions of @g, and of guests before it that had the same folder */
static JsonArray *session_status(struct guest *g, const char *session)
{
    JsonArray *status = json_array_new();
    struct guest_member *m = session ?
                             guest_member_find(g->members, session) : NULL;

    if (m) {
        json_array_add_object_element(
            status, service_session_status(m->session));
        return status;
    }
    for (unsigned i = 0; i < g->host->guests->len; i++) {
        const struct guest *other =
            g_ptr_array_index(g->host->guests, i);

        if (other != g && !strcmp(other->folder->path, g->folder->path)) {
            add_done(other, session, status);
        }
    }
    add_done(g, session, status);
    for (unsigned i = 0; !session && i < g->members->len; i++) {
        json_array_add_object_element(
            status, service_session_status(
                guest_member_at(g->members, i)->session));
    }
    return status;
}

static void do_status(struct guest *g, gint64 id,
                      const struct service_command *c)
{
    JsonArray *sessions, *dumps;

    guest_capture_update_paused(&g->capture);
    sessions = session_status(g, c->session);
    if (c->session && !json_array_get_length(sessions)) {
        json_array_unref(sessions);
        no_session(g, id, c->session);
        return;
    }
    dumps = json_array_new();
    guest_dump_add_status(&g->dumps, c->session, dumps);
    reply_command(g, id, btrail_json_new(
        "s:guest", g->link.name, "o:capture", guest_capture_status(&g->capture),
        "a:sessions", sessions, "a:dumps", dumps, NULL));
}

struct list_job {
    struct guest *g;
    struct guest_client client;
    struct folder *folder;              /* of another guest, or NULL */
    GHashTable *writing;
};

static void list_thread(GTask *task, gpointer source, gpointer data,
                        GCancellable *cancellable)
{
    struct list_job *l = data;

    g_task_return_pointer(task, service_listing(l->folder ? l->folder :
                                                l->g->folder, l->writing),
                          (GDestroyNotify)json_object_unref);
}

static void listed(GObject *source, GAsyncResult *async, gpointer opaque)
{
    struct list_job *l = opaque;

    guest_link_reply(&l->g->link, l->client,
                     g_task_propagate_pointer(G_TASK(async), NULL));
    g_hash_table_unref(l->writing);
    folder_free(l->folder);
    guest_unref(l->g);
    g_free(l);
}

/* Adds the traces of a folder that sessions and dumps of its guests, of which
 * there can be several, are writing. */
static void add_writing(const struct host *host, const struct folder *folder,
                        GHashTable *writing)
{
    for (unsigned i = 0; i < host->guests->len; i++) {
        const struct guest *g = g_ptr_array_index(host->guests, i);

        bool same = !strcmp(g->folder->path, folder->path);

        for (unsigned k = 0; same && k < g->members->len; k++) {
            const struct service_session *s =
                guest_member_at(g->members, k)->session;

            g_hash_table_add(writing, g_strdup(s->command->file));
            for (unsigned n = 0; n < s->dumping->len; n++) {
                g_hash_table_add(writing,
                                 g_strdup(g_ptr_array_index(s->dumping, n)));
            }
        }
    }
}

static void do_list(struct guest *g, gint64 id,
                    const struct service_command *c)
{
    g_autoptr(GError) error = NULL;
    struct folder *folder = c->guest ?
        folder_sibling(g->folder, c->guest, c->uuid, &error) : NULL;
    g_autoptr(GTask) task = NULL;
    struct list_job *l;

    if (error) {
        refuse_command(g, id, error->message);
        return;
    }
    l = g_new0(struct list_job, 1);
    l->g = g;
    l->client = guest_link_client(&g->link, id);
    l->folder = folder;
    l->writing = g_hash_table_new_full(btrail_str_hash, g_str_equal, g_free,
                                       NULL);
    add_writing(g->host, folder ? folder : g->folder, l->writing);
    g->refs++;
    task = g_task_new(NULL, NULL, listed, l);
    g_task_set_task_data(task, l, NULL);
    g_task_run_in_thread(task, list_thread);
}

void guest_command(struct guest *g, gint64 id,
                   JsonObject *command)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(service_command) c = command_parse(command, &error);

    if (!c) {
        refuse_command(g, id, error->message);
        return;
    }
    switch (c->what) {
    case COMMAND_START:
        do_start(g, id, g_steal_pointer(&c));
        break;
    case COMMAND_STOP:
        do_stop(g, id, c);
        break;
    case COMMAND_DUMP:
        do_dump(g, id, c);
        break;
    case COMMAND_STATUS:
        do_status(g, id, c);
        break;
    case COMMAND_LIST:
        do_list(g, id, c);
        break;
    }
}
