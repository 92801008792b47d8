/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Differences of two traces: see diff.h
 */

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "analyze/diff.h"
#include "lib/agent/budget.h"
#include "lib/agent/trace-files.h"
#include "util/hash.h"

/*
 * How many edges of a trace may wait to be compared before the thread that
 * reads it waits, too, unless the other trace has nothing to compare them with
 */
#define MAX_WAITING     (1u << 24)

/* With this many, those of the task that has most are given up: the memory that
 * traces are decoded in counts as kept edges, as far as there are more than the
 * threads that read wait for. */
#define MAX_KEPT        (UINT64_C(1) << 29)
#define LEAST_KEPT      MAX_WAITING

/* Differences with a group of their own, in all tasks */
#define MAX_GROUPS      (1u << 15)

/* Edges before a difference that are searched for those to show */
#define LOOK_BACK       256

/* Records between two calls of progress() */
#define PROGRESS_STEP   (1u << 22)

/* Blocks that were read and not yet compared; under the lock */
struct diff_incoming {
    GQueue blocks[DIFF_SIDES];
    uint64_t waiting[DIFF_SIDES];
    bool ready;
};

struct diff_state;

struct diff_stream {
    struct diff_state *run;
    unsigned number;
    GThread *thread;
    struct diff_reader_options options;
    struct diff_reader_result result;
    uint64_t waiting;           /* edges; under the lock */
    uint64_t read;              /* the same */
    bool done;                  /* the same */
    int ret;
    int error;
};

struct diff_state {
    const struct diff_options *options;
    struct diff *diff;
    struct diff_stream side[DIFF_SIDES];
    gint stop;
    GMutex lock;                /* of all below */
    GCond changed;
    GQueue ready;               /* of struct diff_pair *, with new blocks */
    bool idle;                  /* there is nothing to compare */
    /* The rest is of the thread that compares. */
    GHashTable *groups;         /* the set of struct grouped */
    GHashTable *returns[DIFF_SIDES];
    uint64_t all;
    uint64_t told;
};

/* A group of a task, by what it has in common */
struct grouped {
    const struct diff_pair *pair;
    const struct diff_function *function;
    uint32_t edge[DIFF_SIDES];
    struct diff_group *group;
};

static guint hash_grouped(gconstpointer p)
{
    const struct grouped *g = p;

    return btrail_hash3((uintptr_t)g->pair, (uintptr_t)g->function,
                        (uint64_t)g->edge[0] << 32 | g->edge[1]) >> 32;
}

static gboolean equal_grouped(gconstpointer p, gconstpointer q)
{
    const struct grouped *a = p, *b = q;

    return a->pair == b->pair && a->function == b->function &&
           a->edge[0] == b->edge[0] && a->edge[1] == b->edge[1];
}

bool diff_chooses(const struct diff_options *options,
                  const struct diff_task *task)
{
    g_autofree char *pid = g_strdup_printf("%" PRId64, task->pid);

    if (task->kernel && !options->kernel) {
        return false;
    }
    if (!options->process || !strcmp(options->process, pid)) {
        return true;
    }
    for (unsigned i = 0; i < task->names->len; i++) {
        if (!strcmp(task->names->pdata[i], options->process)) {
            return true;
        }
    }
    return false;
}

/*
 * Reading
 */

static bool is_chosen(void *opaque, const struct diff_task *task)
{
    const struct diff_stream *s = opaque;

    return task->user || diff_chooses(s->run->options, task);
}

static bool is_wanted(void *opaque, const struct diff_task *task)
{
    return task->user;
}

static void take_block(void *opaque, struct diff_task *task,
                       struct diff_block *block)
{
    struct diff_stream *s = opaque;
    struct diff_state *r = s->run;
    struct diff_pair *pair = task->user;
    struct diff_incoming *in = pair->incoming;

