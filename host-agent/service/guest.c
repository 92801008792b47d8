/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest: see guest.h
 */

#include <string.h>

#include "service/guest.h"
#include "service/log.h"
#include "util/json.h"

/* Sessions that are done and still in the status */
#define MAX_DONE        32

/*
 * Sessions
 */

static void log_end(const struct guest_member *m, JsonObject *status)
{
    const struct btrail_service_session *s = m->session;
    const char *why = btrail_json_string(status, "why");

    if (s->detached) {
        btrail_log(BTRAIL_LOG_INFO, "guest %s: session %s continues with the "
                   "next service", m->link->name, guest_member_name(m));
        return;
    }
    btrail_log(s->state == BTRAIL_SERVICE_SESSION_FAILED ?
               BTRAIL_LOG_WARNING : BTRAIL_LOG_INFO,
               "guest %s: session %s %s%s%s: %s, %" G_GINT64_FORMAT
               " records, %" G_GINT64_FORMAT " bytes, %" G_GINT64_FORMAT
               " lost", m->link->name, guest_member_name(m),
               btrail_json_string(status, "state"), why ? ", " : "",
               why ? why : "", btrail_json_string(status, "file"),
               btrail_json_int(status, "records", 0),
               btrail_json_int(status, "bytes", 0),
               btrail_json_int(status, "lost", 0));
}

/* The session @m has ended or failed; @m is freed. */
static void session_done(struct btrail_guest *g, struct guest_member *m)
{
    struct btrail_service_session *s = m->session;
    g_autoptr(JsonObject) status = btrail_service_session_status(s);
    const char *why = s->detached ?
                      "the service restarts; the session continues" :
                      btrail_json_string(status, "why");

    log_end(m, status);
    guest_member_done(m, status, why ? why : "the session has ended at once");
    if (m->announced) {
        g_queue_push_tail(&g->done, s);
    } else {
        btrail_service_session_free(s);
    }
    if (g->done.length > MAX_DONE) {
        btrail_service_session_free(g_queue_pop_head(&g->done));
    }
    if (g->capture.starting == m) {
        g->capture.starting = NULL;
    }
    g_ptr_array_remove(g->members, m);
    guest_capture_advance(&g->capture);
    btrail_host_changed(g->host);
}

/* Does any other session than @m need the capture? */
static bool others_need(const struct btrail_guest *g,
                        const struct guest_member *m)
{
    for (unsigned i = 0; i < g->members->len; i++) {
        const struct guest_member *other = guest_member_at(g->members, i);

        if (other != m && (guest_member_is_active(other) || other->queued)) {
            return true;
        }
    }
    return false;
}

void btrail_guest_end_session(struct btrail_guest *g, struct guest_member *m,
                              const char *why)
{
    guest_capture_update_paused(&g->capture);
    if (m->queued) {
        m->queued = false;
        btrail_service_session_end(m->session, NULL,
                                   why ? why : "it was stopped");
        /* If QEMU is executing a command for it, the answer undoes that. */
        return;
    }
    if (!guest_member_is_active(m)) {
        return;
    }
    if (others_need(g, m) && g->capture.capture && !g->capture.stopping) {
        btrail_service_session_end(m->session, g->capture.capture, why);
    } else {
        /* The session gets all records up to the END of each stream. */
        guest_capture_stop(&g->capture);
        btrail_service_session_end(m->session, NULL, why);
    }
}

static void session_event(void *opaque, struct btrail_service_session *s,
                          enum btrail_service_session_event event)
{
    struct btrail_guest *g = opaque;
    struct guest_member *m = NULL;

    for (unsigned i = 0; i < g->members->len; i++) {
        if (guest_member_at(g->members, i)->session == s) {
            m = guest_member_at(g->members, i);
        }
    }
    switch (event) {
    case BTRAIL_SERVICE_SESSION_READY:
        if (m->held) {
            guest_capture_announce(&g->capture, m);
        }
        btrail_host_changed(g->host);
        break;
    case BTRAIL_SERVICE_SESSION_CHANGED:
        btrail_host_changed(g->host);
        break;
    case BTRAIL_SERVICE_SESSION_TIME_OVER:
        /* Whoever has started it learns first that it has begun. */
        if (m->announced) {
            btrail_guest_end_session(g, m, "its duration is over");
        }
        break;
    case BTRAIL_SERVICE_SESSION_DONE:
        session_done(g, m);
        break;
    }
}

struct guest_member *
btrail_guest_add_session(struct btrail_guest *g, struct btrail_command *c,
                         JsonObject *state, struct btrail_leftover *left,
                         GError **error)
{
    struct guest_member *m = guest_member_new(&g->link, g->folder);
    struct btrail_service_session_options options = {
        .host = g->host,
        .command = c,
        .folder = g->folder,
        .guest = g->link.name,
        .event = session_event,
        .opaque = g,
    };

    m->session = btrail_service_session_new(&options, state, left, error);
    if (!m->session) {
        guest_member_free(m);
        return NULL;
    }
    m->queued = true;
    g_ptr_array_add(g->members, m);
    return m;
}

