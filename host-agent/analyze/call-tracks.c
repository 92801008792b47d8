/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls as they began and ended: see call-tracks.h
 */

#include <string.h>

#include "analyze/call-tracks.h"
#include "util/closest.h"
#include "util/hash.h"

/*
 * @last:   that a vCPU was on; NULL: its own, or none
 * @stacks: number -> struct call_track
 * @gaps:   in the trace, up to now
 */
struct call_tracks {
    struct call_tracks_options options;
    struct call_track own[BTRAIL_MAX_VCPUS];    /* of vCPUs */
    struct cpu_threads *threads;        /* of struct call_track */
    struct call_track *last[BTRAIL_MAX_VCPUS];
    GHashTable *stacks;
    uint64_t gaps;
    GHashTable *offered;        /* functions, to @closest */
    struct closest closest;
};

static void clear_track(gpointer p)
{
    struct call_track *t = p;

    g_clear_pointer(&t->open, g_array_unref);
}

static void free_track(gpointer p)
{
    clear_track(p);
    g_free(p);
}

struct call_tracks *call_tracks_new(const struct call_tracks_options *options)
{
    struct call_tracks *c = g_new0(struct call_tracks, 1);

    c->options = *options;
    c->threads = cpu_threads_new(sizeof(struct call_track), clear_track);
    cpu_threads_set_pauses(c->threads, options->pauses);
    c->stacks = g_hash_table_new_full(btrail_int64_hash, g_int64_equal, NULL,
                                      free_track);
    c->offered = g_hash_table_new(NULL, NULL);
    c->closest = closest_to(options->function ?: "");
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        c->own[i].number = i + 1;
    }
    return c;
}

void call_tracks_free(struct call_tracks *c)
{
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        clear_track(&c->own[i]);
    }
    g_hash_table_unref(c->stacks);
    cpu_threads_free(c->threads);
    g_hash_table_unref(c->offered);
    g_free(c);
}

/* The track of the thread that a node is of; NULL if it has none. */
static struct call_track *thread_track(struct call_tracks *c, unsigned vcpu,
                                       uint64_t time,
                                       const struct stack_node *n)
{
    const struct process *p = n ? n->process : NULL;
    struct call_track *t = cpu_threads_run(c->threads, vcpu, time, p);

    if (t && !t->thread) {
        t->number = CALL_TRACKS_THREADS + t->of.number;
        t->thread = p;
        t->use = c->options.use ? cpu_use_thread(c->options.use, p) : NULL;
    }
    return t;
}

static struct call_track *new_stack(struct call_tracks *c, uint64_t stack,
                                    struct call_track *around)
{
    struct call_track *t = g_new0(struct call_track, 1);

    t->number = CALL_TRACKS_STACKS + stack;
    t->thread = around->thread;
    t->stack = stack;
    t->around = around;
    t->gaps = c->gaps;
    g_hash_table_insert(c->stacks, &t->stack, t);
    return t;
}

/* The track of a stack that the thread of a node runs, or of the thread. */
static struct call_track *track_at(struct call_tracks *c, unsigned vcpu,
                                   uint64_t time, const struct stack_node *n,
                                   uint64_t stack)
{
    struct call_track *thread = thread_track(c, vcpu, time, n);
    struct call_track *last = c->last[vcpu];

    if (!thread || !stack) {
        return thread;
    }
    return last && last->stack == stack ? last :
           g_hash_table_lookup(c->stacks, &stack) ?:
           new_stack(c, stack, thread);
}

/* May the user know of a slice? */
static bool is_shown(const struct call_tracks *c, const struct call_track *t,
                     unsigned i)
{
    return (i || !t->thread) &&
           (!c->options.function || call_track_slice(t, i)->wanted);
}

/* Reports all slices before slice @n that have begun. */
static void write_begun(struct call_tracks *c, struct call_track *t,
                        unsigned n)
{
    unsigned first = n;

    while (first && !call_track_slice(t, first - 1)->written) {
        first--;
    }
    for (; first < n; first++) {
        if (is_shown(c, t, first)) {
            c->options.ops->begin(c->options.opaque, t, first);
        }
        call_track_slice(t, first)->written = true;
    }
}