    g_mutex_lock(&r->lock);
    g_queue_push_tail(&in->blocks[s->number], block);
    s->waiting += block->n;
    s->read += block->n;
    if (!in->ready) {
        in->ready = true;
        g_queue_push_tail(&r->ready, pair);
    }
    if (r->idle) {
        r->idle = false;
        g_cond_broadcast(&r->changed);
    }
    while (s->waiting > MAX_WAITING && !r->idle &&
           !g_atomic_int_get(&r->stop)) {
        g_cond_wait(&r->changed, &r->lock);
    }
    g_mutex_unlock(&r->lock);
}

static const struct diff_reader_ops reader_ops = {
    .chosen = is_chosen, .wanted = is_wanted, .block = take_block,
};

static gpointer read_side(gpointer data)
{
    struct diff_stream *s = data;
    struct diff_state *r = s->run;
    int ret = diff_reader_read(&s->result, &s->options, &r->stop);

    g_mutex_lock(&r->lock);
    s->ret = ret;
    s->error = errno;
    s->done = true;
    if (ret) {
        g_atomic_int_set(&r->stop, 1);
    }
    g_cond_broadcast(&r->changed);
    g_mutex_unlock(&r->lock);
    return NULL;
}

/*
 * Comparing
 */

static const struct diff_edge *edge_of(const struct diff_align *a,
                                       uint32_t number)
{
    return diff_edges_get(a->edges, number);
}

/* The edge of a side at a position; DIFF_EDGE_GAP if there is none */
static uint32_t edge_at(struct diff_align *a, unsigned side, uint64_t at)
{
    size_t n;
    const uint32_t *e = diff_sequence_at(&a->sequence[side], at, &n);

    return e ? *e : DIFF_EDGE_GAP;
}

/* The edge of a side before the difference */
static const struct diff_edge *edge_before(struct diff_align *a, unsigned side,
                                           const struct diff_difference *d)
{
    return edge_of(a, d->at[side] > a->since[side] ?
                   edge_at(a, side, d->at[side] - 1) : DIFF_EDGE_GAP);
}

/* Does it stand for an indirect branch or a return of whatever goes to it? */
static bool is_thunk(const struct diff_function *f)
{
    return g_str_has_prefix(f->name, "__x86_indirect_") ||
           g_str_has_suffix(f->name, "_return_thunk");
}

/* The function in which both sides diverge */
static const struct diff_function *function_at(struct diff_align *a,
                                               const struct diff_difference *d)
{
    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        const struct diff_edge *e = edge_of(a, d->edge[side]);

        if (d->edge[side] != DIFF_EDGE_GAP && e->kind != STACK_EDGE_EXIT) {
            return is_thunk(e->from_fn) ? edge_before(a, side, d)->from_fn :
                   e->from_fn;
        }
    }
    return edge_before(a, 0, d)->to_fn;
}

static void describe_side(struct diff_align *a, unsigned side,
                          const struct diff_difference *d, struct diff_side *s)
{
    s->at = d->at[side];
    s->n = d->n[side];
    s->placed = diff_sequence_record(&a->sequence[side], s->at, &s->vcpu,
                                     &s->index) ||
                (s->at && diff_sequence_record(&a->sequence[side], s->at - 1,
                                               &s->vcpu, &s->index));
    while (s->n_then < DIFF_THEN) {
        uint32_t e = edge_at(a, side, s->at + s->n_then);

        if (e == DIFF_EDGE_GAP) {
            break;
        }
        s->then[s->n_then++] = e;
    }
}

static struct diff_group *describe(struct diff_align *a,
                                   const struct diff_difference *d)
{
    struct diff_group *g = g_new0(struct diff_group, 1);

    g->end = d->end;
    g->levels = d->levels;
    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        g->edge[side] = d->edge[side];
        describe_side(a, side, d, &g->side[side]);
    }
    g->n_frames = MIN(a->stack->len, DIFF_FRAMES);
    g->frames = g_new(uint32_t, g->n_frames);
    for (unsigned i = 0; i < g->n_frames; i++) {
        g->frames[i] = g_array_index(a->stack, uint32_t,
                                     a->stack->len - 1 - i);
    }
    while (g->n_before < DIFF_BEFORE &&
           d->at[0] - g->n_before > a->since[0]) {
        g->before[g->n_before] = edge_at(a, 0, d->at[0] - g->n_before - 1);
        g->n_before++;
    }
    return g;
}

