/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest: see guest.h
 */

#include <gio/gio.h>
#include <glib-unix.h>
#include <string.h>
#include <unistd.h>

#include "capture.h"
#include "guest-session.h"
#include "guest.h"
#include "json.h"
#include "listing.h"
#include "log.h"
#include "wanted.h"

/* Sessions that are done and can still be asked about */
#define MAX_DONE        32

/* A client is told how far an end has come, before it gives up waiting. */
#define END_REPLY_S     15

/* The agent's own memory for a capture: code that was told, and names */
#define CAPTURE_MEMORY  (UINT64_C(64) << 20)

struct guest_session;

struct btrail_guest {
    char *name;
    unsigned vcpus;
    struct btrail_folder *folder;
    const struct btrail_guest_host *host;
    void *opaque;
    unsigned refs;
    bool freed;

    struct btrail_control *control;
    unsigned connections;       /* so far: replies go to the one that asked */
    bool busy;                  /* something is executed */

    char *capture_name;         /* of what the device was told to capture */
    struct btrail_capture *capture;
    guint capture_source;
    bool awaiting;              /* a data connection */
    bool attaching;             /* it is for a capture that goes on */
    bool stopping;              /* the capture */
    struct btrail_wanted *wanted;       /* as the device was told */
    char *given_up;             /* why the device has given the agent up */
    struct guest_session *starting; /* that the capture is started for */

    GPtrArray *sessions;        /* of struct guest_session: not done */
    GQueue done;                /* of struct btrail_guest_session */
};

/* Who waits for what a session comes to */
struct waiting {
    unsigned connection;
    gint64 id;
};

struct guest_session {
    struct btrail_guest *g;
    struct btrail_guest_session *s;
    bool queued;                /* it waits to be put into the capture */
    bool announced;
    struct waiting start;       /* id is -1 if nobody waits */
    GArray *stops;              /* of struct waiting */
    guint reply_source;
};

static void advance(struct btrail_guest *g);

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

/* @result is taken. */
static void reply(struct btrail_guest *g, struct waiting w, JsonObject *result)
{
    JsonNode *node = json_node_new(JSON_NODE_OBJECT);

    json_node_take_object(node, result);
    if (still_there(g, w)) {
        btrail_control_return(g->control, w.id, node);
    } else {
        json_node_unref(node);
    }
}

static void refuse(struct btrail_guest *g, struct waiting w, const char *why)
{
    if (still_there(g, w)) {
        btrail_control_fail(g->control, w.id, why);
    }
}

/*
 * Sessions
 */

static const struct btrail_command *command_of(const struct guest_session *m)
{
    return btrail_guest_session_command(m->s);
}

static const char *name_of(const struct guest_session *m)
{
    return command_of(m)->session;
}

static bool is_active(const struct guest_session *m)
{
    return btrail_guest_session_state(m->s) == BTRAIL_GUEST_SESSION_ACTIVE;
}

static struct guest_session *session_at(struct btrail_guest *g, unsigned i)
{
    return g_ptr_array_index(g->sessions, i);
}

static struct guest_session *find_session(struct btrail_guest *g,
                                          const char *name)
{
    unsigned i;

    for (i = 0; i < g->sessions->len; i++) {
        if (!strcmp(name_of(session_at(g, i)), name)) {
            return session_at(g, i);
        }
    }
    return NULL;
}

/* The last one of this name that is done */
static struct btrail_guest_session *find_done(struct btrail_guest *g,
                                              const char *name)
{
    GList *l;

    for (l = g->done.tail; l; l = l->prev) {
        if (!strcmp(btrail_guest_session_command(l->data)->session, name)) {
            return l->data;
        }
    }
    return NULL;
}

static void forget_session(gpointer p)
{
    struct guest_session *m = p;

    if (m->reply_source) {
        g_source_remove(m->reply_source);
    }
    if (m->g->starting == m) {
        m->g->starting = NULL;
    }
    g_array_unref(m->stops);
    g_free(m);
}

/* What all that are, or are about to be, in the capture want; NULL for none */
static struct btrail_wanted *wanted_now(struct btrail_guest *g,
                                        const struct guest_session *next)
{
    g_autoptr(GPtrArray) commands = g_ptr_array_new();
    unsigned i;

    for (i = 0; i < g->sessions->len; i++) {
        const struct guest_session *m = session_at(g, i);

        if (m == next || is_active(m) || (g->attaching && m->queued)) {
            g_ptr_array_add(commands, (void *)command_of(m));
        }
    }
    return commands->len ?
           btrail_wanted_new((struct btrail_command **)commands->pdata,
                             commands->len) : NULL;
}

