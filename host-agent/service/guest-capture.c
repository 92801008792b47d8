/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The capture of a guest: see guest-capture.h
 */

#include <glib-unix.h>

#include "service/capture-filter.h"
#include "service/guest-capture.h"
#include "service/log.h"
#include "service/service-state.h"
#include "util/json.h"

/*
 * The filter for all sessions that are, or are about to be, in the capture,
 * and for @next unless it is NULL; NULL if there are none
 */
static JsonObject *common_filter(const struct guest_capture *c,
                                 const struct guest_member *next)
{
    g_autoptr(GPtrArray) commands = g_ptr_array_new();

    for (unsigned i = 0; i < c->members->len; i++) {
        const struct guest_member *m = guest_member_at(c->members, i);

        if (m == next || guest_member_is_active(m) ||
            (c->attaching && m->queued)) {
            g_ptr_array_add(commands, m->session->command);
        }
    }
    return commands->len ? btrail_capture_filter(
        (struct btrail_command **)commands->pdata, commands->len) : NULL;
}

/* The most names that any session requests */
static unsigned most_names(const struct guest_capture *c)
{
    unsigned most = BTRAIL_COMMAND_NAMES_OFF;

    for (unsigned i = 0; i < c->members->len; i++) {
        const struct guest_member *m = guest_member_at(c->members, i);

        most = MAX(most, m->session->command->names);
    }
    return most;
}

void guest_capture_update_paused(struct guest_capture *c)
{
    struct btrail_capture_progress p;

    if (!c->capture) {
        return;
    }
    btrail_capture_progress(c->capture, &p);
    for (unsigned i = 0; i < c->members->len; i++) {
        btrail_service_session_waited(guest_member_at(c->members, i)->session,
                                      &p);
    }
}

void guest_capture_stop(struct guest_capture *c)
{
    if (c->capture && !c->stopping) {
        c->stopping = true;
        btrail_capture_stop(c->capture);
    }
}

void guest_capture_detach(struct guest_capture *c)
{
    c->detaching = true;
    if (c->capture) {
        c->stopping = true;
        btrail_capture_detach(c->capture);
    }
}

void guest_capture_announce(struct guest_capture *c, struct guest_member *m)
{
    guest_capture_update_paused(c);
    m->held = !btrail_service_session_is_ready(m->session);
    if (!m->held) {
        /* What a client has been told of continues whatever kills us. */
        btrail_service_state_save(c->host->state);
        guest_member_announce(m);
        btrail_host_changed(c->host);
    }
}

/* The session @m is put into the capture. */
static struct btrail_session *take_queued(struct guest_member *m)
{
    m->queued = false;
    return btrail_service_session_begin(m->session);
}

void guest_capture_forget(struct guest_capture *c)
{
    g_clear_pointer(&c->name, g_free);
    g_clear_pointer(&c->given_up, g_free);
    g_clear_pointer(&c->filter, json_object_unref);
    c->awaiting = c->attaching = c->stopping = false;
}

void guest_capture_end_members(struct guest_capture *c, const char *why,
                               bool queued)
{
    for (unsigned i = 0; i < c->members->len; i++) {
        struct guest_member *m = guest_member_at(c->members, i);

        if (guest_member_is_active(m) || (m->queued && queued)) {
            m->queued = false;
            btrail_service_session_end(m->session, NULL, why);
        }
    }
}

/* QEMU has answered the command that was being executed. */
static void settled(struct guest_capture *c)
{
    c->busy = false;
    guest_capture_advance(c);
    btrail_host_changed(c->host);
}

static void stopped_orphan(void *opaque, JsonNode *result,
                           const GError *error)
{
    settled(opaque);
}

void guest_capture_stop_orphan(struct guest_capture *c, const char *name)
{
    btrail_log(BTRAIL_LOG_WARNING, "guest %s: stopping a capture that has no "
               "sessions", c->link->name);
    c->busy = true;
    btrail_control_execute(c->link->control, "branch-trace-stop",
                           btrail_json_new("s:capture", name, NULL),
                           stopped_orphan, c);
}

void guest_capture_lost(struct guest_capture *c, const char *name,
                        const char *reason)
{
    if (c->name && !g_strcmp0(name, c->name)) {
        g_free(c->given_up);
        c->given_up = g_strdup_printf("QEMU has given up on this service (%s)",
                                      reason ? reason : "without a reason");
    }
}

