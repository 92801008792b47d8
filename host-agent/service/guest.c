/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest: see guest.h
 */

#include <string.h>

#include "service/guest.h"
#include "service/log.h"
#include "service/service-state.h"
#include "util/json.h"

/* Sessions that are done and still in the status */
#define MAX_DONE        32

/*
 * Sessions
 */

static void log_end(const struct guest_member *m, JsonObject *status)
{
    const struct service_session *s = m->session;
    const char *why = btrail_json_string(status, "why");

    if (s->fate == SERVICE_SESSION_DETACHED) {
        service_log(SERVICE_LOG_INFO, "guest %s: session %s continues with the "
                    "next service", m->link->name, guest_member_name(m));
        return;
    }
    service_log(s->state == SERVICE_SESSION_FAILED ?
                SERVICE_LOG_WARNING : SERVICE_LOG_INFO,
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
static void session_done(struct guest *g, struct guest_member *m)
{
    struct service_session *s = m->session;
    g_autoptr(JsonObject) status = service_session_status(s);
    const char *why = s->fate == SERVICE_SESSION_DETACHED ?
                      "the service restarts; the session continues" :
                      btrail_json_string(status, "why");

    log_end(m, status);
    guest_member_done(m, status, why ? why : "the session has ended at once");
    if (m->announced) {
        g_queue_push_tail(&g->done, s);
    } else {
        service_session_free(s);
    }
    if (g->done.length > MAX_DONE) {
        service_session_free(g_queue_pop_head(&g->done));
    }
    if (g->capture.starting == m) {
        g->capture.starting = NULL;
    }
    g_ptr_array_remove(g->members, m);
    guest_capture_advance(&g->capture);
    host_has_changed(g->host);
}

/* Does any other session than @m need the capture? */
static bool others_need(const struct guest *g,
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

void guest_end_session(struct guest *g, struct guest_member *m,
                       const char *why)
{
    guest_capture_update_paused(&g->capture);
    if (m->queued) {
        m->queued = false;
        service_session_end(m->session, NULL,
                            why ? why : "it was stopped");
        /* If QEMU is executing a command for it, the answer undoes that. */
        return;
    }
    if (!guest_member_is_active(m)) {
        return;
    }
    if (others_need(g, m) && g->capture.state == GUEST_CAPTURE_RUNNING) {
        service_session_end(m->session, g->capture.capture, why);
    } else {
        /* The session gets all records up to the END of each stream. */
        guest_capture_stop(&g->capture);
        service_session_end(m->session, NULL, why);
    }
}

static void announce(struct guest *g, struct guest_member *m)
{
    m->held = false;
    guest_capture_update_paused(&g->capture);
    /* Once a client knows of a session, it continues whatever kills us. */
    guest_save_all(g->host);
    guest_member_announce(m);
}

static void session_event(void *opaque, struct service_session *s,
                          enum service_session_event event)
{
    struct guest *g = opaque;
    struct guest_member *m = NULL;

    for (unsigned i = 0; i < g->members->len; i++) {
        if (guest_member_at(g->members, i)->session == s) {
            m = guest_member_at(g->members, i);
        }
    }
    switch (event) {
    case SERVICE_SESSION_READY:
        if (m->held) {
            announce(g, m);
        }
        host_has_changed(g->host);
        break;
    case SERVICE_SESSION_CHANGED:
        host_has_changed(g->host);
        break;
    case SERVICE_SESSION_TIME_OVER:
        /* Whoever has started it must learn first that it has begun. */
        if (m->announced) {
            guest_end_session(g, m, "its duration is over");
        }
        break;
    case SERVICE_SESSION_DRAINED:
        guest_capture_update_paused(&g->capture);
        break;
    case SERVICE_SESSION_DONE:
        session_done(g, m);
        break;
    }
}

struct guest_member *
guest_add_session(struct guest *g, struct service_command *c,
                  JsonObject *state, struct leftover *left,
                  GError **error)
{
    struct guest_member *m = guest_member_new(&g->link, g->folder);
    struct service_session_options options = {
        .host = g->host,
        .command = c,
        .folder = g->folder,
        .guest = g->link.name,
        .event = session_event,
        .opaque = g,
    };

    m->session = service_session_new(&options, state, left, error);
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

struct guest *guest_new(struct host *host, char *name,
                        unsigned vcpus,
                        struct folder *folder)
{
    struct guest *g = g_new0(struct guest, 1);

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
        .cpu = cpu_limit_new(host->cpu),
    };
    g_queue_init(&g->done);
    g_queue_init(&g->dumps);
    g_ptr_array_add(host->guests, g);
    return g;
}

void guest_unref(struct guest *g)
{
    if (--g->refs) {
        return;
    }
    g_ptr_array_unref(g->members);
    g_queue_clear_full(&g->done, (GDestroyNotify)service_session_free);
    guest_dump_clear(&g->dumps);
    guest_capture_forget(&g->capture);
    cpu_limit_free(g->capture.cpu);
    folder_free(g->folder);
    g_free(g->link.name);
    g_free(g->link.process);
    g_free(g);
}

void guest_free(struct guest *g)
{
    g_assert(!g->members->len && !g->capture.capture);
    g->host = NULL;
    guest_unref(g);
}

bool guest_is_untraced(const struct guest *g)
{
    return !g->members->len && g->capture.state == GUEST_CAPTURE_NONE &&
           !g->capture.executing;
}

bool guest_is_idle(const struct guest *g)
{
    return !g->link.control && guest_is_untraced(g);
}

static void on_panic(struct guest *g)
{
    for (unsigned i = 0; i < g->members->len; i++) {
        struct guest_member *m = guest_member_at(g->members, i);
        g_autoptr(GError) error = NULL;

        if (m->session->command->mode == SESSION_LAST &&
            guest_member_is_active(m) &&
            !guest_dump_start(&g->dumps, m, -1, NULL,
                              SERVICE_SESSION_PANIC, &error)) {
            service_log(SERVICE_LOG_WARNING, "guest %s: session %s cannot be "
                        "dumped: %s", g->link.name, guest_member_name(m),
                        error->message);
        }
    }
}

void guest_event(struct guest *g, const char *event,
                 JsonObject *data)
{
    const char *state = data ? btrail_json_string(data, "state") : NULL;
    const char *reason = data ? btrail_json_string(data, "reason") : NULL;
    bool panic = !strcmp(event, "panic");

    service_log(panic ? SERVICE_LOG_INFO : SERVICE_LOG_DEBUG,
                "guest %s: %s%s%s%s%s", g->link.name, event, state ? " " : "",
                state ? state : "", reason ? ", " : "", reason ? reason : "");
    if (panic) {
        on_panic(g);
    } else if (!strcmp(event, "state") && !g_strcmp0(state, "agent-lost")) {
        guest_capture_lost(&g->capture, btrail_json_string(data, "capture"),
                           reason);
    }
}

void guest_connect(struct guest *g, struct control *c,
                   const char *capture)
{
    g->link.control = c;
    g->link.connections++;
    if (c && capture && g_str_has_prefix(capture, "backtraild-") &&
        g_strcmp0(capture, g->capture.name)) {
        guest_capture_stop_orphan(&g->capture, capture);
    }
    if (!c && (g->capture.state == GUEST_CAPTURE_NONE ||
               g->capture.state == GUEST_CAPTURE_STARTING)) {
        guest_capture_end_members(&g->capture, "QEMU has gone away", true);
    }
    guest_capture_advance(&g->capture);
    host_has_changed(g->host);
}

void guest_end(struct guest *g, const char *why)
{
    for (unsigned i = 0; i < g->members->len; i++) {
        guest_end_session(g, guest_member_at(g->members, i), why);
    }
}

JsonObject *guest_detach(struct guest *g, const char *why)
{
    struct guest_capture *c = &g->capture;
    JsonObject *state = NULL;

    if (c->state == GUEST_CAPTURE_INSPECTING ||
        c->state == GUEST_CAPTURE_ATTACHING ||
        c->state == GUEST_CAPTURE_RUNNING) {
        guest_capture_update_paused(c);
        state = guest_capture_save(c);
        guest_capture_detach(c);
    }
    for (unsigned i = 0; i < g->members->len; i++) {
        struct guest_member *m = guest_member_at(g->members, i);

        if (c->state != GUEST_CAPTURE_DETACHING ||
            !service_session_detach(m->session)) {
            guest_end_session(g, m, why);
        }
    }
    return state;
}

void guest_save_all(struct host *host)
{
    g_autoptr(GPtrArray) captures = state_files_new();

    for (unsigned i = 0; i < host->guests->len; i++) {
        const struct guest *g = g_ptr_array_index(host->guests, i);
        JsonObject *c = guest_capture_save(&g->capture);

        if (c) {
            g_ptr_array_add(captures, c);
        }
    }
    service_state_save(host->state, captures);
}
