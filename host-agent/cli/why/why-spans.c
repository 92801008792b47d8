/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail why: the spans that it is asked about
 */

#include <inttypes.h>
#include <string.h>

#include "cli/why/why.h"
#include "find/clock-order.h"
#include "find/record-reader.h"
#include "util/parse.h"
#include "util/search.h"

/* How far back a wait is looked for at first, and by what factor more */
#define BACK        UINT64_C(100000000)
#define FURTHER     16

/* So many are kept; of more, the shorter half is not. */
#define MAX_SPANS   (1u << 20)

static uint64_t unpaused(const struct why *why, const struct why_span *s)
{
    uint64_t ns = s->end.time - MIN(s->begin.time, s->end.time);

    /* A replay's guest does not notice pauses. */
    return why->clock ? replay_clock_between(why->clock, s->begin.time,
                                            s->end.time) :
           ns - MIN(ns, s->paused);
}

static gint by_duration(gconstpointer a, gconstpointer b, gpointer opaque)
{
    const struct why_span *x = a, *y = b;

    return BTRAIL_COMPARE(unpaused(opaque, y), unpaused(opaque, x)) ?:
           BTRAIL_COMPARE(x->begin.time, y->begin.time);
}

void why_sort_spans(struct why *why)
{
    g_array_sort_with_data(why->spans, by_duration, why);
}

void why_clear_spans(struct why *why)
{
    g_array_set_size(why->spans, 0);
    why->left_out = 0;
}

void why_add_span(struct why *why, const struct why_span *s)
{
    if (why->spans->len == MAX_SPANS) {
        why_sort_spans(why);
        g_array_set_size(why->spans, MAX_SPANS / 2);
        why->left_out += MAX_SPANS / 2;
    }
    g_array_append_val(why->spans, *s);
}

/*
 * Spans from A to B
 */

static struct waiting_moment moment_of(const struct span_point *p)
{
    return (struct waiting_moment) { p->vcpu, p->index, p->time };
}

static bool find_between(struct why *why)
{
    const struct span *span;
    struct between *b = &why->between;

    if (!between_read(b, &why->in, true, true)) {
        return false;
    }
    for (size_t i = 0; (span = spans_get(b->spans, i)); i++) {
        if (span->end) {
            why_add_span(why, &(struct why_span) {
                moment_of(span->begin), moment_of(span->end), span->end->task,
                span->end->kernel, span->paused,
            });
        }
    }
    if (!why->spans->len) {
        cli_error("%s: there is no span from '%s' to '%s' that ends",
                  why->in.trace.path, b->texts[0], b->texts[1]);
    }
    return why->spans->len;
}

/*
 * The wait before a place
 */

static struct thread_states *read_states(const struct why *why, uint64_t begin,
                                         uint64_t end)
{
    const struct thread_states_options options = {
        .begin = begin, .end = end, .tick = why->in.trace.tick,
        .whole = analysis_tells_off_cpu(&why->in),
    };
    struct thread_states *states;
    int ret = thread_states_read(&states, why->in.trace.trace, &options);

    if (ret) {
        analysis_failed(&why->in, ret);
        return NULL;
    }
    return states;
}

/* When the last wait of a thread before a time began, if it is in its parts */
static bool last_wait(const struct states_thread *t, uint64_t time,
                      uint64_t *begin)
{
    unsigned i = thread_part_before(t, time);

    while (i && thread_part(t, i)->state == THREAD_RUNNING) {
        i--;
    }
    while (i && thread_part(t, i - 1)->state != THREAD_RUNNING) {
        i--;
    }
    *begin = thread_part(t, i)->begin;
    return i;
}

/* Adds the span from where the thread of a moment began to wait before. */
static bool add_last_wait(struct why *why, const struct moment *at,
                          uint64_t time)
{
    const uint64_t start = why->in.trace.start;
    uint64_t back = BACK, from, begin;
    bool found = false, read = true;

    do {
        const struct states_thread *t;
        struct thread_states *states;

        from = time - MIN(time, back);
        states = read_states(why, from, time);
        read = states;
        t = read ? thread_states_find(states, &at->task, &at->kernel,
                                      at->vcpu) : NULL;
        found = t && last_wait(t, time, &begin);
        thread_states_free(states);
        back = back > UINT64_MAX / FURTHER ? UINT64_MAX : back * FURTHER;
    } while (read && !found && from > start);
    if (found) {
        why_add_span(why, &(struct why_span) {
            { at->vcpu, THREAD_NO_INDEX, begin },
            { at->vcpu, at->index, time }, at->task, at->kernel,
        });
    } else if (read) {
        cli_error("%s: the thread at '%s' is not known to have waited before",
                  why->in.trace.path, why->what);
    }
    return found;
}