struct comparing {
    struct diff_state *run;
    struct diff_pair *pair;
};

/* Has a side ended because the trace has, and not the task? */
static bool is_cut(const struct diff_state *r, struct diff_pair *pair,
                   unsigned side,
                   const struct diff_difference *d)
{
    return d->end == DIFF_ENDED && pair->align.sequence[side].whole &&
           d->at[side] == pair->align.sequence[side].end &&
           !g_hash_table_contains(r->side[side].result.ended,
                                  pair->task[side]);
}

static void on_difference(void *opaque, struct diff_align *a,
                          const struct diff_difference *d)
{
    struct comparing *c = opaque;
    struct diff_state *r = c->run;
    struct diff_pair *pair = c->pair;
    struct grouped key = {
        .pair = pair, .edge = { d->edge[0], d->edge[1] },
    }, *found;

    pair->lost |= d->end == DIFF_LOST;
    if (d->gap || (!a->same && d->end == DIFF_TOGETHER)) {
        /* The traces begin at different places, or have holes. */
        pair->gaps += d->gap;
        return;
    }
    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        if (is_cut(r, pair, side, d)) {
            pair->shorter = side;
            return;
        }
    }
    pair->differences++;
    key.function = function_at(a, d);
    found = g_hash_table_lookup(r->groups, &key);
    if (!found && g_hash_table_size(r->groups) == MAX_GROUPS) {
        r->diff->dropped++;
        return;
    }
    if (!found) {
        found = g_memdup2(&key, sizeof(key));
        found->group = describe(a, d);
        found->group->function = key.function;
        g_hash_table_add(r->groups, found);
        g_ptr_array_add(pair->groups, found->group);
    }
    found->group->count++;
    found->group->n[0] += d->n[0];
    found->group->n[1] += d->n[1];
}

/* Compares what there is of a task. */
static void compare(struct diff_state *r, struct diff_pair *pair,
                    uint64_t dropped[DIFF_SIDES])
{
    struct comparing *c = pair->align.opaque;

    c->run = r;
    diff_align_run(&pair->align, dropped);
}

static void give_up(struct diff_pair *pair, uint64_t dropped[DIFF_SIDES])
{
    pair->align.done = pair->lost = true;
    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        dropped[side] += diff_sequence_drop(&pair->align.sequence[side],
                                            UINT64_MAX);
    }
}

uint64_t diff_most_kept(const struct diff_options *options)
{
    uint64_t decoding = 0;

    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        const struct btrail_budget *b = btrail_trace_decoding(
            options->input[side].trace);

        decoding += btrail_budget_size(b) - btrail_budget_left(b);
    }
    decoding = MIN(decoding / sizeof(uint32_t), MAX_KEPT - LEAST_KEPT);
    return MAX_KEPT - decoding;
}

/* Gives up the task of which most is kept, with the lock held. */
static void give_up_largest(struct diff_state *r)
{
    struct diff_pair *largest = NULL;
    uint64_t dropped[DIFF_SIDES] = { 0 };

    for (unsigned i = 0; i < r->diff->pairs->len; i++) {
        struct diff_pair *pair = r->diff->pairs->pdata[i];
        struct diff_incoming *in = pair->incoming;

        if (!largest || in->waiting[0] + in->waiting[1] >
            largest->incoming->waiting[0] + largest->incoming->waiting[1]) {
            largest = pair;
        }
    }
    if (largest) {
        give_up(largest, dropped);
        for (unsigned side = 0; side < DIFF_SIDES; side++) {
            r->side[side].waiting -= dropped[side];
            largest->incoming->waiting[side] -= dropped[side];
        }
        /* The blocks are small: without this, their memory stays taken. */
        malloc_trim(0);
    }
}

