/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The capture of a guest: see guest-capture.h
 */

#include <glib-unix.h>

#include "service/capture-filter.h"
#include "service/guest-capture.h"
#include "service/log.h"
#include "util/json.h"

static void enter(struct guest_capture *c, enum guest_capture_state next)
{
#define OF(state) (1u << GUEST_CAPTURE_##state)
    static const struct {
        const char *name;
        unsigned from;
    } states[] = {
        [GUEST_CAPTURE_NONE] = { "none", ~OF(NONE) },
        [GUEST_CAPTURE_INSPECTING] = { "inspecting", OF(NONE) },
        [GUEST_CAPTURE_STARTING] = { "starting", OF(NONE) },
        [GUEST_CAPTURE_ATTACHING] = { "attaching", OF(INSPECTING) },
        [GUEST_CAPTURE_RUNNING] = { "running", OF(STARTING) | OF(ATTACHING) },
        [GUEST_CAPTURE_ENDING] = { "ending", OF(RUNNING) },
        [GUEST_CAPTURE_DETACHING] = { "detaching", OF(INSPECTING) |
                                      OF(ATTACHING) | OF(RUNNING) },
    };
#undef OF

    service_log(SERVICE_LOG_DEBUG, "guest %s: capture %s: %s, was %s",
                c->link->name, c->name, states[next].name,
                states[c->state].name);
    g_assert(states[next].from & (1u << c->state));
    c->state = next;
}

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
            (c->state == GUEST_CAPTURE_ATTACHING && m->queued)) {
            g_ptr_array_add(commands, m->session->command);
        }
    }
    return commands->len ? capture_filter(
        (struct service_command **)commands->pdata, commands->len) : NULL;
}

/* The most names that any session requests */
static unsigned most_names(const struct guest_capture *c)
{
    unsigned most = NAMES_OFF;

    for (unsigned i = 0; i < c->members->len; i++) {
        const struct guest_member *m = guest_member_at(c->members, i);

        most = MAX(most, m->session->command->names);
    }
    return most;
}

void guest_capture_update_paused(struct guest_capture *c)
{
    struct capture_progress p;

    if (!c->capture) {
        return;
    }
    capture_progress(c->capture, &p);
    for (unsigned i = 0; i < c->members->len; i++) {
        service_session_waited(guest_member_at(c->members, i)->session,
                               &p);
    }
}

void guest_capture_stop(struct guest_capture *c)
{
    if (c->state == GUEST_CAPTURE_RUNNING) {
        enter(c, GUEST_CAPTURE_ENDING);
        capture_stop(c->capture);
    }
}

void guest_capture_detach(struct guest_capture *c)
{
    enter(c, GUEST_CAPTURE_DETACHING);
    if (c->capture) {
        capture_detach(c->capture);
    }
}

/* The session @m is in the capture; its owner announces it when it is ready. */
static void hold(struct guest_capture *c, struct guest_member *m)
{
    guest_capture_update_paused(c);
    m->held = true;
    service_session_report_ready(m->session);
}

/* The session @m is put into the capture. */
static struct session *take_queued(struct guest_member *m)
{
    m->queued = false;
    return service_session_begin(m->session);
}

void guest_capture_forget(struct guest_capture *c)
{
    if (c->state != GUEST_CAPTURE_NONE) {
        enter(c, GUEST_CAPTURE_NONE);
    }
    g_clear_pointer(&c->name, g_free);
    g_clear_pointer(&c->given_up, g_free);
    g_clear_pointer(&c->filter, json_object_unref);
}

void guest_capture_end_members(struct guest_capture *c, const char *why,
                               bool queued)
{
    for (unsigned i = 0; i < c->members->len; i++) {
        struct guest_member *m = guest_member_at(c->members, i);

        if (guest_member_is_active(m) || (m->queued && queued)) {
            m->queued = false;
            service_session_end(m->session, NULL, why);
        }
    }
}

/* @arguments is taken; @answer is settled(), or ends in it. */
static void execute(struct guest_capture *c, const char *command,
                    JsonObject *arguments, control_answer *answer)
{
    c->executing++;
    control_execute(c->link->control, command, arguments, answer, c);
}