/* The most that any session wants */
static unsigned wanted_names(struct btrail_guest *g)
{
    unsigned most = BTRAIL_COMMAND_NAMES_OFF;
    unsigned i;

    for (i = 0; i < g->sessions->len; i++) {
        most = MAX(most, command_of(session_at(g, i))->names);
    }
    return most;
}

static void update_paused(struct btrail_guest *g)
{
    struct btrail_capture_progress p;
    unsigned i;

    if (!g->capture) {
        return;
    }
    btrail_capture_progress(g->capture, &p);
    for (i = 0; i < g->sessions->len; i++) {
        btrail_guest_session_paused(session_at(g, i)->s, p.paused_ns);
    }
}

static void check_idle(struct btrail_guest *g)
{
    if (btrail_guest_is_idle(g) && !g->freed) {
        g->host->idle(g->opaque, g);
    }
}

static void session_done(void *opaque, struct btrail_guest_session *s)
{
    struct guest_session *m = opaque;
    struct btrail_guest *g = m->g;
    JsonObject *status;
    const char *why;
    unsigned i;

    status = btrail_guest_session_status(s);
    why = btrail_json_string(status, "why");
    btrail_log(btrail_guest_session_state(s) == BTRAIL_GUEST_SESSION_FAILED ?
               BTRAIL_LOG_WARNING : BTRAIL_LOG_INFO,
               "guest %s: session %s %s%s%s: %s, %" G_GINT64_FORMAT
               " records, %" G_GINT64_FORMAT " bytes, %" G_GINT64_FORMAT
               " lost", g->name, name_of(m),
               btrail_json_string(status, "state"), why ? ", " : "",
               why ? why : "", btrail_json_string(status, "file"),
               btrail_json_int(status, "records", 0),
               btrail_json_int(status, "bytes", 0),
               btrail_json_int(status, "lost", 0));
    refuse(g, m->start, why ? why : "the session has ended at once");
    for (i = 0; i < m->stops->len; i++) {
        reply(g, g_array_index(m->stops, struct waiting, i),
              json_object_ref(status));
    }
    json_object_unref(status);
    if (m->announced) {
        g_queue_push_tail(&g->done, s);
    } else {
        btrail_guest_session_free(s);
    }
    if (g->done.length > MAX_DONE) {
        btrail_guest_session_free(g_queue_pop_head(&g->done));
    }
    g_ptr_array_remove(g->sessions, m);
    g->host->changed(g->opaque);
    advance(g);
    check_idle(g);
}

/* Is there one that the capture is needed for, beside this one? */
static bool others_need(struct btrail_guest *g, const struct guest_session *m)
{
    unsigned i;

    for (i = 0; i < g->sessions->len; i++) {
        const struct guest_session *other = session_at(g, i);

        if (other != m && (is_active(other) || other->queued)) {
            return true;
        }
    }
    return false;
}

static void stop_capture(struct btrail_guest *g)
{
    if (g->capture && !g->stopping) {
        g->stopping = true;
        btrail_capture_stop(g->capture);
    }
}

static void end_session(struct guest_session *m, const char *why)
{
    struct btrail_guest *g = m->g;

    update_paused(g);
    if (m->queued) {
        m->queued = false;
        btrail_guest_session_end(m->s, NULL, why ? why : "it was stopped");
        /* What is executed for it just now is undone when that is done. */
        return;
    }
    if (!is_active(m)) {
        return;
    }
    if (others_need(g, m) && g->capture && !g->stopping) {
        btrail_guest_session_end(m->s, g->capture, why);
    } else {
        /* It gets all that there is, and its streams their ends. */
        stop_capture(g);
        btrail_guest_session_end(m->s, NULL, why);
    }
}

static void duration_over(void *opaque, struct btrail_guest_session *s)
{
    end_session(opaque, "its time was over");
}

static const struct btrail_guest_session_owner session_owner = {
    .done = session_done,
    .duration = duration_over,
};

/*
 * The capture
 */

/* Whoever has started it learns that it has begun. */
static void announce(struct guest_session *m)
{
    struct btrail_guest *g = m->g;
    JsonObject *result = json_object_new();

    update_paused(g);
    json_object_set_string_member(result, "session", name_of(m));
    json_object_set_string_member(result, "file", command_of(m)->file);
    reply(g, m->start, result);
    m->start.id = -1;
    m->announced = true;
    btrail_log(BTRAIL_LOG_INFO, "guest %s: session %s%s%s begins: %s",
               g->name, name_of(m), command_of(m)->owner ? " of " : "",
               command_of(m)->owner ? command_of(m)->owner : "",
               command_of(m)->file);
    g->host->changed(g->opaque);
}