/* Moves blocks from the threads that read to the one that compares. */
static void take_incoming(struct diff_pair *pair)
{
    struct diff_incoming *in = pair->incoming;
    struct diff_block *block;

    in->ready = false;
    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        while ((block = g_queue_pop_head(&in->blocks[side]))) {
            in->waiting[side] += block->n;
            pair->edges[side] += block->n;
            diff_sequence_add(&pair->align.sequence[side], block);
        }
    }
}

static void tell(struct diff_state *r)
{
    uint64_t done = r->side[0].read + r->side[1].read;

    if (r->options->progress && done - r->told >= PROGRESS_STEP) {
        r->told = done;
        r->options->progress(r->options->opaque, done, r->all);
    }
}

/* Compares all tasks as they are read. */
static void compare_all(struct diff_state *r)
{
    struct diff_pair *pair;

    g_mutex_lock(&r->lock);
    while (!g_atomic_int_get(&r->stop)) {
        uint64_t dropped[DIFF_SIDES], most;

        pair = g_queue_pop_head(&r->ready);
        if (!pair && r->side[0].done && r->side[1].done) {
            break;
        }
        if (!pair) {
            r->idle = true;
            g_cond_broadcast(&r->changed);
            g_cond_wait(&r->changed, &r->lock);
            continue;
        }
        take_incoming(pair);
        tell(r);
        g_mutex_unlock(&r->lock);
        compare(r, pair, dropped);
        g_mutex_lock(&r->lock);
        for (unsigned side = 0; side < DIFF_SIDES; side++) {
            r->side[side].waiting -= dropped[side];
            pair->incoming->waiting[side] -= dropped[side];
        }
        most = diff_most_kept(r->options);
        while (r->side[0].waiting + r->side[1].waiting > most) {
            give_up_largest(r);
        }
        g_cond_broadcast(&r->changed);
    }
    r->idle = true;
    g_cond_broadcast(&r->changed);
    g_mutex_unlock(&r->lock);
}

static uint64_t times_taken(const struct diff_state *r, unsigned side,
                            uint32_t number)
{
    const GArray *counts = r->side[side].result.counts;

    return number / 2 < counts->len ?
           g_array_index(counts, uint64_t, number / 2) : 0;
}

/* Where a return is, which goes to many places */
struct leaving {
    uintptr_t function;
    uint64_t from;
};

static struct leaving leaving_of(const struct diff_edge *e)
{
    return (struct leaving) { (uintptr_t)e->from_fn, e->from };
}

static bool is_return(const struct diff_edge *e)
{
    return e->kind == STACK_EDGE_RET || e->kind == STACK_EDGE_IRET;
}

/* The returns that a side has executed */
static GHashTable *find_returns(const struct diff_state *r, unsigned side)
{
    GHashTable *returns = g_hash_table_new_full(btrail_pair_hash,
                                                btrail_pair_equal, g_free,
                                                NULL);
    const GArray *counts = r->side[side].result.counts;

    for (uint32_t i = 1; i < counts->len; i++) {
        const struct diff_edge *e = NULL;

        if (g_array_index(counts, uint64_t, i)) {
            e = diff_edges_get(r->diff->edges, 2 * i);
        }
        if (e && is_return(e)) {
            const struct leaving key = leaving_of(e);

            g_hash_table_add(returns, g_memdup2(&key, sizeof(key)));
        }
    }
    return returns;
}

/*
 * Has a side never taken an edge?  A return counts as taken if any was from
 * there: where it goes to is the caller's business.
 */
static bool is_fresh(const struct diff_state *r, unsigned side, uint32_t number)
{
    const struct diff_edge *e = diff_edges_get(r->diff->edges, number);
    const struct leaving key = leaving_of(e);

    return !times_taken(r, side, number) &&
           !(is_return(e) && g_hash_table_contains(r->returns[side], &key));
}

/* How many edges of a difference are new */
static unsigned count_fresh(const struct diff_state *r,
                            const struct diff_group *g)
{
    unsigned n = 0;

    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        const struct diff_side *s = &g->side[side];

        for (unsigned i = 0; i < s->n_then && i < MAX(s->n, 1); i++) {
            n += is_fresh(r, !side, s->then[i]);
        }
    }
    return n;
}

