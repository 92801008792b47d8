/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who of the views of a replay gives way to whom: see replay-view.h
 */

#include "gdb/replay-parts.h"

/* Others must have been quiet for this long before a run continues. */
#define QUIET_MS        200
/*
 * A run that has made no progress is not interrupted for this long the next
 * time, and for twice as long each time after that: others would keep it from
 * its end.
 */
#define HOLD_MS         100
#define MAX_HOLD_MS     10000

static void serve(struct replay_view *v)
{
    replay_view_begin_way(v, true);
    gdb_server_serve(v->server);
    replay_view_end_way(v);
}

void replay_view_hold(struct replay_view *v)
{
    v->hold_ms = MIN(v->hold_ms ? 2 * v->hold_ms : HOLD_MS, MAX_HOLD_MS);
}

/* For how much longer @v is not to be interrupted */
static unsigned held_ms(const struct replay_view *v)
{
    gint64 ran = (g_get_monotonic_time() - v->r->began) / 1000;

    return ran < v->hold_ms ? v->hold_ms - ran : 0;
}

bool replay_view_put_off(struct replay_view *v, GError *error)
{
    struct replay_target *r = v->r;

    if (!r->yielded || v != r->going || !agent_is_cancelled(error)) {
        return false;
    }
    /* It is on its way: it is taken back. */
    r->current = NULL;
    replay_view_hold(v);
    if (r->for_request) {
        v->later = true;
        g_clear_pointer(&v->run, g_free);
    } else {
        v->suspended = true;
    }
    g_error_free(error);
    return true;
}

void replay_view_begin_way(struct replay_view *v, bool for_request)
{
    v->r->going = v;
    v->r->for_request = for_request;
    v->r->began = g_get_monotonic_time();
    v->r->yielded = false;
}

void replay_view_end_way(struct replay_view *v)
{
    v->r->going = NULL;
    if (!v->run && !v->later) {
        v->hold_ms = 0;
    }
}

static void wait_for_quiet(struct replay_target *r);

static gboolean on_quiet(gpointer opaque)
{
    struct replay_target *r = opaque;
    bool more = false;

    r->quiet_source = 0;
    for (unsigned i = 0; i < r->views->len && !r->running; i++) {
        struct replay_view *v = g_ptr_array_index(r->views, i);

        if (v->later) {
            v->later = false;
            serve(v);
        } else if (v->suspended) {
            replay_view_begin_way(v, false);
            replay_view_start(v);
            replay_view_end_way(v);
        }
        more |= v->later || v->suspended;
    }
    if (more) {
        wait_for_quiet(r);
    }
    return G_SOURCE_REMOVE;
}

/* Suspended runs continue when there is nothing else to do. */
static void wait_for_quiet(struct replay_target *r)
{
    if (r->quiet_source) {
        g_source_remove(r->quiet_source);
    }
    r->quiet_source = g_timeout_add(QUIET_MS, on_quiet, r);
}

static gboolean on_held(gpointer opaque)
{
    struct replay_target *r = opaque;

    r->hold_source = 0;
    if (r->running) {
        replay_target_stop(r);
    }
    return G_SOURCE_REMOVE;
}

void replay_target_stop_in(struct replay_target *r, unsigned ms)
{
    g_clear_handle_id(&r->hold_source, g_source_remove);
    r->hold_source = g_timeout_add(ms, on_held, r);
}

void replay_target_stop(struct replay_target *r)
{
    struct replay_view *v = r->running;
    unsigned wait_ms = (replay_view_is_backward(v->run) ||
                        vm_diverted(r->vm)) &&
                       v->server->client && !v->server->interrupted ?
                       held_ms(v) : 0;
    GError *error = NULL;

    if (wait_ms) {
        replay_target_stop_in(r, wait_ms);
    } else if (!r->interrupting) {
        r->interrupting = true;
        if (!stub_interrupt(vm_stub(r->vm), &error)) {
            replay_target_fail(r, error);
        }
    }
}

void replay_target_serve(struct replay_target *r)
{
    for (unsigned i = 0; i < r->views->len && !r->running; i++) {
        struct replay_view *v = g_ptr_array_index(r->views, i);

        if (v->waiting) {
            v->waiting = false;
            serve(v);
        }
    }
    wait_for_quiet(r);
}

/* Has another one a request, while the guest goes a way for this one? */
static bool others_wait(const struct replay_view *v)
{
    const struct replay_target *r = v->r;

    for (unsigned i = 0; i < r->views->len; i++) {
        const struct replay_view *other = g_ptr_array_index(r->views, i);

        if (other != v && other->server->client &&
            (other->waiting || client_has_sent(other->server->client))) {
            return true;
        }
    }
    return false;
}

bool replay_target_goes_on(struct replay_target *r)
{
    struct replay_view *v = r->going;

    if (!v || !v->server->client) {
        return true;
    }
    if (!gdb_server_wanted(v->server, false)) {
        return false;
    }
    r->yielded = !held_ms(v) && others_wait(v);
    return !r->yielded;
}

void replay_view_ask(void *opaque)
{
    struct replay_view *v = opaque;
    struct replay_target *r = v->r;

    if (r->failed) {
        gdb_server_end(v->server);
    } else if (r->running) {
        v->waiting = true;
        replay_target_stop(r);
    } else {
        serve(v);
        wait_for_quiet(r);
    }
}

/* A way that the guest goes asks for it. */
void replay_view_interrupt(void *opaque)
{
    struct replay_view *v = opaque;

    if (v == v->r->running) {
        replay_target_stop(v->r);
    } else if (v->waiting || v->later || v->suspended) {
        /* What has been put off is not wanted any more. */
        v->waiting = v->later = false;
        replay_view_end_run(v);
        gdb_server_fail(v->server, NULL);
    }
}

void replay_target_interrupt(struct replay_target *r, bool (*meant)(int sock))
{
    for (unsigned i = 0; i < r->views->len; i++) {
        struct replay_view *v = g_ptr_array_index(r->views, i);

        if (v->server->client &&
            (v == r->going || v->server->search || v->later) &&
            meant(client_in(v->server->client))) {
            gdb_server_interrupt(v->server);
        }
    }
}

void replay_view_left(void *opaque)
{
    struct replay_view *v = opaque;
    struct replay_target *r = v->r;

    v->waiting = v->later = false;
    if (v == r->running) {
        replay_target_stop(r);
    } else {
        g_ptr_array_remove(r->views, v);
    }
}