/* It is to be put into the capture. */
static struct btrail_session *take_queued(struct guest_session *m)
{
    m->queued = false;
    return btrail_guest_session_begin(m->s);
}

static void capture_forgotten(struct btrail_guest *g)
{
    g_clear_pointer(&g->capture_name, g_free);
    g_clear_pointer(&g->given_up, g_free);
    g_clear_pointer(&g->wanted, btrail_wanted_free);
    g->awaiting = g->attaching = g->stopping = false;
}

/* All that are in it, or should be, end. */
static void end_all(struct btrail_guest *g, const char *why, bool queued)
{
    unsigned i;

    for (i = 0; i < g->sessions->len; i++) {
        struct guest_session *m = session_at(g, i);

        if (is_active(m)) {
            btrail_guest_session_end(m->s, NULL, why);
        } else if (m->queued && queued) {
            m->queued = false;
            btrail_guest_session_end(m->s, NULL, why);
        }
    }
}

/* An answer has come. */
static void settled(struct btrail_guest *g)
{
    g->busy = false;
    advance(g);
    check_idle(g);
}

static void stopped_orphan(void *opaque, JsonNode *result,
                           const GError *error)
{
    settled(opaque);
}

static void stop_orphan(struct btrail_guest *g, const char *capture)
{
    JsonObject *arguments = json_object_new();

    btrail_log(BTRAIL_LOG_WARNING, "guest %s: it is traced for nobody; that "
               "ends", g->name);
    json_object_set_string_member(arguments, "session", capture);
    g->busy = true;
    btrail_control_execute(g->control, "branch-trace-stop", arguments,
                           stopped_orphan, g);
}

static gboolean capture_done(gint fd, GIOCondition condition, gpointer opaque)
{
    struct btrail_guest *g = opaque;
    struct btrail_capture_result result;

    update_paused(g);
    g->capture_source = 0;
    btrail_capture_finish(g->capture, &result);
    g->capture = NULL;
    if (result.error) {
        btrail_log(BTRAIL_LOG_WARNING, "guest %s: %s", g->name,
                   result.error->message);
    }
    /* The sessions find out by themselves how the capture has ended. */
    end_all(g, g->given_up ? g->given_up :
            g->stopping || result.reason != BTRAIL_END_STOPPED ? NULL :
            "a QMP command has stopped all tracing", false);
    g_clear_error(&result.error);
    if (g->given_up && g->control) {
        stop_orphan(g, g->capture_name);
    }
    capture_forgotten(g);
    g->host->changed(g->opaque);
    advance(g);
    check_idle(g);
    return G_SOURCE_REMOVE;
}

bool btrail_guest_awaits_data(const struct btrail_guest *g)
{
    return g->awaiting;
}

void btrail_guest_data(struct btrail_guest *g, int sock)
{
    g_autoptr(GPtrArray) sessions = g_ptr_array_new();
    unsigned names = wanted_names(g);
    struct btrail_capture_options options = {
        .sock = sock,
        .attached = g->attaching,
        .names = names != BTRAIL_COMMAND_NAMES_OFF,
        .patient = names == BTRAIL_COMMAND_NAMES_ALL,
    };
    unsigned i;

    g->awaiting = false;
    /* They are in it from its first record on. */
    for (i = 0; i < g->sessions->len; i++) {
        struct guest_session *m = session_at(g, i);

        if (m->queued && (g->attaching ? m->start.id < 0 : m == g->starting)) {
            g_ptr_array_add(sessions, take_queued(m));
        }
    }
    options.sessions = (struct btrail_session **)sessions->pdata;
    options.n_sessions = sessions->len;
    g->capture = btrail_capture_start(&options);
    g->capture_source = g_unix_fd_add(btrail_capture_done_fd(g->capture),
                                      G_IO_IN, capture_done, g);
}

/* The one that has waited the longest */
static struct guest_session *next_queued(struct btrail_guest *g)
{
    unsigned i;

    for (i = 0; i < g->sessions->len; i++) {
        if (session_at(g, i)->queued) {
            return session_at(g, i);
        }
    }
    return NULL;
}

static JsonObject *capture_arguments(struct btrail_guest *g)
{
    const struct btrail_config *config = g->host->config(g->opaque);
    JsonObject *arguments = json_object_new();

    json_object_set_string_member(arguments, "session", g->capture_name);
    json_object_set_int_member(arguments, "buffer-size", config->buffer_size);
    json_object_set_int_member(arguments, "agent-timeout",
                               config->agent_timeout);
    btrail_wanted_put(g->wanted, arguments);
    return arguments;
}

