/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail why --json
 */

#include "cli/why/why.h"
#include "util/json.h"

/* Nanoseconds after the session's start */
static gint64 since_start(const struct why *why, uint64_t time)
{
    return (gint64)(time - why->in.trace.start);
}

static void add_task(JsonObject *o, const char *name,
                     const struct btrail_task *task)
{
    if (task->known) {
        json_object_set_object_member(
            o, name, btrail_json_new("u:pid", task->pid, "u:tid", task->tid,
                                     "s:comm", task->name, NULL));
    } else {
        json_object_set_null_member(o, name);
    }
}

static void add_string(JsonObject *o, const char *name, const char *text)
{
    if (text) {
        json_object_set_string_member(o, name, text);
    } else {
        json_object_set_null_member(o, name);
    }
}

static JsonArray *stack_json(const GPtrArray *stack)
{
    JsonArray *a = json_array_new();
    char buf[WHY_NAME];

    for (guint i = 0; stack && i < stack->len; i++) {
        json_array_add_string_element(a, why_name(stack->pdata[i], buf));
    }
    return a;
}

static JsonArray *functions_json(const GArray *functions)
{
    JsonArray *a = json_array_new();
    char buf[WHY_NAME];

    for (guint i = 0; functions && i < functions->len; i++) {
        const struct hot_function *f = &g_array_index(
            functions, struct hot_function, i);

        json_array_add_object_element(a, btrail_json_new(
            "s:name", why_name(f->function, buf), "U:ns", f->ns, NULL));
    }
    return a;
}

static JsonArray *users_json(const GArray *users)
{
    JsonArray *a = json_array_new();

    for (guint i = 0; users && i < users->len; i++) {
        const struct waiting_user *u = &g_array_index(
            users, struct waiting_user, i);
        JsonObject *o = json_object_new();

        add_task(o, "task", &u->task);
        btrail_json_add(o, "U:ns", u->ns, NULL);
        json_array_add_object_element(a, o);
    }
    return a;
}

static JsonArray *wakers_json(const GArray *wakers)
{
    JsonArray *a = json_array_new();

    for (guint i = 0; i < wakers->len; i++) {
        const struct waiting_waker *w = &g_array_index(
            wakers, struct waiting_waker, i);
        JsonObject *o = json_object_new();

        add_task(o, "task", &w->task);
        add_string(o, "interrupt", w->interrupt);
        btrail_json_add(o, "a:stack", stack_json(w->stack), "U:times",
                        w->times, "U:ns", w->ns, NULL);
        json_array_add_object_element(a, o);
    }
    return a;
}

static JsonArray *waits_json(const struct why *why,
                             const struct waiting_span *w)
{
    JsonArray *a = json_array_new();

    for (guint i = 0; i < w->waits->len; i++) {
        const struct waiting_wait *wait = &g_array_index(
            w->waits, struct waiting_wait, i);
        JsonObject *o = btrail_json_new(
            "U:ns", wait->ns, "U:times", wait->times, "s:state",
            waiting_state_name(wait->state), "a:stack",
            stack_json(wait->stack), "a:wakers", wakers_json(wait->wakers),
            NULL);
        uint64_t ordinary;

        if (why_ordinary_wait(why, wait, &ordinary)) {
            btrail_json_add(o, "U:ordinary_ns", ordinary, NULL);
        }
        json_array_add_object_element(a, o);
    }
    return a;
}

static JsonArray *path_json(const struct why *why, const struct waiting_span *w)
{
    JsonArray *a = json_array_new();

    for (guint i = 0; i < w->path->len; i++) {
        const struct waiting_part *p = &g_array_index(
            w->path, struct waiting_part, i);
        JsonObject *o = json_object_new();

        add_task(o, "task", &p->task);
        btrail_json_add(o, "s:state", waiting_state_name(waiting_part_state(p)),
                        NULL);
        json_object_set_int_member(o, "begin_ns", since_start(why, p->begin));
        json_object_set_int_member(o, "end_ns", since_start(why, p->end));
        btrail_json_add(o, "U:ns", p->ns, "U:paused_ns", p->paused,
                        "u:depth", p->depth, "a:stack", stack_json(p->stack),
                        "a:functions", functions_json(p->functions),
                        "a:instead", users_json(p->instead), NULL);
        if (p->waker.known) {
            JsonObject *by = json_object_new();

            add_task(by, "task", &p->waker.task);
            add_string(by, "interrupt", p->waker.interrupt);
            btrail_json_add(o, "o:woken_by", by, NULL);
        } else {
            json_object_set_null_member(o, "woken_by");
        }
        json_array_add_object_element(a, o);
    }
    return a;
}