/* How many functions are called in a difference that the other side has not */
static unsigned count_called(const struct diff_state *r,
                             const struct diff_group *g)
{
    g_autoptr(GHashTable) called = g_hash_table_new(NULL, NULL);

    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        const struct diff_side *s = &g->side[side];

        for (unsigned i = 0; i < s->n_then && i < s->n; i++) {
            const struct diff_edge *e = diff_edges_get(r->diff->edges,
                                                       s->then[i]);

            if (diff_edge_calls(e) && !e->to_fn->calls[!side]) {
                g_hash_table_add(called, e->to_fn);
            }
        }
    }
    return g_hash_table_size(called);
}

/* Compares what is left of a task when both traces were read. */
static void finish(struct diff_state *r, struct diff_pair *pair)
{
    uint64_t dropped[DIFF_SIDES];

    pair->align.sequence[0].whole = pair->align.sequence[1].whole = true;
    compare(r, pair, dropped);
    pair->same = pair->align.same;
    for (unsigned i = 0; i < pair->groups->len; i++) {
        struct diff_group *g = pair->groups->pdata[i];
        const struct diff_new fresh = { pair, g };

        g->fresh = count_fresh(r, g);
        g->called = count_called(r, g);
        if (g->fresh) {
            g_array_append_val(r->diff->fresh, fresh);
        }
    }
    r->diff->differs |= pair->differences || pair->lost;
}

static gint by_fresh(gconstpointer p, gconstpointer q)
{
    const struct diff_new *a = p, *b = q;

    if (a->group->called != b->group->called) {
        return a->group->called < b->group->called ? 1 : -1;
    }
    return (a->group->fresh < b->group->fresh) -
           (a->group->fresh > b->group->fresh);
}

static void finish_all(struct diff_state *r)
{
    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        r->returns[side] = find_returns(r, side);
    }
    for (unsigned i = 0; i < r->diff->pairs->len; i++) {
        finish(r, r->diff->pairs->pdata[i]);
    }
    /* It is stable: the order of tasks and of time stays. */
    g_array_sort(r->diff->fresh, by_fresh);
    g_hash_table_unref(r->returns[0]);
    g_hash_table_unref(r->returns[1]);
}

static uint64_t apart(const struct diff_function *f)
{
    return f->calls[0] > f->calls[1] ? f->calls[0] - f->calls[1] :
           f->calls[1] - f->calls[0];
}

static gint by_calls(gconstpointer p, gconstpointer q)
{
    const struct diff_function *const *a = p, *const *b = q;
    uint64_t x = apart(*a), y = apart(*b);

    return x != y ? (x < y) - (x > y) : strcmp((*a)->name, (*b)->name);
}

static void count_functions(struct diff_state *r)
{
    GArray *const counts[DIFF_SIDES] = {
        r->side[0].result.counts, r->side[1].result.counts,
    };
    GPtrArray *all = diff_edges_functions(r->diff->edges, counts);

    r->diff->functions = g_ptr_array_new();
    for (unsigned i = 0; i < all->len; i++) {
        if (apart(all->pdata[i])) {
            g_ptr_array_add(r->diff->functions, all->pdata[i]);
        }
    }
    g_ptr_array_sort(r->diff->functions, by_calls);
    g_ptr_array_unref(all);
}

static void free_group(gpointer p)
{
    struct diff_group *g = p;

    g_free(g->frames);
    g_free(g);
}

static void free_pair(gpointer p)
{
    struct diff_pair *pair = p;

    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        g_queue_clear_full(&pair->incoming->blocks[side],
                           (GDestroyNotify)diff_block_free);
    }
    g_free(pair->align.opaque);
    g_free(pair->incoming);
    diff_align_clear(&pair->align);
    g_ptr_array_unref(pair->groups);
    g_free(pair);
}