static void abandon(struct guest_session *m, const char *why)
{
    m->queued = false;
    btrail_guest_session_abandon(m->s, why);
}

/* What was begun has failed: it is not to go on for nobody. */
static void drop_capture(struct btrail_guest *g)
{
    if (g->capture) {
        stop_capture(g);
    } else {
        capture_forgotten(g);
    }
}

static void started(void *opaque, JsonNode *result, const GError *error)
{
    struct btrail_guest *g = opaque;
    struct guest_session *m = g->starting;

    g->starting = NULL;
    g->awaiting = false;
    if (!error && g->capture) {
        if (m && is_active(m)) {
            announce(m);
        }
    } else {
        if (m) {
            abandon(m, error ? error->message :
                    "QEMU has connected to another agent");
        }
        drop_capture(g);
    }
    settled(g);
}

static void start_capture(struct btrail_guest *g, struct guest_session *m)
{
    g->capture_name = g_strdup_printf("backtraild-%08x%08x", g_random_int(),
                                      g_random_int());
    g->wanted = wanted_now(g, m);
    g->starting = m;
    g->awaiting = g->busy = true;
    btrail_control_execute(g->control, "branch-trace-start",
                           capture_arguments(g), started, g);
}

static void changed(void *opaque, JsonNode *result, const GError *error)
{
    struct btrail_guest *g = opaque;
    struct guest_session *m = next_queued(g);

    if (error) {
        g_clear_pointer(&g->wanted, btrail_wanted_free);
        btrail_log(BTRAIL_LOG_WARNING, "guest %s: what is captured cannot be "
                   "changed: %s", g->name, error->message);
        if (m) {
            abandon(m, error->message);
        }
        /* Not again at once: nothing has changed. */
        g->wanted = wanted_now(g, NULL);
    }
    settled(g);
}

/* @w is taken. */
static void change_capture(struct btrail_guest *g, struct btrail_wanted *w)
{
    JsonObject *arguments = json_object_new();

    btrail_wanted_free(g->wanted);
    g->wanted = w;
    json_object_set_string_member(arguments, "session", g->capture_name);
    btrail_wanted_put(w, arguments);
    g->busy = true;
    btrail_control_execute(g->control, "branch-trace-change", arguments,
                           changed, g);
}

/* Bring the capture nearer to what sessions want, a step at a time. */
static void advance(struct btrail_guest *g)
{
    struct guest_session *m = next_queued(g);
    struct btrail_wanted *w;

    if (g->freed || g->busy || !g->control || g->stopping || g->attaching) {
        return;
    }
    if (!g->capture) {
        if (m) {
            start_capture(g, m);
        }
        return;
    }
    w = wanted_now(g, m);
    if (!w) {
        stop_capture(g);
    } else if (!g->wanted || !btrail_wanted_equal(w, g->wanted)) {
        change_capture(g, w);
        return;
    } else if (m) {
        btrail_capture_add(g->capture, take_queued(m));
        announce(m);
        btrail_wanted_free(w);
        advance(g);
        return;
    }
    btrail_wanted_free(w);
}

/*
 * Commands
 */

static char *free_name(struct btrail_guest *g)
{
    unsigned i;

    for (i = 1; ; i++) {
        char *name = g_strdup_printf("trace-%u", i);

        if (!find_session(g, name)) {
            return name;
        }
        g_free(name);
    }
}

/* That a capture for so many sessions takes, with them */
static uint64_t memory_for(struct btrail_guest *g, unsigned sessions)
{
    const struct btrail_config *config = g->host->config(g->opaque);

    return sessions ? CAPTURE_MEMORY + g->vcpus * config->buffer_size +
                      sessions * btrail_guest_session_memory(g->vcpus) : 0;
}

static JsonObject *metadata(struct btrail_guest *g)
{
    JsonObject *json = json_object_new();
    g_autofree char *name = g_utf8_make_valid(g->name, -1);

    json_object_set_string_member(json, "guest", name);
    return json;
}

/* @state: of one that goes on, with @past, which is taken */
static struct guest_session *
new_session(struct btrail_guest *g, struct btrail_command *c,
            const struct btrail_state_session *state,
            struct btrail_guest_session_past *past, GError **error)
{
    struct guest_session *m = g_new0(struct guest_session, 1);
    g_autoptr(JsonObject) meta = metadata(g);
    struct btrail_guest_session_options options = {
        .command = c,
        .folder = g->folder,
        .metadata = meta,
        .ring = g->host->config(g->opaque)->ring,
        .owner = &session_owner,
        .opaque = m,
    };

