/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Continuing a capture that another process of the service has started: see
 * guest-restore.h
 */

#include <gio/gio.h>

#include "service/guest-restore.h"
#include "service/log.h"
#include "service/service-state.h"
#include "util/json.h"

struct restoring {
    struct guest *g;
    GPtrArray *commands;        /* of struct service_command */
    JsonObject *state;
    GPtrArray *leftovers;       /* of struct leftover */
};

static void inspect_thread(GTask *task, gpointer source, gpointer data,
                        GCancellable *cancellable)
{
    struct restoring *r = data;

    for (unsigned i = 0; i < r->commands->len; i++) {
        const struct service_command *c = g_ptr_array_index(r->commands, i);
        g_autoptr(GError) error = NULL;

        g_ptr_array_add(r->leftovers, c->mode == SESSION_LAST ?
                        NULL : leftover_inspect(r->g->folder, c->file,
                                                &error));
        if (error) {
            service_log(SERVICE_LOG_WARNING, "what is left of the session %s "
                        "cannot be read: %s", c->session, error->message);
        }
    }
    g_task_return_boolean(task, TRUE);
}

static void restoring_free(struct restoring *r)
{
    guest_unref(r->g);
    g_ptr_array_unref(r->commands);
    g_ptr_array_unref(r->leftovers);
    json_object_unref(r->state);
    g_free(r);
}

/* Continues the session @i that @state describes. */
static struct service_session *
add_session(struct restoring *r, unsigned i, JsonObject *state, GError **error)
{
    struct service_command *c = g_ptr_array_index(r->commands, i);
    struct leftover *left = g_ptr_array_index(r->leftovers, i);
    struct guest_member *m;

    if (guest_member_find(r->g->members, c->session)) {
        service_fail(error, SERVICE_ERROR_COMMAND,
                     "there is a session of this name already");
        return NULL;
    }
    g_ptr_array_index(r->commands, i) = NULL;
    g_ptr_array_index(r->leftovers, i) = NULL;
    m = guest_add_session(r->g, c, state, left, error);
    return m ? m->session : NULL;
}

/* Completes what is left of a session; all of it, or @parts of its trace. */
static void complete(struct restoring *r, JsonObject *state, gint64 parts)
{
    struct completions *c = r->g->host->state->completions;
    g_autoptr(JsonObject) session = json_object_new();
    g_autofree char *id = state_files_new_id();

    btrail_json_add_all(session, state);
    if (parts >= 0) {
        btrail_json_add(session, "s:id", id, "U:parts", parts, NULL);
    }
    completions_add(c, r->state, session);
}

/* The traces are inspected: continue their sessions. */
static void inspected(GObject *source, GAsyncResult *async, gpointer opaque)
{
    struct restoring *r = opaque;
    struct guest *g = r->g;
    g_autofree char *capture = g_strdup(g->capture.name);
    bool gone = !g->link.control ||
                g->capture.state == GUEST_CAPTURE_DETACHING;
    bool ending = !gone && g->host->ending;
    JsonArray *sessions = json_object_get_array_member(r->state, "sessions");
    unsigned i, n = 0;

    json_object_remove_member(r->state, "inspected");
    for (i = 0; i < r->commands->len && !gone && !ending; i++) {
        JsonObject *s = json_array_get_object_element(sessions, i);
        struct service_command *c = g_ptr_array_index(r->commands, i);
        g_autofree char *name = g_strdup(c->session);
        g_autoptr(GError) error = NULL;
        struct service_session *session = add_session(r, i, s, &error);

        if (session) {
            complete(r, s, session->first_part);
            n++;
        } else {
            service_log(SERVICE_LOG_WARNING, "guest %s: session %s cannot "
                        "continue: %s", g->link.name, name, error->message);
            complete(r, s, -1);
        }
    }
    if (gone) {
        /* The device may connect again, to the next process if need be. */
        guest_capture_forget(&g->capture);
    } else if (!n) {
        if (ending) {
            completions_add_all(g->host->state->completions, r->state);
        }
        guest_capture_forget(&g->capture);
        service_state_take(g->host->state, capture);
        guest_capture_stop_orphan(&g->capture, capture);
    } else {
        guest_capture_attach(&g->capture);
    }
    if (g->host) {
        host_has_changed(g->host);
    }
    restoring_free(r);
}

void guest_restore(struct guest *g, JsonObject *state)
{
    JsonArray *sessions = json_object_get_array_member(state, "sessions");
    struct restoring *r = g_new0(struct restoring, 1);
    g_autoptr(GTask) task = NULL;

    r->g = g;
    r->commands = g_ptr_array_new_with_free_func(
        (GDestroyNotify)command_free);
    r->leftovers = g_ptr_array_new_with_free_func(
        (GDestroyNotify)leftover_free);
    r->state = json_object_ref(state);
    json_object_set_boolean_member(state, "inspected", true);
    for (unsigned i = 0; i < json_array_get_length(sessions); i++) {
        JsonObject *s = json_array_get_object_element(sessions, i);

        /* It cannot fail: reading the state has parsed it. */
        g_ptr_array_add(r->commands, command_parse(
            btrail_json_object(s, "command"), NULL));
    }
    g->refs++;
    guest_capture_expect(&g->capture, btrail_json_string(state, "name"));
    task = g_task_new(NULL, NULL, inspected, r);
    g_task_set_task_data(task, r, NULL);
    g_task_run_in_thread(task, inspect_thread);
}