static void settled(void *opaque, JsonNode *result, const GError *error)
{
    struct guest_capture *c = opaque;

    c->executing--;
    guest_capture_advance(c);
    host_has_changed(c->host);
}

void guest_capture_stop_orphan(struct guest_capture *c, const char *name)
{
    service_log(SERVICE_LOG_WARNING, "guest %s: stopping a capture that has no "
                "sessions", c->link->name);
    execute(c, "branch-trace-stop", btrail_json_new("s:capture", name, NULL),
            settled);
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
    struct capture_result result;

    guest_capture_update_paused(c);
    c->source = 0;
    capture_finish(c->capture, &result);
    c->capture = NULL;
    if (result.error) {
        service_log(SERVICE_LOG_WARNING, "guest %s: %s", c->link->name,
                    result.error->message);
    }
    /* Each session knows the reason of the END records itself. */
    guest_capture_end_members(c, c->given_up ? c->given_up :
                              c->state != GUEST_CAPTURE_RUNNING ||
                              result.reason != BTRAIL_END_STOPPED ? NULL :
                              "a QMP command has stopped all tracing", false);
    g_clear_error(&result.error);
    if (c->given_up && c->link->control &&
        c->state != GUEST_CAPTURE_DETACHING) {
        guest_capture_stop_orphan(c, c->name);
    }
    guest_capture_forget(c);
    guest_capture_advance(c);
    host_has_changed(c->host);
    return G_SOURCE_REMOVE;
}

bool guest_capture_awaits_data(const struct guest_capture *c)
{
    return c->state == GUEST_CAPTURE_STARTING ||
           c->state == GUEST_CAPTURE_ATTACHING;
}

void guest_capture_data(struct guest_capture *c, int sock)
{
    g_autoptr(GPtrArray) sessions = g_ptr_array_new();
    unsigned names = most_names(c);
    struct capture_options options = {
        .sock = sock,
        .attached = c->state == GUEST_CAPTURE_ATTACHING,
        .names = names != NAMES_OFF,
        .wait_for_scan = names == NAMES_ALL,
        .limit = c->cpu,
        .keep = c->host->config->names,
    };

    enter(c, GUEST_CAPTURE_RUNNING);
    c->names = options.names;
    /* These sessions get all records from the first one on. */
    for (unsigned i = 0; i < c->members->len; i++) {
        struct guest_member *m = guest_member_at(c->members, i);

        if (m->queued &&
            (options.attached ? m->start.id < 0 : m == c->starting)) {
            g_ptr_array_add(sessions, take_queued(m));
        }
    }
    options.sessions = (struct session **)sessions->pdata;
    options.n_sessions = sessions->len;
    c->capture = capture_start(&options);
    c->source = g_unix_fd_add(capture_done_fd(c->capture), G_IO_IN,
                              capture_done, c);
}

bool guest_capture_asks(const struct guest_capture *c)
{
    return c->state == GUEST_CAPTURE_RUNNING && c->names;
}

void guest_capture_ask(struct guest_capture *c, int sock)
{
    capture_ask_guest(c->capture, sock);
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
    service_session_abandon(m->session, why);
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
    if (!error && c->capture) {
        if (m && guest_member_is_active(m)) {
            hold(c, m);
        }
    } else {
        if (m) {
            abandon(m, error ? error->message :
                    "QEMU has connected to another agent");
        }
        drop_capture(c);
    }
    settled(c, result, error);
}

static void start_capture(struct guest_capture *c, struct guest_member *m)
{
    const struct config *config = c->host->config;
    JsonObject *arguments;

    c->name = g_strdup_printf("backtraild-%08x%08x", g_random_int(),
                              g_random_int());
    c->filter = common_filter(c, m);
    c->starting = m;
    enter(c, GUEST_CAPTURE_STARTING);
    arguments = btrail_json_new("s:capture", c->name,
                                "U:buffer-size", config->buffer_size,
                                "U:agent-timeout", config->agent_timeout, NULL);
    btrail_json_add_all(arguments, c->filter);
    execute(c, "branch-trace-start", arguments, started);
}