    m->g = g;
    m->start.id = -1;
    m->stops = g_array_new(FALSE, FALSE, sizeof(struct waiting));
    m->s = state ? btrail_guest_session_resume(&options, state, past, error) :
           btrail_guest_session_new(&options, error);
    if (!m->s) {
        forget_session(m);
        return NULL;
    }
    m->queued = true;
    g_ptr_array_add(g->sessions, m);
    return m;
}

static bool check_start(struct btrail_guest *g, const struct btrail_command *c,
                        GError **error)
{
    unsigned n = g->sessions->len;

    if (find_session(g, c->session)) {
        return btrail_daemon_fail(error, BTRAIL_DAEMON_ERROR_COMMAND,
                                  "there is a session '%s' already",
                                  c->session);
    }
    if (c->vcpus && g_array_index(c->vcpus, unsigned, c->vcpus->len - 1) >=
        g->vcpus) {
        return btrail_daemon_fail(error, BTRAIL_DAEMON_ERROR_COMMAND,
                                  "the guest has no vCPU %u; the last one it "
                                  "can have is %u",
                                  g_array_index(c->vcpus, unsigned,
                                                c->vcpus->len - 1),
                                  g->vcpus - 1);
    }
    return g->host->admit(g->opaque, g,
                          memory_for(g, n + 1) - memory_for(g, n), error);
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
        c->file = btrail_guest_session_default_file(c->session, NULL);
    }
    if (!check_start(g, c, &error)) {
        btrail_command_free(c);
    } else {
        m = new_session(g, c, NULL, NULL, &error);
    }
    if (!m) {
        refuse(g, waiting(g, id), error->message);
        return;
    }
    m->start = waiting(g, id);
    advance(g);
}

static void no_session(struct btrail_guest *g, gint64 id, const char *name)
{
    g_autofree char *why =
        name ? g_strdup_printf("there is no session '%s'", name) :
        g_strdup("'session' is missing: there is not exactly one session");

    refuse(g, waiting(g, id), why);
}

/* The one that a command names, or the only one; NULL if there is none. */
static struct guest_session *session_for(struct btrail_guest *g,
                                         const struct btrail_command *c)
{
    if (c->session) {
        return find_session(g, c->session);
    }
    return g->sessions->len == 1 ? session_at(g, 0) : NULL;
}

static gboolean reply_late(gpointer opaque)
{
    struct guest_session *m = opaque;
    unsigned i;

    m->reply_source = 0;
    for (i = 0; i < m->stops->len; i++) {
        reply(m->g, g_array_index(m->stops, struct waiting, i),
              btrail_guest_session_status(m->s));
    }
    g_array_set_size(m->stops, 0);
    return G_SOURCE_REMOVE;
}

static void do_stop(struct btrail_guest *g, gint64 id,
                    const struct btrail_command *c)
{
    struct guest_session *m = session_for(g, c);
    struct btrail_guest_session *done =
        !m && c->session ? find_done(g, c->session) : NULL;
    struct waiting w = waiting(g, id);

    if (m) {
        g_array_append_val(m->stops, w);
        if (!m->reply_source) {
            m->reply_source = g_timeout_add_seconds(END_REPLY_S, reply_late,
                                                    m);
        }
        end_session(m, NULL);
    } else if (done) {
        reply(g, w, btrail_guest_session_status(done));
    } else {
        no_session(g, id, c->session);
    }
}

struct dump {
    struct btrail_guest *g;
    struct waiting w;
};

static void guest_unref(struct btrail_guest *g);

static void dumped(void *opaque, JsonObject *result, const GError *error)
{
    struct dump *d = opaque;

    if (error) {
        refuse(d->g, d->w, error->message);
    } else {
        btrail_log(BTRAIL_LOG_INFO, "guest %s: dumped into %s", d->g->name,
                   btrail_json_string(result, "file"));
        reply(d->g, d->w, json_object_ref(result));
    }
    guest_unref(d->g);
    g_free(d);
}

/* @id is -1 if nobody waits for it. */
static bool dump(struct guest_session *m, gint64 id, const char *file,
                 const char *why, GError **error)
{
    struct dump *d = g_new(struct dump, 1);

    d->g = m->g;
    d->w = waiting(m->g, id);
    if (!btrail_guest_session_dump(m->s, file, why, dumped, d, error)) {
        g_free(d);
        return false;
    }
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
    } else if (!dump(m, id, c->file, "-dump", &error)) {
        refuse(g, waiting(g, id), error->message);
    }
}

