/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest: see guest.h
 */

#include <string.h>

#include "service/guest-private.h"
#include "util/json.h"
#include "service/log.h"

/* Sessions that are done and can still be asked about */
#define MAX_DONE        32

/* The agent's own memory for a capture: code that was told, and names */
#define CAPTURE_MEMORY  (UINT64_C(64) << 20)

/*
 * Sessions
 */

struct guest_session *guest_find_session(struct btrail_guest *g,
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

void guest_update_paused(struct btrail_guest *g)
{
    struct btrail_capture_progress p;
    unsigned i;

    if (!g->capture) {
        return;
    }
    btrail_capture_progress(g->capture, &p);
    for (i = 0; i < g->sessions->len; i++) {
        btrail_service_session_waited(session_at(g, i)->s, &p);
    }
}

void guest_check_idle(struct btrail_guest *g)
{
    if (btrail_guest_is_idle(g) && !g->freed) {
        g->host->idle(g->opaque, g);
    }
}

static void log_end(const struct guest_session *m, JsonObject *status)
{
    const struct btrail_service_session *s = m->s;
    const char *why = btrail_json_string(status, "why");

    if (btrail_service_session_is_left(s)) {
        btrail_log(BTRAIL_LOG_INFO, "guest %s: session %s goes on with the "
                   "next service", m->g->name, name_of(m));
        return;
    }
    btrail_log(btrail_service_session_state(s) == BTRAIL_SERVICE_SESSION_FAILED ?
               BTRAIL_LOG_WARNING : BTRAIL_LOG_INFO,
               "guest %s: session %s %s%s%s: %s, %" G_GINT64_FORMAT
               " records, %" G_GINT64_FORMAT " bytes, %" G_GINT64_FORMAT
               " lost", m->g->name, name_of(m),
               btrail_json_string(status, "state"), why ? ", " : "",
               why ? why : "", btrail_json_string(status, "file"),
               btrail_json_int(status, "records", 0),
               btrail_json_int(status, "bytes", 0),
               btrail_json_int(status, "lost", 0));
}

static void session_done(void *opaque, struct btrail_service_session *s)
{
    struct guest_session *m = opaque;
    struct btrail_guest *g = m->g;
    JsonObject *status = btrail_service_session_status(s);
    const char *why = btrail_service_session_is_left(s) ?
                      "the service is being restarted; the session goes on" :
                      btrail_json_string(status, "why");
    unsigned i;

    log_end(m, status);
    guest_refuse(g, m->start, why ? why : "the session has ended at once");
    for (i = 0; i < m->stops->len; i++) {
        guest_reply(g, g_array_index(m->stops, struct waiting, i),
                    json_object_ref(status));
    }
    json_object_unref(status);
    if (m->announced) {
        g_queue_push_tail(&g->done, s);
    } else {
        btrail_service_session_free(s);
    }
    if (g->done.length > MAX_DONE) {
        btrail_service_session_free(g_queue_pop_head(&g->done));
    }
    g_ptr_array_remove(g->sessions, m);
    g->host->changed(g->opaque);
    guest_advance(g);
    guest_check_idle(g);
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

void guest_end_session(struct guest_session *m, const char *why)
{
    struct btrail_guest *g = m->g;

    guest_update_paused(g);
    if (m->queued) {
        m->queued = false;
        btrail_service_session_end(m->s, NULL, why ? why : "it was stopped");
        /* What is executed for it just now is undone when that is done. */
        return;
    }
    if (!is_active(m)) {
        return;
    }
    if (others_need(g, m) && g->capture && !g->stopping) {
        btrail_service_session_end(m->s, g->capture, why);
    } else {
        /* It gets all that there is, and its streams their ends. */
        guest_stop_capture(g);
        btrail_service_session_end(m->s, NULL, why);
    }
}

static void duration_over(void *opaque, struct btrail_service_session *s)
{
    guest_end_session(opaque, "its time was over");
}

static void session_ready(void *opaque, struct btrail_service_session *s)
{
    struct guest_session *m = opaque;

    if (m->held) {
        guest_announce(m);
    }
}

static bool session_admit_dump(void *opaque, GError **error)
{
    struct guest_session *m = opaque;

    return m->g->host->admit_dump(m->g->opaque, m->g, error);
}

static void session_changed(void *opaque, struct btrail_service_session *s)
{
    struct guest_session *m = opaque;

    m->g->host->changed(m->g->opaque);
}

static const struct btrail_service_session_owner session_owner = {
    .admit_dump = session_admit_dump,
    .ready = session_ready,
    .done = session_done,
    .duration = duration_over,
    .changed = session_changed,
};

uint64_t guest_memory(struct btrail_guest *g, unsigned sessions)
{
    const struct btrail_config *config = g->host->config(g->opaque);

    return sessions ? CAPTURE_MEMORY + g->vcpus * config->buffer_size +
                      sessions * btrail_service_session_memory(g->vcpus) : 0;
}

static JsonObject *metadata(struct btrail_guest *g)
{
    JsonObject *json = json_object_new();
    g_autofree char *name = g_utf8_make_valid(g->name, -1);

    json_object_set_string_member(json, "guest", name);
    return json;
}

struct guest_session *
guest_new_session(struct btrail_guest *g, struct btrail_command *c,
                  const struct btrail_state_session *state,
                  struct btrail_leftover *left, GError **error)
{
    struct guest_session *m = g_new0(struct guest_session, 1);
    g_autoptr(JsonObject) meta = metadata(g);
    struct btrail_service_session_options options = {
        .command = c,
        .folder = g->folder,
        .metadata = meta,
        .ring = g->host->config(g->opaque)->ring,
        .files = g->host->files(g->opaque),
        .owner = &session_owner,
        .opaque = m,
    };

    m->g = g;
    m->start.id = -1;
    m->stops = g_array_new(FALSE, FALSE, sizeof(struct waiting));
    m->s = state ? btrail_service_session_resume(&options, state, left, error) :
           btrail_service_session_new(&options, error);
    if (!m->s) {
        forget_session(m);
        return NULL;
    }
    m->queued = true;
    g_ptr_array_add(g->sessions, m);
    return m;
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
    g->cpu = btrail_cpu_limit_new(identity->cpu);
    g->host = host;
    g->opaque = opaque;
    g->refs = 1;
    g->sessions = g_ptr_array_new_with_free_func(forget_session);
    g_queue_init(&g->done);
    g_queue_init(&g->dumps);
    return g;
}

void guest_unref(struct btrail_guest *g)
{
    if (--g->refs) {
        return;
    }
    g_ptr_array_unref(g->sessions);
    g_queue_clear_full(&g->done, (GDestroyNotify)btrail_service_session_free);
    guest_forget_dumps(g);
    g_free(g->capture_name);
    g_free(g->given_up);
    btrail_wanted_free(g->wanted);
    btrail_folder_free(g->folder);
    btrail_cpu_limit_free(g->cpu);
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

void btrail_guest_set_vcpus(struct btrail_guest *g, unsigned vcpus)
{
    g->vcpus = vcpus;
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
        g->capture_name && !g_strcmp0(btrail_json_string(data, "capture"),
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
            !guest_dump(m, -1, NULL, BTRAIL_SERVICE_SESSION_PANIC, &error)) {
            btrail_log(BTRAIL_LOG_WARNING, "guest %s: session %s cannot be "
                       "dumped: %s", g->name, name_of(m), error->message);
        }
    }
}

void btrail_guest_connect(struct btrail_guest *g, struct btrail_control *c,
                          const char *capture)
{
    g->control = c;
    g->connections++;
    if (c && capture && g_str_has_prefix(capture, "backtraild-") &&
        g_strcmp0(capture, g->capture_name)) {
        guest_stop_orphan(g, capture);
    }
    if (!c && !g->capture && !g->attaching) {
        guest_end_all(g, "QEMU has gone away", true);
    }
    guest_advance(g);
    guest_check_idle(g);
}

struct btrail_state_capture *btrail_guest_detach(struct btrail_guest *g,
                                                const char *why)
{
    struct btrail_state_capture *state = NULL;
    unsigned i;

    if (g->capture_name && !g->stopping && (g->capture || g->attaching)) {
        guest_update_paused(g);
        state = btrail_guest_save(g);
        g->leaving = true;
        if (g->capture) {
            guest_detach_capture(g);
        }
    }
    for (i = 0; i < g->sessions->len; i++) {
        struct guest_session *m = session_at(g, i);

        if (!g->leaving || !btrail_service_session_detach(m->s)) {
            guest_end_session(m, why);
        }
    }
    return state;
}

void btrail_guest_end(struct btrail_guest *g, const char *why)
{
    unsigned i;

    for (i = 0; i < g->sessions->len; i++) {
        guest_end_session(session_at(g, i), why);
    }
}

static struct guest_session *largest(struct btrail_guest *g)
{
    struct guest_session *found = NULL;
    uint64_t most = 0;
    unsigned i;

    for (i = 0; i < g->sessions->len; i++) {
        struct guest_session *m = session_at(g, i);

        if (is_active(m) && btrail_service_session_bytes(m->s) > most) {
            most = btrail_service_session_bytes(m->s);
            found = m;
        }
    }
    return found;
}

uint64_t btrail_guest_largest(struct btrail_guest *g)
{
    struct guest_session *m = largest(g);

    return m ? btrail_service_session_bytes(m->s) : 0;
}

bool btrail_guest_end_largest(struct btrail_guest *g, const char *why)
{
    struct guest_session *m = largest(g);

    if (m) {
        guest_end_session(m, why);
    }
    return m;
}

void btrail_guest_usage(struct btrail_guest *g, struct btrail_usage *usage)
{
    usage->sessions = g->sessions->len;
    usage->memory = guest_memory(g, g->sessions->len);
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
            btrail_service_session_save(session_at(g, i)->s);

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
            !strcmp(btrail_service_session_command(l->data)->session, session)) {
            json_array_add_object_element(
                sessions, btrail_service_session_status(l->data));
        }
    }
}
