/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The capture of a guest: see guest-private.h
 */

#include <glib-unix.h>

#include "service/guest-private.h"
#include "util/json.h"
#include "service/log.h"

struct btrail_wanted *guest_wanted_now(struct btrail_guest *g,
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

void guest_stop_capture(struct btrail_guest *g)
{
    if (g->capture && !g->stopping) {
        g->stopping = true;
        btrail_capture_stop(g->capture);
    }
}

void guest_detach_capture(struct btrail_guest *g)
{
    g->stopping = true;
    btrail_capture_detach(g->capture);
}

void guest_announce(struct guest_session *m)
{
    struct btrail_guest *g = m->g;
    JsonObject *result;

    m->held = !btrail_service_session_is_ready(m->s);
    if (m->held) {
        return;
    }
    result = json_object_new();
    guest_update_paused(g);
    json_object_set_string_member(result, "session", name_of(m));
    json_object_set_string_member(result, "file", command_of(m)->file);
    json_object_set_string_member(result, "folder", m->g->folder->path);
    guest_reply(g, m->start, result);
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
    return btrail_service_session_begin(m->s);
}

void guest_forget_capture(struct btrail_guest *g)
{
    g_clear_pointer(&g->capture_name, g_free);
    g_clear_pointer(&g->given_up, g_free);
    g_clear_pointer(&g->wanted, btrail_wanted_free);
    g->awaiting = g->attaching = g->stopping = false;
}

void guest_end_all(struct btrail_guest *g, const char *why, bool queued)
{
    unsigned i;

    for (i = 0; i < g->sessions->len; i++) {
        struct guest_session *m = session_at(g, i);

        if (is_active(m)) {
            btrail_service_session_end(m->s, NULL, why);
        } else if (m->queued && queued) {
            m->queued = false;
            btrail_service_session_end(m->s, NULL, why);
        }
    }
}

void guest_settled(struct btrail_guest *g)
{
    g->busy = false;
    guest_advance(g);
    guest_check_idle(g);
}

static void stopped_orphan(void *opaque, JsonNode *result,
                           const GError *error)
{
    guest_settled(opaque);
}

void guest_stop_orphan(struct btrail_guest *g, const char *capture)
{
    JsonObject *arguments = json_object_new();

    btrail_log(BTRAIL_LOG_WARNING, "guest %s: it is traced for nobody; that "
               "ends", g->name);
    json_object_set_string_member(arguments, "capture", capture);
    g->busy = true;
    btrail_control_execute(g->control, "branch-trace-stop", arguments,
                           stopped_orphan, g);
}

static gboolean capture_done(gint fd, GIOCondition condition, gpointer opaque)
{
    struct btrail_guest *g = opaque;
    struct btrail_capture_result result;

    guest_update_paused(g);
    g->capture_source = 0;
    btrail_capture_finish(g->capture, &result);
    g->capture = NULL;
    if (result.error) {
        btrail_log(BTRAIL_LOG_WARNING, "guest %s: %s", g->name,
                   result.error->message);
    }
    /* The sessions find out by themselves how the capture has ended. */
    guest_end_all(g, g->given_up ? g->given_up :
                  g->stopping || result.reason != BTRAIL_END_STOPPED ? NULL :
                  "a QMP command has stopped all tracing", false);
    g_clear_error(&result.error);
    if (g->given_up && g->control && !g->leaving) {
        guest_stop_orphan(g, g->capture_name);
    }
    guest_forget_capture(g);
    g->host->changed(g->opaque);
    guest_advance(g);
    guest_check_idle(g);
    return G_SOURCE_REMOVE;
}

bool btrail_guest_awaits_data(const struct btrail_guest *g)
{
    return g->awaiting && !g->leaving;
}

void btrail_guest_data(struct btrail_guest *g, int sock)
{
    g_autoptr(GPtrArray) sessions = g_ptr_array_new();
    unsigned names = wanted_names(g);
    struct btrail_capture_options options = {
        .sock = sock,
        .attached = g->attaching,
        .names = names != BTRAIL_COMMAND_NAMES_OFF,
        .wait_for_scan = names == BTRAIL_COMMAND_NAMES_ALL,
        .limit = g->cpu,
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

    json_object_set_string_member(arguments, "capture", g->capture_name);
    json_object_set_int_member(arguments, "buffer-size", config->buffer_size);
    json_object_set_int_member(arguments, "agent-timeout",
                               config->agent_timeout);
    btrail_wanted_put(g->wanted, arguments);
    return arguments;
}

static void abandon(struct guest_session *m, const char *why)
{
    m->queued = false;
    btrail_service_session_abandon(m->s, why);
}

void guest_drop_capture(struct btrail_guest *g)
{
    if (g->capture) {
        guest_stop_capture(g);
    } else {
        guest_forget_capture(g);
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
            guest_announce(m);
        }
    } else {
        if (m) {
            abandon(m, error ? error->message :
                    "QEMU has connected to another agent");
        }
        guest_drop_capture(g);
    }
    guest_settled(g);
}

static void start_capture(struct btrail_guest *g, struct guest_session *m)
{
    g->capture_name = g_strdup_printf("backtraild-%08x%08x", g_random_int(),
                                      g_random_int());
    g->wanted = guest_wanted_now(g, m);
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
        g->wanted = guest_wanted_now(g, NULL);
    }
    guest_settled(g);
}

/* @w is taken. */
static void change_capture(struct btrail_guest *g, struct btrail_wanted *w)
{
    JsonObject *arguments = json_object_new();

    btrail_wanted_free(g->wanted);
    g->wanted = w;
    json_object_set_string_member(arguments, "capture", g->capture_name);
    btrail_wanted_put(w, arguments);
    g->busy = true;
    btrail_control_execute(g->control, "branch-trace-change", arguments,
                           changed, g);
}

void guest_advance(struct btrail_guest *g)
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
    w = guest_wanted_now(g, m);
    if (!w) {
        guest_stop_capture(g);
    } else if (!g->wanted || !btrail_wanted_equal(w, g->wanted)) {
        change_capture(g, w);
        return;
    } else if (m) {
        btrail_capture_add(g->capture, take_queued(m));
        guest_announce(m);
        btrail_wanted_free(w);
        guest_advance(g);
        return;
    }
    btrail_wanted_free(w);
}

JsonObject *guest_capture_status(struct btrail_guest *g)
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
    json_object_set_int_member(json, "limited-ns", p.limited_ns);
    if (g->wanted) {
        btrail_wanted_put(g->wanted, json);
    }
    return json;
}
