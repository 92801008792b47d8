/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What another process has begun of a guest: see guest.h
 */

#include <gio/gio.h>

#include "service/guest-private.h"
#include "service/log.h"

struct restoring {
    struct btrail_guest *g;
    GPtrArray *commands;        /* of struct btrail_command */
    struct btrail_state_capture *state;
    GPtrArray *leftovers;       /* of struct btrail_leftover */
};

static void look_thread(GTask *task, gpointer source, gpointer data,
                        GCancellable *cancellable)
{
    struct restoring *r = data;
    unsigned i;

    for (i = 0; i < r->commands->len; i++) {
        const struct btrail_command *c = g_ptr_array_index(r->commands, i);

        g_ptr_array_add(r->leftovers, c->last ? NULL :
                        btrail_leftover_inspect(r->g->folder, c->file, NULL));
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
            /* It was, before this process. */
            m->announced = true;
            guest_announce(m);
        } else if (!ok && (is_active(m) || (m->queued && m->start.id < 0))) {
            m->announced = true;
            m->queued = false;
            btrail_service_session_spoil(m->s, why);
            btrail_service_session_end(m->s, NULL, why);
        }
    }
    if (!ok) {
        btrail_log(BTRAIL_LOG_WARNING, "guest %s: its sessions cannot go on: "
                   "%s", g->name, why);
        guest_drop_capture(g);
    }
    guest_settled(g);
}

static void restoring_free(struct restoring *r)
{
    guest_unref(r->g);
    g_ptr_array_unref(r->commands);
    g_ptr_array_unref(r->leftovers);
    btrail_state_capture_free(r->state);
    g_free(r);
}

static void looked(GObject *source, GAsyncResult *async, gpointer opaque)
{
    struct restoring *r = opaque;
    struct btrail_guest *g = r->g;
    g_autofree char *capture = g_strdup(g->capture_name);
    bool gone = !g->control || g->leaving;
    bool ending = !gone && g->host->ending(g->opaque);
    unsigned i, n = 0;

    g->busy = false;
    for (i = 0; i < r->commands->len && !gone && !ending; i++) {
        struct btrail_state_session *s =
            g_ptr_array_index(r->state->sessions, i);
        struct btrail_command *c = g_ptr_array_index(r->commands, i);
        g_autofree char *name = g_strdup(c->session);
        g_autoptr(GError) error = NULL;

        if (guest_new_session(g, c, s, g_ptr_array_index(r->leftovers, i),
                              &error)) {
            n++;
        } else {
            btrail_log(BTRAIL_LOG_WARNING, "guest %s: session %s cannot go "
                       "on: %s", g->name, name, error->message);
            btrail_leftover_complete(g->folder, s);
        }
        g_ptr_array_index(r->commands, i) = NULL;
        g_ptr_array_index(r->leftovers, i) = NULL;
    }
    if (gone) {
        /* It comes again, to the next process if need be, or is gone. */
        guest_forget_capture(g);
        guest_check_idle(g);
    } else if (!n) {
        if (ending) {
            btrail_guest_complete(g->folder, r->state);
        }
        guest_forget_capture(g);
        g->host->over(g->opaque, capture);
        guest_stop_orphan(g, capture);
    } else {
        g->host->changed(g->opaque);
        g->wanted = guest_wanted_now(g, NULL);
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

static void free_leftover(gpointer p)
{
    btrail_leftover_free(p);
}

void btrail_guest_restore(struct btrail_guest *g,
                          struct btrail_state_capture *state)
{
    struct restoring *r = g_new0(struct restoring, 1);
    g_autoptr(GTask) task = NULL;
    unsigned i;

    r->g = g;
    r->commands = g_ptr_array_new_with_free_func(free_command);
    r->leftovers = g_ptr_array_new_with_free_func(free_leftover);
    r->state = btrail_state_capture_ref(state);
    for (i = 0; i < state->sessions->len; i++) {
        const struct btrail_state_session *s =
            g_ptr_array_index(state->sessions, i);

        /* It was parsed when the state was read. */
        g_ptr_array_add(r->commands, btrail_command_parse(s->command, NULL));
    }
    g->refs++;
    g->busy = g->attaching = true;
    g->capture_name = g_strdup(state->name);
    task = g_task_new(NULL, NULL, looked, r);
    g_task_set_task_data(task, r, NULL);
    g_task_run_in_thread(task, look_thread);
}

void btrail_guest_complete(const struct btrail_folder *folder,
                           const struct btrail_state_capture *state)
{
    unsigned i;

    for (i = 0; i < state->sessions->len; i++) {
        const struct btrail_state_session *s =
            g_ptr_array_index(state->sessions, i);

        btrail_leftover_complete(folder, s);
    }
}