/* Reports at once slices before slice @n that have others in them. */
static void write_promptly(struct call_tracks *c, struct call_track *t,
                           unsigned n)
{
    if (c->options.prompt && !c->options.shortest) {
        while (n && !call_track_slice(t, n - 1)->chosen) {
            n--;
        }
        write_begun(c, t, n);
    }
}

/*
 * Ends the last slice.  If it is long enough, so are the slices around it,
 * whose beginnings come first.  So beginnings of one time are in order.
 */
static void end_slice(struct call_tracks *c, struct call_track *t,
                      uint64_t time, bool cut)
{
    const struct call_tracks_options *o = &c->options;
    unsigned i = t->open->len - 1;
    const struct call_slice *s = call_track_slice(t, i);
    bool enough = s->chosen && time - s->begin >= o->shortest;

    cut |= s->missed;
    if (is_shown(c, t, i) && (s->written || enough)) {
        write_begun(c, t, i);
        (s->written ? o->ops->end : o->ops->whole)(o->opaque, t, i, time, cut);
    }
    g_array_set_size(t->open, i);
}

uint64_t call_tracks_paused(const struct call_tracks *c,
                            const struct call_track *t, unsigned i,
                            uint64_t time)
{
    const struct call_slice *s = call_track_slice(t, i);
    const struct pauses *p = c->options.pauses;
    uint64_t alone = 0;

    if (!p) {
        return 0;
    }
    if (!t->thread) {
        alone = pauses_vcpu_alone(p, t->number - 1, s->begin, time);
    } else if (!t->stack) {
        alone = t->of.paused - s->paused;
    }
    return MIN(time - s->begin,
               alone + pauses_whole_guest(p, s->begin, time));
}

/* Is this a call of the wanted function? */
static bool is_wanted(struct call_tracks *c, const struct function *f)
{
    const char *wanted = c->options.function;

    if (!wanted || !f || !function_is(f, wanted)) {
        if (wanted && f && c->closest.distance &&
            g_hash_table_add(c->offered, (gpointer)f)) {
            function_offer(f, &c->closest);
        }
        return false;
    }
    c->closest.found = f->name;
    c->closest.distance = 0;
    return true;
}

/* Is the last slice the deepest that is shown? */
static bool is_deepest(const struct call_tracks *c, const struct call_track *t)
{
    unsigned n = 0, i = t->open->len;

    if (!c->options.depth) {
        return false;
    }
    while (i > 1 && n < c->options.depth &&
           (!c->options.function || call_track_slice(t, i - 1)->wanted)) {
        i--;
        n++;
    }
    return n == c->options.depth;
}

/* @missed: records before this are missing */
static void begin_slices(struct call_tracks *c, struct call_track *t,
                         unsigned vcpu, const struct stack_node *n,
                         uint64_t time, bool missed)
{
    const struct stack_node *path[STACK_MAX_DEPTH + 2];
    /* The program begins a stack with the call of a function. */
    bool late = missed || (!t->open->len && !(t->stack && n && n->depth <= 1));
    unsigned depth = 0;

    for (; n && n->depth >= t->open->len && depth < G_N_ELEMENTS(path);
         n = n->parent) {
        path[depth++] = n;
    }
    while (depth-- && !is_deepest(c, t)) {
        const struct call_slice *around = t->open->len ?
            call_track_slice(t, t->open->len - 1) : NULL;
        const struct call_slice s = {
            .process = path[depth]->process,
            .function = path[depth]->function, .begin = time,
            .paused = t->of.paused, .vcpu = vcpu,
            .late = depth || late, .node = path[depth],
            .wanted = is_wanted(c, path[depth]->function) ||
                      (around && around->wanted),
            .waited = cpu_use_mark(t->use),
        };

        g_array_append_val(t->open, s);
    }
    if (t->open->len) {
        write_promptly(c, t, t->open->len - 1);
    }
}