static void add_pair(struct diff *d, struct diff_task *task)
{
    struct diff_pair *pair = g_new0(struct diff_pair, 1);
    struct comparing *c = g_new0(struct comparing, 1);

    pair->task[0] = task;
    pair->task[1] = task->other;
    pair->shorter = -1;
    pair->groups = g_ptr_array_new_with_free_func(free_group);
    pair->incoming = g_new0(struct diff_incoming, 1);
    c->pair = pair;
    diff_align_init(&pair->align, d->edges, d->scratch, on_difference, c);
    task->user = task->other->user = pair;
    g_ptr_array_add(d->pairs, pair);
}

/* Finds the tasks, and which of them are compared. */
static int read_tasks(struct diff *d, const struct diff_options *options,
                      unsigned *side)
{
    for (*side = 0; *side < DIFF_SIDES; (*side)++) {
        const struct diff_input *in = &options->input[*side];
        int ret = diff_tasks_read(&d->tasks[*side], in->trace, in->names,
                                  &in->window);

        if (ret) {
            return ret;
        }
        d->damage[*side] = d->tasks[*side].damage;
    }
    diff_tasks_match(d->tasks);
    for (unsigned i = 0; i < d->tasks[0].all->len; i++) {
        struct diff_task *task = d->tasks[0].all->pdata[i];

        if (task->other && (diff_chooses(options, task) ||
                            diff_chooses(options, task->other))) {
            add_pair(d, task);
        }
    }
    return 0;
}

static void start_side(struct diff_state *r, unsigned number)
{
    struct diff_stream *s = &r->side[number];
    const struct diff_input *in = &r->options->input[number];

    s->run = r;
    s->number = number;
    s->options = (struct diff_reader_options) {
        .trace = in->trace, .names = in->names,
        .tasks = &r->diff->tasks[number], .edges = r->diff->edges,
        .window = in->window, .user = r->options->user,
        .kernel = r->options->kernel, .ops = &reader_ops, .opaque = s,
    };
    s->thread = g_thread_new("backtrail", read_side, s);
}

static int run(struct diff_state *r, unsigned *side)
{
    int ret = 0;

    for (unsigned i = 0; i < DIFF_SIDES; i++) {
        r->all += r->diff->tasks[i].records;
        start_side(r, i);
    }
    compare_all(r);
    for (unsigned i = 0; i < DIFF_SIDES; i++) {
        g_thread_join(r->side[i].thread);
        if (!ret && r->side[i].ret) {
            ret = r->side[i].ret;
            errno = r->side[i].error;
            *side = i;
        }
    }
    if (!ret) {
        count_functions(r);
        finish_all(r);
    }
    return ret;
}

int diff_run(struct diff *d, const struct diff_options *options,
             unsigned *side)
{
    struct diff_state r = { .options = options, .diff = d };
    int ret, error;

    *d = (struct diff) {
        .pairs = g_ptr_array_new_with_free_func(free_pair),
        .edges = diff_edges_new(),
        .scratch = diff_scratch_new(),
        .fresh = g_array_new(FALSE, FALSE, sizeof(struct diff_new)),
    };
    ret = read_tasks(d, options, side);
    if (ret) {
        return ret;
    }
    g_mutex_init(&r.lock);
    g_cond_init(&r.changed);
    g_queue_init(&r.ready);
    r.groups = g_hash_table_new_full(hash_grouped, equal_grouped, g_free,
                                     NULL);
    ret = run(&r, side);
    error = errno;
    g_queue_clear(&r.ready);
    g_hash_table_unref(r.groups);
    for (unsigned i = 0; i < DIFF_SIDES; i++) {
        diff_reader_result_clear(&r.side[i].result);
    }
    g_mutex_clear(&r.lock);
    g_cond_clear(&r.changed);
    errno = error;
    return ret;
}

void diff_clear(struct diff *d)
{
    g_clear_pointer(&d->pairs, g_ptr_array_unref);
    g_clear_pointer(&d->fresh, g_array_unref);
    g_clear_pointer(&d->functions, g_ptr_array_unref);
    diff_tasks_clear(&d->tasks[0]);
    diff_tasks_clear(&d->tasks[1]);
    g_clear_pointer(&d->scratch, diff_scratch_free);
    g_clear_pointer(&d->edges, diff_edges_free);
}