static bool find_place(struct why *why, struct find_place *place)
{
    g_autoptr(GError) error = NULL;
    struct clock_order *order;
    struct moment at;
    uint64_t time;

    if (!find_moment_of(&why->in, place, &at, &error)) {
        cli_error("%s: %s", why->in.trace.path, error->message);
        return false;
    }
    if (!at.task.known || !at.task.tid) {
        cli_error("%s: nobody knows which thread runs at '%s', or it is an "
                  "idle task", why->in.trace.path, why->what);
        return false;
    }
    order = clock_order_new(why->in.trace.trace, why->in.trace.tick);
    time = clock_order_time(order, &at);
    clock_order_free(order);
    return add_last_wait(why, &at, time);
}

static bool find_what(struct why *why)
{
    g_autoptr(GError) error = NULL;
    struct find_event what;
    bool ok = find_event_parse(why->what, &what, &error);

    if (!ok) {
        cli_error("%s", error->message);
    } else if (what.kind == FIND_EVENT_FUNCTION) {
        ok = why_find_calls(why, &what.place);
    } else if (what.kind == FIND_EVENT_SYSCALL && what.name) {
        ok = why_find_syscalls(why, what.name);
    } else if (what.kind == FIND_EVENT_PLACE ||
               what.kind == FIND_EVENT_MARK) {
        ok = find_place(why, &what.place);
    } else {
        cli_error("'%s' is no function, system call or place; see --between",
                  why->what);
        ok = false;
    }
    find_event_clear(&what);
    return ok;
}

/*
 * Lives of processes
 */

static uint64_t window_edge(const struct window *w, uint64_t after)
{
    return after > UINT64_MAX - w->start ? UINT64_MAX : w->start + after;
}

/* The states of the part of the trace that --time chooses */
static struct thread_states *states_of_window(const struct why *why)
{
    const struct window *w = &why->in.window;

    return read_states(why, !w->begin ? 0 : window_edge(w, w->begin),
                       window_edge(w, w->end));
}

/* The first thread that is the first one of its process, by name or number */
static const struct states_thread *
find_thread(const struct thread_states *states, const char *name)
{
    const GPtrArray *all = thread_states_all(states);
    uint64_t pid = 0;
    bool by_number = parse_text_number(name, NULL, &pid);

    for (guint i = 0; i < all->len; i++) {
        const struct states_thread *t = all->pdata[i];

        if (t->task.known && t->task.tid && t->task.tid == t->task.pid &&
            (by_number ? t->task.pid == pid : !strcmp(t->task.name, name))) {
            return t;
        }
    }
    return NULL;
}

/* From where it is first seen, or woken, to where it ends */
static struct why_span life_of(const struct thread_states *states,
                               const struct states_thread *t)
{
    unsigned first = 0, last = t->parts->len - 1;
    struct why_span s = {
        .task = t->task, .kernel = { .known = true, .number = t->kernel },
    };
    const struct thread_part *p;

    while (first < last && thread_part(t, first)->state == THREAD_UNKNOWN) {
        first++;
    }
    p = thread_part(t, first);
    s.begin = (struct waiting_moment) { 0, THREAD_NO_INDEX, p->begin };
    s.end = (struct waiting_moment) {
        0, THREAD_NO_INDEX, thread_part_end(states, t, last),
    };
    p = thread_part(t, last);
    if (p->state == THREAD_DEAD || p->state == THREAD_UNKNOWN) {
        s.end = (struct waiting_moment) { p->vcpu, p->index, p->begin };
    }
    s.end.time = MAX(s.begin.time, s.end.time);
    return s;
}

static bool find_life(struct why *why)
{
    struct thread_states *states = states_of_window(why);
    const struct states_thread *t = states ? find_thread(states,
                                                         why->process) : NULL;

    if (t) {
        const struct why_span s = life_of(states, t);

        why_add_span(why, &s);
    } else if (states) {
        cli_error("%s: no process '%s' is seen to run", why->in.trace.path,
                  why->process);
    }
    thread_states_free(states);
    return t;
}

/*
 * The boot
 */

/* Searches records [@begin, @end) of a vCPU for one that goes to a program. */
static bool find_user(const struct why *why, unsigned vcpu, uint64_t begin,
                      uint64_t end, uint64_t *index)
{
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    bool found = false;

    if (btrail_cursor_open(&cursor, why->in.trace.trace, vcpu, 0)) {
        return false;
    }
    if (!btrail_cursor_seek(cursor, begin)) {
        while (!found && !btrail_cursor_next(cursor, &b) && b.index < end) {
            for (size_t i = 0; !found && i < b.count; i++) {
                found = b.records[i].to < ADDRESS_SHARED &&
                        b.index + i < end;
                *index = b.index + i;
            }
        }
    }
    btrail_cursor_close(cursor);
    return found;
}