/* Finds the nodes of slices again, as far as they are on the path to @to. */
static void find_nodes(struct call_track *t, const struct stack_node *to)
{
    const struct stack_node *n = to;

    for (; n; n = n->parent) {
        if (n->depth < t->open->len) {
            struct call_slice *s = call_track_slice(t, n->depth);

            s->node = s->function == n->function &&
                      (s->process == n->process || t->stack) ? n : NULL;
        }
    }
    for (unsigned i = 1; i < t->open->len; i++) {
        if (!call_track_slice(t, i - 1)->node) {
            call_track_slice(t, i)->node = NULL;
        }
    }
}

/* They were spilled, or another thread of the process runs the stack. */
static bool lacks_nodes(const struct call_track *t,
                        const struct stack_node *to)
{
    const struct stack_node *root = t->open->len ?
                                    call_track_slice(t, 0)->node : NULL;

    return t->open->len &&
           (!root || (t->stack && to && root->process != to->process));
}

/* The number of slices that are on the path to @to: the first ones */
static unsigned shared_slices(const struct call_track *t,
                              const struct stack_node *to)
{
    unsigned n = t->open->len;

    while (to && to->depth >= n) {
        to = to->parent;
    }
    n = to ? to->depth + 1 : 0;
    for (; n && to; n--, to = to->parent) {
        if (call_track_slice(t, n - 1)->node == to) {
            break;
        }
    }
    return to ? n : 0;
}

/* A track continues with another node, or with none. */
static void move_track(struct call_tracks *c, struct call_track *t,
                       unsigned vcpu, uint64_t time,
                       const struct stack_node *to)
{
    bool missed = t->stack ? t->gaps != c->gaps :
                  t->thread && cpu_threads_lost(c->threads, t);
    unsigned shared;

    /* Two vCPUs can run a thread in another order than their clocks say. */
    t->time = time = MAX(time, t->time);
    if (!t->open) {
        t->open = g_array_new(FALSE, FALSE, sizeof(struct call_slice));
    }
    for (unsigned i = 0; missed && i < t->open->len; i++) {
        call_track_slice(t, i)->missed = true;
    }
    t->gaps = c->gaps;
    cpu_threads_found(c->threads, t);
    if (lacks_nodes(t, to)) {
        find_nodes(t, to);
    }
    shared = shared_slices(t, to);
    while (t->open->len > shared) {
        end_slice(c, t, time, !shared);
    }
    if (to && t->thread) {
        t->thread = to->process;
    }
    begin_slices(c, t, vcpu, to, time, missed);
}

static const struct stack_node *root_of(const struct stack_node *n)
{
    while (n->parent) {
        n = n->parent;
    }
    return n;
}

static void on_gap(void *opaque, unsigned vcpu)
{
    struct call_tracks *c = opaque;

    cpu_threads_gap(c->threads, vcpu);
    if (c->options.use) {
        cpu_use_gap(c->options.use, vcpu);
    }
    c->last[vcpu] = NULL;
    c->gaps++;
}

/* A stack has ended, which may be where a vCPU was. */
static void end_stack(struct call_tracks *c, uint64_t stack, unsigned vcpu,
                      uint64_t time)
{
    struct call_track *t = g_hash_table_lookup(c->stacks, &stack);

    if (t) {
        move_track(c, t, vcpu, time, NULL);
        c->last[vcpu] = NULL;
        g_hash_table_remove(c->stacks, &stack);
    }
}

static void on_moved(void *opaque, unsigned vcpu, uint64_t time,
                     const struct stack_node *from,
                     const struct stack_node *to, uint64_t stack)
{
    struct call_tracks *c = opaque;
    struct call_track *own = &c->own[vcpu];
    struct call_track *last = c->last[vcpu], *t;

    if (!time) {
        return;
    }
    cpu_threads_time(c->threads, vcpu, time);
    if (stack && !to) {
        end_stack(c, stack, vcpu, time);
        return;
    }
    t = track_at(c, vcpu, time, to, stack);
    if (last && last != t && last->open) {
        /* The call that it is in continues later. */
        write_promptly(c, last, last->open->len);
    }
    c->last[vcpu] = t;
    if (t) {
        move_track(c, t, vcpu, time, to);
        to = root_of(to);
    }
    if (!own->open || !from || !t || root_of(from) != to) {
        move_track(c, own, vcpu, time, to);
    }
}