/*
 * Life
 */

struct btrail_guest *btrail_guest_new(struct btrail_host *host, char *name,
                                      unsigned vcpus,
                                      struct btrail_folder *folder)
{
    struct btrail_guest *g = g_new0(struct btrail_guest, 1);

    g->host = host;
    g->refs = 1;
    g->vcpus = vcpus;
    g->folder = folder;
    g->link.name = name;
    g->members = g_ptr_array_new_with_free_func(
        (GDestroyNotify)guest_member_free);
    g->capture = (struct guest_capture) {
        .host = host,
        .link = &g->link,
        .members = g->members,
        .folder = folder,
        .cpu = btrail_cpu_limit_new(host->cpu),
    };
    g_queue_init(&g->done);
    g_queue_init(&g->dumps);
    g_ptr_array_add(host->guests, g);
    return g;
}

void btrail_guest_unref(struct btrail_guest *g)
{
    if (--g->refs) {
        return;
    }
    g_ptr_array_unref(g->members);
    g_queue_clear_full(&g->done, (GDestroyNotify)btrail_service_session_free);
    guest_dump_clear(&g->dumps);
    guest_capture_forget(&g->capture);
    btrail_cpu_limit_free(g->capture.cpu);
    btrail_folder_free(g->folder);
    g_free(g->link.name);
    g_free(g->link.process);
    g_free(g);
}

void btrail_guest_free(struct btrail_guest *g)
{
    g_assert(!g->members->len && !g->capture.capture);
    g->host = NULL;
    btrail_guest_unref(g);
}

bool btrail_guest_is_untraced(const struct btrail_guest *g)
{
    return !g->members->len && !g->capture.capture && !g->capture.busy;
}

bool btrail_guest_is_idle(const struct btrail_guest *g)
{
    return !g->link.control && btrail_guest_is_untraced(g);
}

static void on_panic(struct btrail_guest *g)
{
    for (unsigned i = 0; i < g->members->len; i++) {
        struct guest_member *m = guest_member_at(g->members, i);
        g_autoptr(GError) error = NULL;

        if (m->session->command->mode == BTRAIL_SESSION_LAST &&
            guest_member_is_active(m) &&
            !guest_dump_start(&g->dumps, m, -1, NULL,
                              BTRAIL_SERVICE_SESSION_PANIC, &error)) {
            btrail_log(BTRAIL_LOG_WARNING, "guest %s: session %s cannot be "
                       "dumped: %s", g->link.name, guest_member_name(m),
                       error->message);
        }
    }
}

void btrail_guest_event(struct btrail_guest *g, const char *event,
                        JsonObject *data)
{
    const char *state = data ? btrail_json_string(data, "state") : NULL;
    const char *reason = data ? btrail_json_string(data, "reason") : NULL;
    bool panic = !strcmp(event, "panic");

    btrail_log(panic ? BTRAIL_LOG_INFO : BTRAIL_LOG_DEBUG,
               "guest %s: %s%s%s%s%s", g->link.name, event, state ? " " : "",
               state ? state : "", reason ? ", " : "", reason ? reason : "");
    if (panic) {
        on_panic(g);
    } else if (!strcmp(event, "state") && !g_strcmp0(state, "agent-lost")) {
        guest_capture_lost(&g->capture, btrail_json_string(data, "capture"),
                           reason);
    }
}

void btrail_guest_connect(struct btrail_guest *g, struct btrail_control *c,
                          const char *capture)
{
    g->link.control = c;
    g->link.connections++;
    if (c && capture && g_str_has_prefix(capture, "backtraild-") &&
        g_strcmp0(capture, g->capture.name)) {
        guest_capture_stop_orphan(&g->capture, capture);
    }
    if (!c && !g->capture.capture && !g->capture.attaching) {
        guest_capture_end_members(&g->capture, "QEMU has gone away", true);
    }
    guest_capture_advance(&g->capture);
    btrail_host_changed(g->host);
}

void btrail_guest_end(struct btrail_guest *g, const char *why)
{
    for (unsigned i = 0; i < g->members->len; i++) {
        btrail_guest_end_session(g, guest_member_at(g->members, i), why);
    }
}

JsonObject *btrail_guest_detach(struct btrail_guest *g, const char *why)
{
    struct guest_capture *c = &g->capture;
    JsonObject *state = NULL;

    if (c->name && !c->stopping && (c->capture || c->attaching)) {
        guest_capture_update_paused(c);
        state = guest_capture_save(c);
        guest_capture_detach(c);
    }
    for (unsigned i = 0; i < g->members->len; i++) {
        struct guest_member *m = guest_member_at(g->members, i);

        if (!c->detaching || !btrail_service_session_detach(m->session)) {
            btrail_guest_end_session(g, m, why);
        }
    }
    return state;
}