static gboolean capture_done(gint fd, GIOCondition condition, gpointer opaque)
{
    struct guest_capture *c = opaque;
    struct btrail_capture_result result;

    guest_capture_update_paused(c);
    c->source = 0;
    btrail_capture_finish(c->capture, &result);
    c->capture = NULL;
    if (result.error) {
        btrail_log(BTRAIL_LOG_WARNING, "guest %s: %s", c->link->name,
                   result.error->message);
    }
    /* Each session knows the reason of the END records itself. */
    guest_capture_end_members(c, c->given_up ? c->given_up :
                              c->stopping ||
                              result.reason != BTRAIL_END_STOPPED ? NULL :
                              "a QMP command has stopped all tracing", false);
    g_clear_error(&result.error);
    if (c->given_up && c->link->control && !c->detaching) {
        guest_capture_stop_orphan(c, c->name);
    }
    guest_capture_forget(c);
    guest_capture_advance(c);
    btrail_host_changed(c->host);
    return G_SOURCE_REMOVE;
}

bool guest_capture_awaits_data(const struct guest_capture *c)
{
    return c->awaiting && !c->detaching;
}

void guest_capture_data(struct guest_capture *c, int sock)
{
    g_autoptr(GPtrArray) sessions = g_ptr_array_new();
    unsigned names = most_names(c);
    struct btrail_capture_options options = {
        .sock = sock,
        .attached = c->attaching,
        .names = names != BTRAIL_COMMAND_NAMES_OFF,
        .wait_for_scan = names == BTRAIL_COMMAND_NAMES_ALL,
        .limit = c->cpu,
        .keep = c->host->config->names,
    };

    c->awaiting = false;
    c->names = options.names;
    /* These sessions get all records from the first one on. */
    for (unsigned i = 0; i < c->members->len; i++) {
        struct guest_member *m = guest_member_at(c->members, i);

        if (m->queued && (c->attaching ? m->start.id < 0 : m == c->starting)) {
            g_ptr_array_add(sessions, take_queued(m));
        }
    }
    options.sessions = (struct btrail_session **)sessions->pdata;
    options.n_sessions = sessions->len;
    c->capture = btrail_capture_start(&options);
    c->source = g_unix_fd_add(btrail_capture_done_fd(c->capture), G_IO_IN,
                              capture_done, c);
}

bool guest_capture_asks(const struct guest_capture *c)
{
    return c->capture && c->names && !c->stopping;
}

void guest_capture_ask(struct guest_capture *c, int sock)
{
    btrail_capture_ask_guest(c->capture, sock);
}

/* The session that has waited the longest for the capture */
static struct guest_member *next_queued(const struct guest_capture *c)
{
    for (unsigned i = 0; i < c->members->len; i++) {
        if (guest_member_at(c->members, i)->queued) {
            return guest_member_at(c->members, i);
        }
    }
    return NULL;
}

static void abandon(struct guest_member *m, const char *why)
{
    m->queued = false;
    btrail_service_session_abandon(m->session, why);
}

/* The start or the attachment has failed. */
static void drop_capture(struct guest_capture *c)
{
    if (c->capture) {
        guest_capture_stop(c);
    } else {
        guest_capture_forget(c);
    }
}

static void started(void *opaque, JsonNode *result, const GError *error)
{
    struct guest_capture *c = opaque;
    struct guest_member *m = c->starting;

    c->starting = NULL;
    c->awaiting = false;
    if (!error && c->capture) {
        if (m && guest_member_is_active(m)) {
            guest_capture_announce(c, m);
        }
    } else {
        if (m) {
            abandon(m, error ? error->message :
                    "QEMU has connected to another agent");
        }
        drop_capture(c);
    }
    settled(c);
}

static void start_capture(struct guest_capture *c, struct guest_member *m)
{
    const struct btrail_config *config = c->host->config;
    JsonObject *arguments;

    c->name = g_strdup_printf("backtraild-%08x%08x", g_random_int(),
                              g_random_int());
    c->filter = common_filter(c, m);
    c->starting = m;
    c->awaiting = c->busy = true;
    arguments = btrail_json_new("s:capture", c->name,
                                "U:buffer-size", config->buffer_size,
                                "U:agent-timeout", config->agent_timeout, NULL);
    btrail_json_add_all(arguments, c->filter);
    btrail_control_execute(c->link->control, "branch-trace-start", arguments,
                           started, c);
}