static void choose_open(struct call_track *t)
{
    for (unsigned i = t->open ? t->open->len : 0; i; i--) {
        struct call_slice *s = call_track_slice(t, i - 1);

        if (s->chosen) {
            break;
        }
        s->chosen = true;
    }
}

/* Records count, so the open slices are shown. */
static void on_spent(void *opaque, unsigned vcpu, uint64_t time,
                     const struct stack_node *node, uint64_t stack,
                     uint64_t records)
{
    struct call_tracks *c = opaque;
    struct call_track *own = &c->own[vcpu];
    struct call_track *thread = track_at(c, vcpu, time, node, stack);

    cpu_threads_time(c->threads, vcpu, time);
    if (!own->open || (thread && !(thread->open && thread->open->len))) {
        on_moved(opaque, vcpu, time, NULL, node, stack);
    }
    choose_open(own);
    if (thread) {
        choose_open(thread);
        thread->time = MAX(thread->time, time);
    }
}

static void forget_nodes(const struct call_track *t)
{
    for (unsigned i = 0; t->open && i < t->open->len; i++) {
        call_track_slice(t, i)->node = NULL;
    }
}

static void on_spill(void *opaque, const struct call_tree *tree)
{
    struct call_tracks *c = opaque;
    g_autoptr(GList) all = cpu_threads_all(c->threads);
    GHashTableIter stacks;
    gpointer track;

    for (const GList *l = all; l; l = l->next) {
        forget_nodes(l->data);
    }
    g_hash_table_iter_init(&stacks, c->stacks);
    while (g_hash_table_iter_next(&stacks, NULL, &track)) {
        forget_nodes(track);
    }
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        forget_nodes(&c->own[i]);
    }
}

static void on_runs(void *opaque, unsigned vcpu, const struct process *process,
                    uint64_t since, uint64_t until)
{
    struct call_tracks *c = opaque;

    if (c->options.use) {
        cpu_use_runs(c->options.use, vcpu, process, since, until);
    }
}

const struct call_tree_ops call_tracks_tree_ops = {
    on_moved, on_spent, on_gap, on_spill, on_runs,
};

static void end_track(struct call_tracks *c, struct call_track *t,
                      uint64_t end)
{
    while (t->open && t->open->len) {
        end_slice(c, t, MAX(end, t->time), true);
    }
}

static uint64_t last_time(const struct btrail_trace *trace,
                          const struct window *window, unsigned vcpu)
{
    struct btrail_stream_info info;
    uint64_t time = 0;
    unsigned i;

    for (i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        time = info.vcpu == vcpu ? info.last_time : time;
    }
    return MIN(time, window->end == UINT64_MAX ? UINT64_MAX :
               window->start + window->end);
}

static gint compare_numbers(gconstpointer a, gconstpointer b)
{
    const struct call_track *x = a, *y = b;

    return x->number < y->number ? -1 : x->number > y->number;
}

void call_tracks_end(struct call_tracks *c, const struct btrail_trace *trace,
                     const struct window *window)
{
    g_autoptr(GList) all = cpu_threads_all(c->threads);
    g_autoptr(GList) stacks = g_hash_table_get_values(c->stacks);

    stacks = g_list_sort(stacks, compare_numbers);
    for (const GList *l = stacks; l; l = l->next) {
        end_track(c, l->data, 0);
    }
    for (const GList *l = all; l; l = l->next) {
        end_track(c, l->data, 0);
    }
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        struct call_track *own = &c->own[i];

        end_track(c, own, own->open ? last_time(trace, window, i) : 0);
    }
}

struct call_track *call_tracks_find(struct call_tracks *c, unsigned vcpu,
                                    const struct btrail_task *task)
{
    struct call_track *t = cpu_threads_find(c->threads, task);

    return t ?: &c->own[vcpu];
}

const struct closest *call_tracks_closest(const struct call_tracks *c)
{
    return &c->closest;
}