/* Where the first process is a program for the first time */
static bool find_init(const struct why *why, const struct states_thread *t,
                      struct waiting_moment *found)
{
    for (unsigned i = 0; i < t->parts->len; i++) {
        const struct thread_part *p = thread_part(t, i);
        uint64_t index;

        if (p->state == THREAD_RUNNING &&
            find_user(why, p->vcpu, p->index, p->end_index, &index)) {
            struct moment at = { .vcpu = p->vcpu, .index = index,
                                 .time.host = p->begin };
            struct clock_order *order = clock_order_new(why->in.trace.trace,
                                                        why->in.trace.tick);

            *found = (struct waiting_moment) {
                p->vcpu, index, clock_order_time(order, &at),
            };
            clock_order_free(order);
            return true;
        }
    }
    return false;
}

/* Is it seen to begin?  A trace can begin long after the boot. */
static bool begins(const struct thread_states *states,
                   const struct states_thread *t)
{
    for (unsigned i = 0; i < t->parts->len; i++) {
        const struct thread_wake *wake = thread_states_wake(
            states, thread_part(t, i)->wake);

        if (wake && wake->is_new) {
            return true;
        }
    }
    return false;
}

/* Where a CPU begins after power-on, which is a jump into the firmware (SDM
 * volume 3, "First Instruction Executed") */
#define RESET       UINT64_C(0xfffffff0)

/* Is this the first record since power-on? */
static bool is_reset(const struct btrail_trace *trace,
                     const struct waiting_moment *first)
{
    struct visit visit;

    return !record_read(trace, first->vcpu, first->index, &visit) &&
           visit.record.from == RESET;
}

/* The first part of a thread that runs; NULL if there is none */
static const struct thread_part *first_run(const struct states_thread *t)
{
    for (unsigned i = 0; i < t->parts->len; i++) {
        if (thread_part(t, i)->state == THREAD_RUNNING) {
            return thread_part(t, i);
        }
    }
    return NULL;
}

/*
 * Has a thread been no program before it is first seen to run?  Process 1 then
 * still has the name of the task that has begun it, Linux's init_task.
 */
static bool is_fresh(const struct btrail_trace *trace,
                     const struct states_thread *t)
{
    const struct thread_part *p = first_run(t);
    struct visit visit;
    const char *name = visit.at.task.name;

    return p && !record_read(trace, p->vcpu, p->index, &visit) &&
           visit.at.task.known && visit.at.task.tid == t->task.tid &&
           (!strcmp(name, "swapper") || g_str_has_prefix(name, "swapper/"));
}

static struct waiting_moment first_moment(const struct btrail_trace *trace)
{
    struct waiting_moment first = { 0, 0, UINT64_MAX };
    struct btrail_stream_info info;

    for (unsigned i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        if (info.first_time && info.first_time < first.time) {
            first = (struct waiting_moment) {
                info.vcpu, info.first_index, info.first_time,
            };
        }
    }
    return first;
}

/*
 * Does the trace have all that process 1 did before it became a program?  It is
 * seen to begin, or the trace begins at power-on and names tasks before that:
 * the host can be late to find where a kernel keeps them.
 */
static bool has_boot(struct why *why, const struct thread_states *states,
                     const struct states_thread *t,
                     const struct waiting_moment *first)
{
    if (begins(states, t)) {
        return true;
    }
    if (!is_reset(why->in.trace.trace, first) ||
        !is_fresh(why->in.trace.trace, t)) {
        return false;
    }
    why->named = first_run(t)->begin;
    return true;
}

static bool find_boot(struct why *why)
{
    struct thread_states *states = states_of_window(why);
    const struct states_thread *t = states ? find_thread(states, "1") : NULL;
    struct why_span s = { .begin = first_moment(why->in.trace.trace) };
    bool found = t && has_boot(why, states, t, &s.begin) &&
                 find_init(why, t, &s.end) && s.begin.time < s.end.time;

    if (found) {
        s.task = t->task;
        s.kernel = (struct btrail_kernel) {
            .known = true, .number = t->kernel,
        };
        why_add_span(why, &s);
    } else if (states) {
        cli_error("%s: the trace does not have the boot up to the first record "
                  "of init", why->in.trace.path);
    }
    thread_states_free(states);
    return found;
}

bool why_find_spans(struct why *why)
{
    return why->between.given ? find_between(why) :
           why->syscall ? why_find_syscalls(why, why->syscall) :
           why->process ? find_life(why) :
           why->boot ? find_boot(why) : find_what(why);
}