static void capture_changed(void *opaque, JsonNode *result, const GError *error)
{
    struct guest_capture *c = opaque;
    struct guest_member *m = next_queued(c);

    if (error) {
        g_clear_pointer(&c->filter, json_object_unref);
        service_log(SERVICE_LOG_WARNING, "guest %s: cannot change the capture: "
                    "%s", c->link->name, error->message);
        if (m) {
            abandon(m, error->message);
        }
        /* Do not try again before the requests change. */
        c->filter = common_filter(c, NULL);
    }
    settled(c, result, error);
}

/* @filter is taken. */
static void change_capture(struct guest_capture *c, JsonObject *filter)
{
    JsonObject *arguments = btrail_json_new("s:capture", c->name, NULL);

    g_clear_pointer(&c->filter, json_object_unref);
    c->filter = filter;
    btrail_json_add_all(arguments, filter);
    execute(c, "branch-trace-change", arguments, capture_changed);
}

void guest_capture_advance(struct guest_capture *c)
{
    struct guest_member *m = next_queued(c);
    g_autoptr(JsonObject) filter = NULL;

    if (c->executing || !c->link->control) {
        return;
    }
    if (c->state == GUEST_CAPTURE_NONE && m) {
        start_capture(c, m);
    }
    if (c->state != GUEST_CAPTURE_RUNNING) {
        return;
    }
    filter = common_filter(c, m);
    if (!filter) {
        guest_capture_stop(c);
    } else if (!c->filter || !json_object_equal(filter, c->filter)) {
        change_capture(c, g_steal_pointer(&filter));
    } else if (m) {
        capture_add(c->capture, take_queued(m));
        hold(c, m);
        guest_capture_advance(c);
    }
}

void guest_capture_expect(struct guest_capture *c, const char *name)
{
    c->name = g_strdup(name);
    enter(c, GUEST_CAPTURE_INSPECTING);
}

static void attached(void *opaque, JsonNode *result, const GError *error)
{
    struct guest_capture *c = opaque;
    const char *why = error ? error->message :
                      "QEMU has connected to another agent";
    bool ok = !error && c->capture;

    for (unsigned i = 0; i < c->members->len; i++) {
        struct guest_member *m = guest_member_at(c->members, i);

        if (ok && guest_member_is_active(m)) {
            /* Its client knows it from the process before. */
            m->announced = true;
            hold(c, m);
        } else if (!ok && (guest_member_is_active(m) ||
                           (m->queued && m->start.id < 0))) {
            m->announced = true;
            m->queued = false;
            service_session_spoil(m->session, why);
            service_session_end(m->session, NULL, why);
        }
    }
    if (!ok) {
        service_log(SERVICE_LOG_WARNING, "guest %s: its sessions cannot "
                    "continue: %s", c->link->name, why);
        drop_capture(c);
    }
    settled(c, result, error);
}

void guest_capture_attach(struct guest_capture *c)
{
    enter(c, GUEST_CAPTURE_ATTACHING);
    c->filter = common_filter(c, NULL);
    execute(c, "branch-trace-attach", NULL, attached);
}

JsonObject *guest_capture_save(const struct guest_capture *c)
{
    g_autofree char *folder = g_path_get_basename(c->folder->path);
    g_autoptr(JsonArray) sessions = json_array_new();

    /* What is handed over is left to the next process already. */
    for (unsigned i = 0; c->name && c->state != GUEST_CAPTURE_DETACHING &&
         i < c->members->len; i++) {
        JsonObject *session = service_session_save(
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
                                       c->state == GUEST_CAPTURE_RUNNING ?
                                       "active" : "ending", NULL);
    struct capture_progress p;

    if (!c->capture) {
        return json;
    }
    capture_progress(c->capture, &p);
    btrail_json_add(json, "U:records", p.records, "U:lost", p.lost,
                    "U:paused-ns", p.paused_ns, "U:limited-ns", p.limited_ns,
                    "o:names", capture_names(c->capture), NULL);
    if (c->filter) {
        btrail_json_add_all(json, c->filter);
    }
    return json;
}