static JsonObject *capture_status(struct btrail_guest *g)
{
    JsonObject *json = json_object_new();
    struct btrail_capture_progress p;

    json_object_set_string_member(json, "state", g->capture ? g->stopping ?
                                  "ending" : "active" : "inactive");
    if (!g->capture) {
        return json;
    }
    btrail_capture_progress(g->capture, &p);
    json_object_set_int_member(json, "records", p.records);
    json_object_set_int_member(json, "lost", p.lost);
    json_object_set_int_member(json, "paused-ns", p.paused_ns);
    if (g->wanted) {
        btrail_wanted_put(g->wanted, json);
    }
    return json;
}

static void do_status(struct btrail_guest *g, gint64 id,
                      const struct btrail_command *c)
{
    JsonObject *json = json_object_new();
    JsonArray *sessions = json_array_new();
    g_autofree char *name = g_utf8_make_valid(g->name, -1);
    struct guest_session *m = c->session ? find_session(g, c->session) : NULL;
    unsigned i;

    update_paused(g);
    if (m) {
        json_array_add_object_element(sessions,
                                      btrail_guest_session_status(m->s));
    } else {
        g->host->past(g->opaque, g, c->session, sessions);
        btrail_guest_past(g, c->session, sessions);
        for (i = 0; !c->session && i < g->sessions->len; i++) {
            json_array_add_object_element(
                sessions, btrail_guest_session_status(session_at(g, i)->s));
        }
    }
    if (c->session && !json_array_get_length(sessions)) {
        json_array_unref(sessions);
        json_object_unref(json);
        no_session(g, id, c->session);
        return;
    }
    json_object_set_string_member(json, "guest", name);
    json_object_set_object_member(json, "capture", capture_status(g));
    json_object_set_array_member(json, "sessions", sessions);
    reply(g, waiting(g, id), json);
}

struct list {
    struct btrail_guest *g;
    struct waiting w;
    GHashTable *writing;
};