static void capture_changed(void *opaque, JsonNode *result, const GError *error)
{
    struct guest_capture *c = opaque;
    struct guest_member *m = next_queued(c);

    if (error) {
        g_clear_pointer(&c->filter, json_object_unref);
        btrail_log(BTRAIL_LOG_WARNING, "guest %s: cannot change the capture: "
                   "%s", c->link->name, error->message);
        if (m) {
            abandon(m, error->message);
        }
        /* Do not try again before the requests change. */
        c->filter = common_filter(c, NULL);
    }
    settled(c);
}

/* @filter is taken. */
static void change_capture(struct guest_capture *c, JsonObject *filter)
{
    JsonObject *arguments = btrail_json_new("s:capture", c->name, NULL);

    g_clear_pointer(&c->filter, json_object_unref);
    c->filter = filter;
    btrail_json_add_all(arguments, filter);
    c->busy = true;
    btrail_control_execute(c->link->control, "branch-trace-change", arguments,
                           capture_changed, c);
}

void guest_capture_advance(struct guest_capture *c)
{
    struct guest_member *m = next_queued(c);
    g_autoptr(JsonObject) filter = NULL;

    if (c->busy || !c->link->control || c->stopping || c->attaching) {
        return;
    }
    if (!c->capture) {
        if (m) {
            start_capture(c, m);
        }
        return;
    }
    filter = common_filter(c, m);
    if (!filter) {
        guest_capture_stop(c);
    } else if (!c->filter || !json_object_equal(filter, c->filter)) {
        change_capture(c, g_steal_pointer(&filter));
    } else if (m) {
        btrail_capture_add(c->capture, take_queued(m));
        guest_capture_announce(c, m);
        guest_capture_advance(c);
    }
}

void guest_capture_expect(struct guest_capture *c, const char *name)
{
    c->busy = c->attaching = true;
    c->name = g_strdup(name);
}

static void attached(void *opaque, JsonNode *result, const GError *error)
{
    struct guest_capture *c = opaque;
    const char *why = error ? error->message :
                      "QEMU has connected to another agent";
    bool ok = !error && c->capture;

    c->awaiting = c->attaching = false;
    for (unsigned i = 0; i < c->members->len; i++) {
        struct guest_member *m = guest_member_at(c->members, i);

        if (ok && guest_member_is_active(m)) {
            /* Its client knows it from the process before. */
            m->announced = true;
            guest_capture_announce(c, m);
        } else if (!ok && (guest_member_is_active(m) ||
                           (m->queued && m->start.id < 0))) {
            m->announced = true;
            m->queued = false;
            btrail_service_session_spoil(m->session, why);
            btrail_service_session_end(m->session, NULL, why);
        }
    }
    if (!ok) {
        btrail_log(BTRAIL_LOG_WARNING, "guest %s: its sessions cannot "
                   "continue: %s", c->link->name, why);
        drop_capture(c);
    }
    settled(c);
}

void guest_capture_attach(struct guest_capture *c)
{
    c->filter = common_filter(c, NULL);
    c->awaiting = c->busy = true;
    btrail_control_execute(c->link->control, "branch-trace-attach", NULL,
                           attached, c);
}

JsonObject *guest_capture_save(const struct guest_capture *c)
{
    g_autofree char *folder = g_path_get_basename(c->folder->path);
    g_autoptr(JsonArray) sessions = json_array_new();

    for (unsigned i = 0; c->name && i < c->members->len; i++) {
        JsonObject *session = btrail_service_session_save(
            guest_member_at(c->members, i)->session);

        if (session) {
            json_array_add_object_element(sessions, session);
        }
    }
    if (!json_array_get_length(sessions)) {
        return NULL;
    }
    return btrail_json_new("s:name", c->name, "s:folder", folder,
                           "S:process", c->link->process,
                           "a:sessions", g_steal_pointer(&sessions), NULL);
}

JsonObject *guest_capture_status(const struct guest_capture *c)
{
    JsonObject *json = btrail_json_new("s:state", !c->capture ? "inactive" :
                                       c->stopping ? "ending" : "active", NULL);
    struct btrail_capture_progress p;

    if (!c->capture) {
        return json;
    }
    btrail_capture_progress(c->capture, &p);
    btrail_json_add(json, "U:records", p.records, "U:lost", p.lost,
                    "U:paused-ns", p.paused_ns, "U:limited-ns", p.limited_ns,
                    "o:names", btrail_capture_names(c->capture), NULL);
    if (c->filter) {
        btrail_json_add_all(json, c->filter);
    }
    return json;
}