static void add_guest_time(const struct why *why,
                           const struct waiting_moment *m, JsonObject *o)
{
    struct why_guest_time time;
    JsonArray *range;

    if (!why_guest_time(why, m, &time)) {
        json_object_set_null_member(o, "guest_ns");
        return;
    }
    range = json_array_new();
    json_array_add_int_element(range, MIN(time.from, G_MAXINT64));
    if (time.to == UINT64_MAX) {
        json_array_add_null_element(range);
    } else {
        json_array_add_int_element(range, MIN(time.to, G_MAXINT64));
    }
    btrail_json_add(o, "a:guest_ns", range, NULL);
}

static JsonObject *moment_json(const struct why *why,
                               const struct waiting_moment *m)
{
    JsonObject *o = btrail_json_new("u:vcpu", m->vcpu, NULL);

    if (m->index == THREAD_NO_INDEX) {
        json_object_set_null_member(o, "index");
    } else {
        btrail_json_add(o, "U:index", m->index, NULL);
    }
    json_object_set_int_member(o, "time_ns", since_start(why, m->time));
    if (why_is_replay(why)) {
        uint64_t icount = why_icount(why, m);

        if (icount == BTRAIL_NO_ICOUNT) {
            json_object_set_null_member(o, "icount");
        } else {
            btrail_json_add(o, "U:icount", icount, NULL);
        }
        add_guest_time(why, m, o);
    }
    return o;
}

static JsonObject *span_json(const struct why *why,
                             const struct waiting_span *w)
{
    JsonObject *o = btrail_json_new("o:begin", moment_json(why, &w->begin),
                                    "o:end", moment_json(why, &w->end), NULL);

    add_task(o, "task", &w->task);
    for (unsigned c = 0; c < WHY_COMPONENTS; c++) {
        g_autofree char *name = g_strdup_printf("U:%s_ns",
                                                why_component_name(c));

        btrail_json_add(o, name, why_component(w, c), NULL);
    }
    btrail_json_add(o, "a:functions", functions_json(w->functions),
                    "b:sampled", w->sampled, "a:instead",
                    users_json(w->instead), "a:waits", waits_json(why, w),
                    "U:other_waits", w->others, "U:other_waits_ns",
                    w->others_ns, "a:path", path_json(why, w), "U:cut_ns",
                    w->cut, NULL);
    return o;
}

static JsonObject *ordinary_json(const struct why_ordinary *o)
{
    JsonObject *json = btrail_json_new("U:spans", o->all, "U:compared", o->n,
                                       NULL);

    for (unsigned c = 0; o->n && c < WHY_COMPONENTS; c++) {
        g_autofree char *name = g_strdup_printf("U:%s_ns",
                                                why_component_name(c));

        btrail_json_add(json, name, o->medians[c], NULL);
    }
    return json;
}

void why_print_json(const struct why *why)
{
    JsonArray *spans = json_array_new();
    JsonObject *root = btrail_json_new("s:trace", why->in.trace.path,
                                       "b:pauses_known", why->pauses_known,
                                       "b:replay", why_is_replay(why), NULL);

    for (guint i = 0; i < why->slow->len; i++) {
        json_array_add_object_element(spans, span_json(
            why, &g_array_index(why->slow, struct waiting_span, i)));
    }
    btrail_json_add(root, "a:spans", spans, "o:ordinary",
                    ordinary_json(&why->ordinary), "U:left_out",
                    why->left_out, NULL);
    cli_print_json(root);
}