static void list_thread(GTask *task, gpointer source, gpointer data,
                        GCancellable *cancellable)
{
    struct list *l = data;

    g_task_return_pointer(task, btrail_listing(l->g->folder, l->writing),
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
    guest_unref(l->g);
    g_free(l);
}

static void do_list(struct btrail_guest *g, gint64 id)
{
    struct list *l = g_new0(struct list, 1);
    g_autoptr(GTask) task = NULL;
    unsigned i;

    l->g = g;
    l->w = waiting(g, id);
    l->writing = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (i = 0; i < g->sessions->len; i++) {
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
        refuse(g, waiting(g, id), error->message);
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
        do_list(g, id);
        break;
    }
}

void btrail_guest_event(struct btrail_guest *g, const char *event,
                        JsonObject *data)
{
    const char *state = data ? btrail_json_string(data, "state") : NULL;
    const char *reason = data ? btrail_json_string(data, "reason") : NULL;
    unsigned i;

    btrail_log(!strcmp(event, "panic") ? BTRAIL_LOG_INFO : BTRAIL_LOG_DEBUG,
               "guest %s: %s%s%s%s%s", g->name, event, state ? " " : "",
               state ? state : "", reason ? ", " : "", reason ? reason : "");
    if (!strcmp(event, "state") && !g_strcmp0(state, "agent-lost") &&
        g->capture_name && !g_strcmp0(btrail_json_string(data, "session"),
                                      g->capture_name)) {
        g_free(g->given_up);
        g->given_up = g_strdup_printf("QEMU has given this service up (%s)",
                                      reason ? reason : "without a reason");
    }
    if (strcmp(event, "panic")) {
        return;
    }
    for (i = 0; i < g->sessions->len; i++) {
        struct guest_session *m = session_at(g, i);
        g_autoptr(GError) error = NULL;

        if (command_of(m)->last && is_active(m) &&
            !dump(m, -1, NULL, "-panic", &error)) {
            btrail_log(BTRAIL_LOG_WARNING, "guest %s: session %s cannot be "
                       "dumped: %s", g->name, name_of(m), error->message);
        }
    }
}

/*
 * What another process has begun
 */

struct restoring {
    struct btrail_guest *g;
    GPtrArray *commands;        /* of struct btrail_command */
    struct btrail_state_capture *state;
    GPtrArray *pasts;           /* of struct btrail_guest_session_past */
};

static void look_back_thread(GTask *task, gpointer source, gpointer data,
                             GCancellable *cancellable)
{
    struct restoring *r = data;
    unsigned i;

    for (i = 0; i < r->commands->len; i++) {
        const struct btrail_command *c = g_ptr_array_index(r->commands, i);

        g_ptr_array_add(r->pasts, c->last ? NULL :
                        btrail_guest_session_look_back(r->g->folder, c->file,
                                                       NULL));
    }
    g_task_return_boolean(task, TRUE);
}

static void attached(void *opaque, JsonNode *result, const GError *error)
{
    struct btrail_guest *g = opaque;
    const char *why = error ? error->message :
                      "QEMU has connected to another agent";
    bool ok = !error && g->capture;
    unsigned i;

    g->awaiting = g->attaching = false;
    for (i = 0; i < g->sessions->len; i++) {
        struct guest_session *m = session_at(g, i);

        if (ok && is_active(m)) {
            announce(m);
        } else if (!ok && (is_active(m) || (m->queued && m->start.id < 0))) {
            /* It was, before this process. */
            m->announced = true;
            m->queued = false;
            btrail_guest_session_spoil(m->s, why);
            btrail_guest_session_end(m->s, NULL, why);
        }
    }
    if (!ok) {
        btrail_log(BTRAIL_LOG_WARNING, "guest %s: its sessions cannot go on: "
                   "%s", g->name, why);
        drop_capture(g);
    }
    settled(g);
}

static void restoring_free(struct restoring *r)
{
    guest_unref(r->g);
    g_ptr_array_unref(r->commands);
    g_ptr_array_unref(r->pasts);
    btrail_state_capture_free(r->state);
    g_free(r);
}

static void looked_back(GObject *source, GAsyncResult *async, gpointer opaque)
{
    struct restoring *r = opaque;
    struct btrail_guest *g = r->g;
    unsigned i, n = 0;

    g->busy = false;
    for (i = 0; i < r->commands->len && g->control; i++) {
        struct btrail_state_session *s =
            g_ptr_array_index(r->state->sessions, i);
        struct btrail_command *c = g_ptr_array_index(r->commands, i);
        g_autofree char *name = g_strdup(c->session);
        g_autoptr(GError) error = NULL;

        if (new_session(g, c, s, g_ptr_array_index(r->pasts, i), &error)) {
            n++;
        } else {
            btrail_log(BTRAIL_LOG_WARNING, "guest %s: session %s cannot go "
                       "on: %s", g->name, name, error->message);
        }
        g_ptr_array_index(r->commands, i) = NULL;
        g_ptr_array_index(r->pasts, i) = NULL;
    }
    if (!g->control) {
        /* It comes again, or is gone. */
        capture_forgotten(g);
        check_idle(g);
    } else if (!n) {
        g_autofree char *capture = g_strdup(g->capture_name);

        capture_forgotten(g);
        stop_orphan(g, capture);
    } else {
        g->wanted = wanted_now(g, NULL);
        g->awaiting = g->busy = true;
        btrail_control_execute(g->control, "branch-trace-attach", NULL,
                               attached, g);
    }
    restoring_free(r);
}

static void free_command(gpointer p)
{
    btrail_command_free(p);
}

static void free_past(gpointer p)
{
    btrail_guest_session_past_free(p);
}

static struct btrail_state_capture *
copy_state(const struct btrail_state_capture *state)
{
    struct btrail_state_capture *copy =
        btrail_state_capture_new(state->name, state->folder);
    unsigned i;

    for (i = 0; i < state->sessions->len; i++) {
        const struct btrail_state_session *from =
            g_ptr_array_index(state->sessions, i);
        struct btrail_state_session *s = btrail_state_session_new();

        s->command = json_object_ref(from->command);
        s->started = from->started;
        s->ring = g_strdup(from->ring);
        s->whole = from->whole;
        g_ptr_array_add(copy->sessions, s);
    }
    return copy;
}

void btrail_guest_restore(struct btrail_guest *g,
                          const struct btrail_state_capture *state)
{
    struct restoring *r = g_new0(struct restoring, 1);
    g_autoptr(GTask) task = NULL;
    unsigned i;

    r->g = g;
    r->commands = g_ptr_array_new_with_free_func(free_command);
    r->pasts = g_ptr_array_new_with_free_func(free_past);
    r->state = copy_state(state);
    for (i = 0; i < state->sessions->len; i++) {
        const struct btrail_state_session *s =
            g_ptr_array_index(state->sessions, i);

        /* It was parsed when the state was read. */
        g_ptr_array_add(r->commands, btrail_command_parse(s->command, NULL));
    }
    g->refs++;
    g->busy = g->attaching = true;
    g->capture_name = g_strdup(state->name);
    task = g_task_new(NULL, NULL, looked_back, r);
    g_task_set_task_data(task, r, NULL);
    g_task_run_in_thread(task, look_back_thread);
}

void btrail_guest_connect(struct btrail_guest *g, struct btrail_control *c,
                          const char *capture)
{
    g->control = c;
    g->connections++;
    if (c && capture && g_str_has_prefix(capture, "backtraild-") &&
        g_strcmp0(capture, g->capture_name)) {
        stop_orphan(g, capture);
    }
    if (!c && !g->capture && !g->attaching) {
        end_all(g, "QEMU has gone away", true);
    }
    advance(g);
    check_idle(g);
}

/*
 * For the host
 */

struct btrail_guest *btrail_guest_new(struct btrail_guest_identity *identity,
                                      const struct btrail_guest_host *host,
                                      void *opaque)
{
    struct btrail_guest *g = g_new0(struct btrail_guest, 1);

    g->name = g_steal_pointer(&identity->name);
    g->vcpus = identity->vcpus;
    g->folder = g_steal_pointer(&identity->folder);
    g->host = host;
    g->opaque = opaque;
    g->refs = 1;
    g->sessions = g_ptr_array_new_with_free_func(forget_session);
    g_queue_init(&g->done);
    return g;
}

static void guest_unref(struct btrail_guest *g)
{
    if (--g->refs) {
        return;
    }
    g_ptr_array_unref(g->sessions);
    g_queue_clear_full(&g->done, (GDestroyNotify)btrail_guest_session_free);
    g_free(g->capture_name);
    g_free(g->given_up);
    btrail_wanted_free(g->wanted);
    btrail_folder_free(g->folder);
    g_free(g->name);
    g_free(g);
}

void btrail_guest_free(struct btrail_guest *g)
{
    if (g) {
        g_assert(!g->sessions->len && !g->capture);
        g->freed = true;
        g->control = NULL;
        guest_unref(g);
    }
}

const char *btrail_guest_name(const struct btrail_guest *g)
{
    return g->name;
}

const struct btrail_folder *btrail_guest_folder(const struct btrail_guest *g)
{
    return g->folder;
}

const char *btrail_guest_capture(const struct btrail_guest *g)
{
    return g->capture_name;
}

bool btrail_guest_is_idle(const struct btrail_guest *g)
{
    return !g->control && !g->sessions->len && !g->capture && !g->busy;
}

void btrail_guest_end(struct btrail_guest *g, const char *why)
{
    unsigned i;

    for (i = 0; i < g->sessions->len; i++) {
        end_session(session_at(g, i), why);
    }
}

static struct guest_session *largest(struct btrail_guest *g)
{
    struct guest_session *found = NULL;
    uint64_t most = 0;
    unsigned i;

    for (i = 0; i < g->sessions->len; i++) {
        struct guest_session *m = session_at(g, i);

        if (is_active(m) && btrail_guest_session_bytes(m->s) > most) {
            most = btrail_guest_session_bytes(m->s);
            found = m;
        }
    }
    return found;
}

uint64_t btrail_guest_largest(struct btrail_guest *g)
{
    struct guest_session *m = largest(g);

    return m ? btrail_guest_session_bytes(m->s) : 0;
}

bool btrail_guest_end_largest(struct btrail_guest *g, const char *why)
{
    struct guest_session *m = largest(g);

    if (m) {
        end_session(m, why);
    }
    return m;
}

void btrail_guest_usage(struct btrail_guest *g, struct btrail_usage *usage)
{
    usage->sessions = g->sessions->len;
    usage->memory = memory_for(g, g->sessions->len);
}

struct btrail_state_capture *btrail_guest_save(struct btrail_guest *g)
{
    g_autofree char *folder = g_path_get_basename(g->folder->path);
    struct btrail_state_capture *c;
    unsigned i;

    if (!g->capture_name) {
        return NULL;
    }
    c = btrail_state_capture_new(g->capture_name, folder);
    for (i = 0; i < g->sessions->len; i++) {
        struct btrail_state_session *s =
            btrail_guest_session_save(session_at(g, i)->s);

        if (s) {
            g_ptr_array_add(c->sessions, s);
        }
    }
    return c;
}

void btrail_guest_past(struct btrail_guest *g, const char *session,
                       JsonArray *sessions)
{
    GList *l;

    for (l = g->done.head; l; l = l->next) {
        if (!session ||
            !strcmp(btrail_guest_session_command(l->data)->session, session)) {
            json_array_add_object_element(
                sessions, btrail_guest_session_status(l->data));
        }
    }
}

void btrail_guest_complete(const struct btrail_folder *folder,
                           const struct btrail_state_capture *state)
{
    unsigned i;

    for (i = 0; i < state->sessions->len; i++) {
        const struct btrail_state_session *s =
            g_ptr_array_index(state->sessions, i);

        btrail_guest_session_complete(folder, s);
    }
}
