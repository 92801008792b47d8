/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Why a thread took so long: see waiting.h
 */

#include <stdlib.h>
#include <string.h>

#include "find/backtrace.h"
#include "find/interrupted.h"
#include "find/waiting.h"
#include "util/hash.h"
#include "util/search.h"

/* Shorter parts of a path are not followed: this fraction of the whole */
#define SMALL       512

/* Waits that take no time are not put into a path from so many parts on. */
#define INSTANT_PARTS   (WAITING_PARTS / 4)

/* Running parts of a path whose functions are looked for, the longest ones */
#define HOT_PARTS   16

/* Who ran instead, and functions, that are kept */
#define USERS       8

/* For the first stacks, those of the longest waits, more records are read. */
#define DEEP        4

/* A call stack that was made, and the interrupt that it is in */
struct made_stack {
    uint64_t key[2];
    GPtrArray *stack;
    char *interrupt;
};

/* A stack that will be asked for */
struct wanted_stack {
    unsigned vcpu;
    uint64_t index;
};

/* A wait of the thread itself */
struct raw_wait {
    const struct states_thread *thread;
    unsigned part;
    uint64_t begin;
    uint64_t end;
    uint64_t ns;
};

/**
 * struct reader
 * @stacks: key of a moment -> struct made_stack
 * @left:   how many more stacks can be made
 */
struct reader {
    const struct waiting_options *o;
    struct waiting_span *w;
    const struct thread_states *states;
    struct backtraces *backtraces;
    GHashTable *stacks;
    unsigned left;
    GArray *wanted;             /* of struct wanted_stack */
    GArray *waits;              /* of struct raw_wait */
    GArray *ranges;             /* of struct hot_range */
    uint64_t ran;               /* on CPU by the host's clock */
};

const char *waiting_state_name(enum waiting_state state)
{
    static const char *const names[] = {
        [WAITING_RUNNING] = "running", [WAITING_RUNNABLE] = "runnable",
        [WAITING_BLOCKED] = "blocked", [WAITING_INTERRUPT] = "interrupt",
        [WAITING_PAUSED] = "paused", [WAITING_UNKNOWN] = "unknown",
    };

    return names[state];
}

enum waiting_state waiting_part_state(const struct waiting_part *part)
{
    return part->paused > (part->end - part->begin) / 2 ? WAITING_PAUSED :
           part->state;
}

/*
 * Call stacks
 */

static void free_made(gpointer p)
{
    struct made_stack *m = p;

    g_clear_pointer(&m->stack, g_ptr_array_unref);
    g_free(m->interrupt);
    g_free(m);
}

static void take_calls(struct made_stack *m, const struct backtrace *found)
{
    const struct stack_call *calls =
        (const struct stack_call *)found->calls->data;

    m->stack = g_ptr_array_new();
    for (guint i = 0; i < found->calls->len; i++) {
        g_ptr_array_add(m->stack, (gpointer)calls[i].function);
    }
    m->interrupt = interrupted_by(calls, found->calls->len);
}

/* The stack after a record, if it was made already */
static const struct made_stack *made_at(const struct reader *r, unsigned vcpu,
                                        uint64_t index)
{
    const uint64_t key[2] = { vcpu, index };
    const struct made_stack *m = g_hash_table_lookup(r->stacks, key);

    return m && m->stack ? m : NULL;
}

/* The stack after a record; NULL if it cannot be made */
static const struct made_stack *stack_at(struct reader *r, unsigned vcpu,
                                         uint64_t index)
{
    const uint64_t key[2] = { vcpu, index };
    struct moment at = { .vcpu = vcpu, .index = index };
    const struct backtrace *found;
    struct made_stack *m;

    if (index == THREAD_NO_INDEX || vcpu >= BTRAIL_MAX_VCPUS) {
        return NULL;
    }
    m = g_hash_table_lookup(r->stacks, key);
    if (!m && r->left) {
        r->left--;
        if (g_hash_table_size(r->stacks) == DEEP) {
            backtraces_limit(r->backtraces, BACKTRACE_FEWEST);
        }
        m = g_new0(struct made_stack, 1);
        memcpy(m->key, key, sizeof(key));
        g_hash_table_add(r->stacks, m);
        if (backtraces_at(r->backtraces, &at, &found)) {
            take_calls(m, found);
        }
    }
    return m && m->stack ? m : NULL;
}

/* Stacks that are made in their order take less time. */
static void want_stack(struct reader *r, unsigned vcpu, uint64_t index)
{
    const struct wanted_stack wanted = { vcpu, index };

    if (index != THREAD_NO_INDEX && r->wanted->len < r->left) {
        g_array_append_val(r->wanted, wanted);
    }
}

static void want_waker(struct reader *r, uint32_t number)
{
    const struct thread_wake *wake = thread_states_wake(r->states, number);

    if (wake) {
        want_stack(r, wake->vcpu, wake->index);
    }
}

static gint by_moment(gconstpointer a, gconstpointer b)
{
    const struct wanted_stack *x = a, *y = b;

    return BTRAIL_COMPARE(x->vcpu, y->vcpu) ?:
           BTRAIL_COMPARE(x->index, y->index);
}

static void make_wanted(struct reader *r)
{
    g_array_sort(r->wanted, by_moment);
    for (guint i = 0; i < r->wanted->len; i++) {
        const struct wanted_stack *wanted = &g_array_index(
            r->wanted, struct wanted_stack, i);

        stack_at(r, wanted->vcpu, wanted->index);
    }
    g_array_set_size(r->wanted, 0);
}

static GPtrArray *stack_ref(const struct made_stack *m)
{
    return m ? g_ptr_array_ref(m->stack) : NULL;
}

/*
 * Who has ended a wait.  Without a stack it can have been an interrupt; @m is
 * that after the wake-up, or NULL.
 */
static struct waiting_waker waker_with(const struct thread_wake *wake,
                                       const struct made_stack *m)
{
    struct waiting_waker waker = { .known = false };

    if (wake && m) {
        waker.known = m->interrupt || wake->by;
        waker.stack = g_ptr_array_ref(m->stack);
        waker.interrupt = g_strdup(m->interrupt);
        if (!m->interrupt && wake->by) {
            waker.task = wake->by->task;
        }
    }
    return waker;
}

static struct waiting_waker waker_of(struct reader *r, uint32_t number)
{
    const struct thread_wake *wake = thread_states_wake(r->states, number);

    return waker_with(wake, wake ? stack_at(r, wake->vcpu, wake->index) : NULL);
}

static void clear_waker(struct waiting_waker *waker)
{
    g_free(waker->interrupt);
    g_clear_pointer(&waker->stack, g_ptr_array_unref);
}

/*
 * Who ran instead
 */

/* How long a time is, as the options count */
static uint64_t took(const struct waiting_options *o, uint64_t begin,
                     uint64_t end)
{
    return o->clock ? replay_clock_between(o->clock, begin, end) : end - begin;
}

/**
 * struct users
 * @ns: const struct states_thread -> uint64_t
 */
struct users {
    const struct waiting_options *o;
    GHashTable *ns;
};

/* Nobody ran while the whole guest was paused, and nobody could have. */
static void add_user(void *opaque, const struct states_thread *t,
                     uint64_t begin, uint64_t end)
{
    const struct users *u = opaque;
    uint64_t *ns = g_hash_table_lookup(u->ns, t);

    if (!ns) {
        ns = g_new0(uint64_t, 1);
        g_hash_table_insert(u->ns, (gpointer)t, ns);
    }
    *ns += took(u->o, begin, end);
    if (u->o->pauses && !u->o->clock) {
        *ns -= MIN(end - begin, pauses_whole_guest(u->o->pauses, begin, end));
    }
}

static gint by_use(gconstpointer a, gconstpointer b)
{
    const struct waiting_user *x = a, *y = b;

    return BTRAIL_COMPARE(y->ns, x->ns) ?:
           BTRAIL_COMPARE(x->task.tid, y->task.tid);
}

static GArray *take_users(struct users *u)
{
    GArray *all = g_array_new(FALSE, FALSE, sizeof(struct waiting_user));
    GHashTableIter iter;
    gpointer key, value;

    g_hash_table_iter_init(&iter, u->ns);
    while (g_hash_table_iter_next(&iter, &key, &value)) {
        const struct states_thread *t = key;
        struct waiting_user user = { .ns = *(uint64_t *)value };

        if (t) {
            user.task = t->task;
        }
        if (user.ns) {
            g_array_append_val(all, user);
        }
    }
    g_hash_table_unref(u->ns);
    g_array_sort(all, by_use);
    g_array_set_size(all, MIN(all->len, USERS));
    return all;
}

static struct users new_users(const struct reader *r)
{
    return (struct users) {
        .o = r->o,
        .ns = g_hash_table_new_full(NULL, NULL, NULL, g_free),
    };
}

/* The vCPU for which a thread waits: that which then runs it, or that which it
 * has left */
static unsigned vcpu_for(const struct states_thread *t, unsigned i)
{
    for (unsigned k = i + 1; k < t->parts->len; k++) {
        if (thread_part(t, k)->state == THREAD_RUNNING) {
            return thread_part(t, k)->vcpu;
        }
    }
    return thread_part(t, i)->vcpu;
}

/*
 * What a thread does in a time
 */

typedef void walk_fn(void *opaque, const struct states_thread *t, unsigned part,
                     uint64_t begin, uint64_t end);

/* The thread that has begun this one, with a wake-up after its part @i */
static const struct states_thread *parent_of(const struct reader *r,
                                      const struct states_thread *t, unsigned i)
{
    const struct thread_part *p = thread_part(t, i);
    const struct thread_wake *wake;

    if (i + 1 == t->parts->len ||
        (p->state != THREAD_UNKNOWN && p->state != THREAD_DEAD)) {
        return NULL;
    }
    wake = thread_states_wake(r->states, thread_part(t, i + 1)->wake);
    return wake && wake->is_new && wake->by != t ? wake->by : NULL;
}

/* Is a part within a time?  At the begin or end of the span only its place in a
 * vCPU's stream says that; elsewhere, it can be in the time before or after. */
static bool is_within(const struct reader *r, const struct thread_part *p,
                      uint64_t begin, uint64_t end)
{
    const struct waiting_moment *a = &r->w->begin, *b = &r->w->end;
    bool known = p->index != THREAD_NO_INDEX;

    if (p->begin <= begin &&
        (p->begin != a->time || p->vcpu != a->vcpu || !known ||
         a->index == THREAD_NO_INDEX || p->index < a->index)) {
        return false;
    }
    return p->begin < end ||
           (p->begin == b->time && p->vcpu == b->vcpu && known &&
            b->index != THREAD_NO_INDEX && p->index < b->index);
}

/*
 * Was a thread blocked and woken at one time, as far as the trace knows times?
 * Somebody has ended that wait all the same.
 */
static bool is_instant(const struct reader *r, const struct states_thread *t,
                       unsigned i, uint64_t begin, uint64_t end)
{
    const struct thread_part *p = thread_part(t, i);

    return p->state == THREAD_BLOCKED && p->wake != THREAD_NO_WAKE &&
           thread_part_end(r->states, t, i) == p->begin &&
           is_within(r, p, begin, end);
}

/*
 * Calls a function with each part of a thread from @begin to @end, which are in
 * the trace, and with those of the one that has begun it, before that.  Parts
 * that take no time are left out, but for waits that somebody has ended.
 */
static void walk(const struct reader *r, const struct states_thread *t,
                 uint64_t begin, uint64_t end, unsigned depth, walk_fn *fn,
                 void *opaque)
{
    unsigned i = thread_part_before(t, begin);

    for (; i < t->parts->len && thread_part(t, i)->begin <= end; i++) {
        uint64_t from = MAX(thread_part(t, i)->begin, begin);
        uint64_t to = MIN(thread_part_end(r->states, t, i), end);
        const struct states_thread *parent = parent_of(r, t, i);

        if (from >= to && !is_instant(r, t, i, begin, end)) {
            continue;
        }
        if (parent && depth < WAITING_DEPTH) {
            walk(r, parent, from, to, depth + 1, fn, opaque);
        } else {
            fn(opaque, t, i, from, to);
        }
    }
}

/* The first part of a thread can begin after @begin. */
static uint64_t first_known(const struct states_thread *t)
{
    return thread_part(t, 0)->begin;
}

static uint64_t paused_in(const struct reader *r, const struct thread_part *p,
                          uint64_t begin, uint64_t end)
{
    /* The clock of a replay's guest stands still then. */
    if (!r->o->pauses || r->o->clock) {
        return 0;
    }
    return MIN(end - begin, p->state == THREAD_RUNNING ?
               pauses_vcpu(r->o->pauses, p->vcpu, begin, end) :
               pauses_whole_guest(r->o->pauses, begin, end));
}

/* Records of a running part at a time: in proportion between its ends, but
 * exact where the span begins and ends */
static uint64_t index_at(const struct reader *r, const struct states_thread *t,
                         unsigned i, uint64_t time)
{
    const struct thread_part *p = thread_part(t, i);
    const struct waiting_moment *ends[] = { &r->w->begin, &r->w->end };
    uint64_t end = thread_part_end(r->states, t, i);

    for (unsigned k = 0; k < 2; k++) {
        if (time == ends[k]->time && p->vcpu == ends[k]->vcpu &&
            ends[k]->index >= p->index && ends[k]->index < p->end_index) {
            return ends[k]->index + 1;
        }
    }
    if (time <= p->begin) {
        return p->index;
    }
    if (time >= end) {
        return p->end_index;
    }
    return p->index + (uint64_t)((unsigned __int128)(time - p->begin) *
                                 (p->end_index - p->index) / (end - p->begin));
}

/*
 * Is this the time before a kernel's first task was named, as at the begin of a
 * boot?  The vCPU whose idle task that becomes runs something, then.
 */
static bool is_early(const struct states_thread *t, unsigned i)
{
    return !i && !t->task.tid && t->parts->len > 1 &&
           thread_part(t, 0)->state == THREAD_UNKNOWN &&
           thread_part(t, 1)->state == THREAD_RUNNING;
}

/* What runs then, as a part */
static struct thread_part early_part(const struct states_thread *t)
{
    const struct thread_part *first = thread_part(t, 1);

    return (struct thread_part) {
        .begin = thread_part(t, 0)->begin, .state = THREAD_RUNNING,
        .vcpu = first->vcpu, .end_index = first->index,
        .wake = THREAD_NO_WAKE,
    };
}

/* A part, or what runs before tasks */
static struct thread_part part_at(const struct states_thread *t, unsigned i)
{
    return is_early(t, i) ? early_part(t) : *thread_part(t, i);
}

/* Its records; none if only some of the time is asked for */
static struct hot_range early_range(const struct states_thread *t,
                                    uint64_t begin, uint64_t end)
{
    const struct thread_part p = early_part(t);
    bool all = begin <= p.begin && end >= thread_part(t, 1)->begin;

    return (struct hot_range) {
        .vcpu = p.vcpu, .end = all ? p.end_index : 0, .time = begin,
    };
}

/* The records of a part that runs */
static struct hot_range range_of(const struct reader *r,
                                 const struct states_thread *t, unsigned i,
                                 uint64_t begin, uint64_t end)
{
    if (is_early(t, i)) {
        return early_range(t, begin, end);
    }
    return (struct hot_range) {
        .vcpu = thread_part(t, i)->vcpu, .begin = index_at(r, t, i, begin),
        .end = index_at(r, t, i, end), .time = begin,
    };
}

static void add_range(struct reader *r, const struct hot_range *range)
{
    if (range->begin < range->end) {
        g_array_append_val(r->ranges, *range);
    }
}

/* Reads the functions of the ranges, and forgets them. */
static int read_functions(struct reader *r, unsigned groups, GArray **found,
                          bool *sampled)
{
    int ret = hot_functions_read(r->o->trace, r->o->symbols, r->ranges, groups,
                                 r->o->tick, 0, found, sampled);

    g_array_set_size(r->ranges, 0);
    for (unsigned i = 0; i < groups; i++) {
        g_array_set_size(found[i], MIN(found[i]->len, USERS));
    }
    return ret;
}

/*
 * The sums of the thread itself
 */

static void add_component(void *opaque, const struct states_thread *t,
                          unsigned i, uint64_t begin, uint64_t end)
{
    struct reader *r = opaque;
    const struct thread_part part = part_at(t, i), *p = &part;
    uint64_t paused = paused_in(r, p, begin, end);
    uint64_t ns = took(r->o, begin, end) - paused;
    struct raw_wait wait = { t, i, begin, end, ns };
    struct waiting_span *w = r->w;
    struct hot_range range;

    w->paused += paused;
    switch (p->state) {
    case THREAD_RUNNING:
        w->on_cpu += ns;
        r->ran += end - begin - paused;
        if (!r->o->brief) {
            range = range_of(r, t, i, begin, end);
            add_range(r, &range);
        }
        return;
    case THREAD_RUNNABLE:
        w->runnable += ns;
        break;
    case THREAD_BLOCKED:
        w->blocked += ns;
        break;
    default:
        w->unknown += ns;
        if (p->index == THREAD_NO_INDEX || p->state == THREAD_DEAD) {
            return;
        }
    }
    g_array_append_val(r->waits, wait);
}

static void add_instead(struct reader *r)
{
    struct users users = new_users(r);

    for (guint i = 0; i < r->waits->len; i++) {
        const struct raw_wait *wait = &g_array_index(r->waits, struct raw_wait,
                                                     i);

        if (thread_part(wait->thread, wait->part)->state == THREAD_RUNNABLE) {
            thread_states_vcpu(r->states, vcpu_for(wait->thread, wait->part),
                               wait->begin, wait->end, add_user, &users);
        }
    }
    r->w->instead = take_users(&users);
}

static gint by_length(gconstpointer a, gconstpointer b)
{
    const struct raw_wait *x = a, *y = b;

    return BTRAIL_COMPARE(y->ns, x->ns) ?: BTRAIL_COMPARE(x->begin, y->begin);
}

static bool same_stack(const GPtrArray *a, const GPtrArray *b)
{
    return a == b || (a && b && a->len == b->len &&
                      !memcmp(a->pdata, b->pdata, a->len * sizeof(gpointer)));
}

static enum waiting_state state_of(const struct thread_part *p)
{
    return p->state == THREAD_RUNNABLE ? WAITING_RUNNABLE :
           p->state == THREAD_BLOCKED ? WAITING_BLOCKED :
           p->state == THREAD_RUNNING ? WAITING_RUNNING : WAITING_UNKNOWN;
}

static void add_waker(GArray *wakers, struct waiting_waker *waker, uint64_t ns)
{
    struct waiting_waker *old;

    for (guint i = 0; i < wakers->len; i++) {
        old = &g_array_index(wakers, struct waiting_waker, i);
        if (old->known == waker->known && old->task.tid == waker->task.tid &&
            old->task.pid == waker->task.pid &&
            !g_strcmp0(old->interrupt, waker->interrupt) &&
            same_stack(old->stack, waker->stack)) {
            old->times++;
            old->ns += ns;
            clear_waker(waker);
            return;
        }
    }
    waker->times = 1;
    waker->ns = ns;
    g_array_append_val(wakers, *waker);
}

static void clear_wait(gpointer p)
{
    struct waiting_wait *wait = p;

    g_clear_pointer(&wait->stack, g_ptr_array_unref);
    for (guint i = 0; i < wait->wakers->len; i++) {
        clear_waker(&g_array_index(wait->wakers, struct waiting_waker, i));
    }
    g_array_unref(wait->wakers);
}

static void add_wait(struct reader *r, const struct raw_wait *raw)
{
    const struct thread_part *p = thread_part(raw->thread, raw->part);
    const struct made_stack *m = stack_at(r, p->vcpu, p->index);
    struct waiting_wait wait = {
        .state = state_of(p), .ns = raw->ns, .times = 1,
    };
    struct waiting_wait *found = NULL;

    for (guint i = 0; i < r->w->waits->len && !found; i++) {
        struct waiting_wait *old = &g_array_index(r->w->waits,
                                                  struct waiting_wait, i);

        if (m && old->state == wait.state && same_stack(old->stack, m->stack)) {
            found = old;
        }
    }
    if (found) {
        found->ns += raw->ns;
        found->times++;
    } else {
        wait.stack = stack_ref(m);
        wait.wakers = g_array_new(FALSE, FALSE, sizeof(struct waiting_waker));
        g_array_append_val(r->w->waits, wait);
        found = &g_array_index(r->w->waits, struct waiting_wait,
                               r->w->waits->len - 1);
    }
    if (p->state == THREAD_BLOCKED && p->wake != THREAD_NO_WAKE) {
        struct waiting_waker waker = waker_of(r, p->wake);

        add_waker(found->wakers, &waker, raw->ns);
    }
}

static gint by_ns(gconstpointer a, gconstpointer b)
{
    const struct waiting_wait *x = a, *y = b;

    return BTRAIL_COMPARE(y->ns, x->ns);
}

/* Is it one of the longest waits?  Two stacks each: where the thread left, and
 * who has woken it */
static bool is_long(const struct reader *r, guint i)
{
    return i < WAITING_MOST && i < r->o->stacks / 4;
}

static void want_waits(struct reader *r)
{
    for (guint i = 0; i < r->waits->len; i++) {
        const struct raw_wait *raw = &g_array_index(r->waits, struct raw_wait,
                                                    i);
        const struct thread_part *p = thread_part(raw->thread, raw->part);

        if (is_long(r, i)) {
            want_stack(r, p->vcpu, p->index);
            want_waker(r, p->state == THREAD_BLOCKED ? p->wake :
                       THREAD_NO_WAKE);
        }
    }
    make_wanted(r);
}

static void add_waits(struct reader *r)
{
    struct waiting_span *w = r->w;

    g_array_sort(r->waits, by_length);
    want_waits(r);
    for (guint i = 0; i < r->waits->len; i++) {
        const struct raw_wait *raw = &g_array_index(r->waits, struct raw_wait,
                                                    i);

        if (is_long(r, i)) {
            add_wait(r, raw);
        } else {
            w->others++;
            w->others_ns += raw->ns;
        }
    }
    g_array_sort(w->waits, by_ns);
}

/*
 * The critical path
 */

/**
 * struct path_walk
 * @reader: with @depth for parts that follow
 */
struct path_walk {
    struct reader *r;
    unsigned depth;
    uint64_t small;
};

static void clear_part(gpointer p)
{
    struct waiting_part *part = p;

    clear_waker(&part->waker);
    g_clear_pointer(&part->stack, g_ptr_array_unref);
    g_clear_pointer(&part->functions, g_array_unref);
    g_clear_pointer(&part->instead, g_array_unref);
}

/* Adds a part; beyond the limit, to the last one. */
static struct waiting_part *
put_part(struct reader *r, enum waiting_state state,
         const struct states_thread *t, uint64_t begin, uint64_t end,
         unsigned depth)
{
    GArray *path = r->w->path;
    struct waiting_part part = {
        .state = state, .begin = begin, .end = end,
        .ns = took(r->o, begin, end), .depth = depth,
    };
    struct waiting_part *last;

    if (t) {
        part.task = t->task;
    }
    if (path->len < WAITING_PARTS) {
        g_array_append_val(path, part);
    } else {
        r->w->cut += took(r->o, begin, end);
        last = &g_array_index(path, struct waiting_part, path->len - 1);
        clear_part(last);
        *last = (struct waiting_part) {
            .state = WAITING_UNKNOWN, .begin = last->begin, .end = end,
            .ns = took(r->o, last->begin, end),
        };
    }
    return &g_array_index(path, struct waiting_part, path->len - 1);
}

static void walk_path(struct path_walk *f, const struct states_thread *t,
                      uint64_t begin, uint64_t end);

/* Can what a waker did meanwhile be the reason? */
static bool can_follow(const struct path_walk *f, const struct states_thread *t,
                       const struct waiting_waker *waker,
                       const struct thread_wake *wake)
{
    return waker->known && !waker->interrupt && wake->by && wake->by != t &&
           wake->by->task.tid && f->depth < WAITING_DEPTH &&
           f->r->w->path->len < WAITING_PARTS;
}

/* Wants the stacks of all that can have woken somebody whom the path meets. */
static void want_path(void *opaque, const struct states_thread *t, unsigned i,
                      uint64_t begin, uint64_t end)
{
    struct path_walk *f = opaque;
    const struct thread_part *p = thread_part(t, i);
    const struct thread_wake *wake = p->state == THREAD_BLOCKED ?
        thread_states_wake(f->r->states, p->wake) : NULL;

    if (!wake || took(f->r->o, begin, end) < f->small ||
        thread_part_end(f->r->states, t, i) > end ||
        f->r->wanted->len >= f->r->left) {
        return;
    }
    want_waker(f->r, p->wake);
    if (wake->by && wake->by != t && wake->by->task.tid &&
        f->depth < WAITING_DEPTH && begin >= first_known(wake->by)) {
        f->depth++;
        walk(f->r, wake->by, begin, end, 0, want_path, f);
        f->depth--;
    }
}

static void put_blocked(struct path_walk *f, const struct states_thread *t,
                        unsigned i, uint64_t begin, uint64_t end)
{
    const struct thread_part *p = thread_part(t, i);
    const struct thread_wake *wake = thread_states_wake(f->r->states, p->wake);
    struct waiting_waker waker = { .known = false };
    bool is_long = took(f->r->o, begin, end) >= f->small;
    struct waiting_part *part;

    if (begin == end && f->r->w->path->len >= INSTANT_PARTS) {
        return;
    }

    /* It ends after the part that is looked at. */
    if (wake && thread_part_end(f->r->states, t, i) > end) {
        wake = NULL;
    }
    if (wake && is_long) {
        waker = waker_of(f->r, p->wake);
        if (can_follow(f, t, &waker, wake)) {
            clear_waker(&waker);
            f->depth++;
            walk_path(f, wake->by, begin, end);
            f->depth--;
            return;
        }
    } else if (wake) {
        waker = waker_with(wake, made_at(f->r, wake->vcpu, wake->index));
    }
    part = put_part(f->r, waker.interrupt ? WAITING_INTERRUPT :
                    WAITING_BLOCKED, t, begin, end, f->depth);
    if (is_long) {
        part->stack = stack_ref(stack_at(f->r, p->vcpu, p->index));
    }
    part->waker = waker;
    if (part->begin == begin) {
        part->paused = paused_in(f->r, p, begin, end);
    }
}

static void put_path(void *opaque, const struct states_thread *t, unsigned i,
                     uint64_t begin, uint64_t end)
{
    struct path_walk *f = opaque;
    const struct thread_part now = part_at(t, i), *p = &now;
    struct waiting_part *part;
    struct users users;

    if (p->state == THREAD_BLOCKED) {
        put_blocked(f, t, i, begin, end);
        return;
    }
    part = put_part(f->r, state_of(p), is_early(t, i) ? NULL : t, begin, end,
                    f->depth);
    if (p->state == THREAD_RUNNING) {
        part->range = range_of(f->r, t, i, begin, end);
    }
    if (p->state == THREAD_RUNNABLE && part->begin == begin) {
        users = new_users(f->r);
        thread_states_vcpu(f->r->states, vcpu_for(t, i), begin, end, add_user,
                           &users);
        part->instead = take_users(&users);
        if (took(f->r->o, begin, end) >= f->small) {
            part->stack = stack_ref(stack_at(f->r, p->vcpu, p->index));
        }
    }
    if (part->begin == begin) {
        part->paused = paused_in(f->r, p, begin, end);
    }
}

static void walk_path(struct path_walk *f, const struct states_thread *t,
                      uint64_t begin, uint64_t end)
{
    uint64_t known = MIN(MAX(first_known(t), begin), end);

    if (known > begin) {
        put_part(f->r, WAITING_UNKNOWN, t, begin, known, f->depth);
    }
    if (known < end) {
        walk(f->r, t, known, end, 0, put_path, f);
    }
}

/* The longest running parts, by number */
static GArray *longest_parts(const GArray *path)
{
    GArray *best = g_array_new(FALSE, FALSE, sizeof(guint));

    for (guint i = 0; i < path->len; i++) {
        const struct waiting_part *p = &g_array_index(path,
                                                      struct waiting_part, i);
        guint k = best->len;

        if (p->state != WAITING_RUNNING) {
            continue;
        }
        while (k) {
            const struct waiting_part *o = &g_array_index(
                path, struct waiting_part, g_array_index(best, guint, k - 1));

            if (o->ns >= p->ns) {
                break;
            }
            k--;
        }
        if (k < HOT_PARTS) {
            g_array_insert_val(best, k, i);
            g_array_set_size(best, MIN(best->len, HOT_PARTS));
        }
    }
    return best;
}

/* Functions have times of the host's clock, which a guest's are parts of, too. */
static void scale(const struct reader *r, GArray *functions, uint64_t ns,
                  uint64_t host)
{
    for (guint i = 0; r->o->clock && host && i < functions->len; i++) {
        struct hot_function *f = &g_array_index(functions,
                                                struct hot_function, i);

        f->ns = (unsigned __int128)MIN(f->ns, host) * ns / host;
    }
}

/* What they run */
static int add_hot_parts(struct reader *r)
{
    g_autoptr(GArray) best = longest_parts(r->w->path);
    GArray *found[HOT_PARTS];
    bool sampled;
    int ret;

    for (guint k = 0; k < best->len; k++) {
        struct hot_range range = g_array_index(
            r->w->path, struct waiting_part,
            g_array_index(best, guint, k)).range;

        range.group = k;
        add_range(r, &range);
    }
    ret = read_functions(r, best->len, found, &sampled);
    for (guint k = 0; k < best->len; k++) {
        struct waiting_part *p = &g_array_index(
            r->w->path, struct waiting_part, g_array_index(best, guint, k));

        p->functions = found[k];
        scale(r, found[k], p->ns, p->end - p->begin);
    }
    return ret;
}

/* The time up to which anything is known */
static uint64_t known_end(const struct reader *r)
{
    return MIN(MAX(thread_states_until(r->states), r->w->begin.time),
               r->w->end.time);
}

static int add_path(struct reader *r, const struct states_thread *t)
{
    struct waiting_span *w = r->w;
    struct path_walk f = { r, 0, MAX(w->elapsed / SMALL, 1) };

    walk(r, t, MIN(MAX(first_known(t), w->begin.time), known_end(r)),
         known_end(r), 0, want_path, &f);
    make_wanted(r);
    f.depth = 0;
    walk_path(&f, t, w->begin.time, known_end(r));
    if (known_end(r) < w->end.time) {
        put_part(r, WAITING_UNKNOWN, t, known_end(r), w->end.time, 0);
    }
    return add_hot_parts(r);
}

static int read_thread(struct reader *r, const struct states_thread *t)
{
    struct waiting_span *w = r->w;
    uint64_t end = known_end(r);
    uint64_t known = MIN(MAX(first_known(t), w->begin.time), end);
    int ret = 0;

    w->unknown += took(r->o, w->begin.time, known) +
                  took(r->o, end, w->end.time);
    walk(r, t, known, end, 0, add_component, r);
    add_instead(r);
    if (!r->o->brief) {
        GArray *found[1];

        ret = read_functions(r, 1, found, &w->sampled);
        g_array_unref(w->functions);
        w->functions = found[0];
        scale(r, w->functions, w->on_cpu, r->ran);
    }
    add_waits(r);
    if (!ret && !r->o->brief) {
        ret = add_path(r, t);
    }
    return ret;
}

static void begin_result(struct waiting_span *w,
                         const struct waiting_options *options)
{
    w->end.time = MAX(w->begin.time, w->end.time);
    w->elapsed = took(options, w->begin.time, w->end.time);
    w->functions = g_array_new(FALSE, FALSE, sizeof(struct hot_function));
    w->waits = g_array_new(FALSE, FALSE, sizeof(struct waiting_wait));
    g_array_set_clear_func(w->waits, clear_wait);
    w->path = g_array_new(FALSE, FALSE, sizeof(struct waiting_part));
    g_array_set_clear_func(w->path, clear_part);
}

int waiting_read(struct waiting_span *w, const struct waiting_options *options)
{
    const struct thread_states_options states = {
        .begin = w->begin.time, .end = w->end.time, .tick = options->tick,
        .whole = options->whole,
    };
    struct reader r = {
        .o = options, .w = w, .left = options->stacks,
        .stacks = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                        free_made, NULL),
        .wanted = g_array_new(FALSE, FALSE, sizeof(struct wanted_stack)),
        .waits = g_array_new(FALSE, FALSE, sizeof(struct raw_wait)),
        .ranges = g_array_new(FALSE, FALSE, sizeof(struct hot_range)),
    };
    const struct states_thread *t;
    struct thread_states *own = NULL;
    int ret;

    begin_result(w, options);
    ret = options->states ? 0 :
          thread_states_read(&own, options->trace, &states);
    if (!ret) {
        r.states = options->states ?: own;
        w->damage = thread_states_damage(r.states);
        w->late = thread_states_until(r.states) < w->end.time ?
                  thread_states_until(r.states) : 0;
        w->wakes = thread_states_has_wakes(r.states);
        r.backtraces = backtraces_new(options->trace, options->symbols);
        backtraces_limit(r.backtraces, UINT64_MAX);
        t = thread_states_find(r.states, &w->task, &w->kernel, w->end.vcpu);
        if (t) {
            w->task = t->task;
            ret = read_thread(&r, t);
        } else {
            w->unknown = w->elapsed;
            w->instead = g_array_new(FALSE, FALSE,
                                     sizeof(struct waiting_user));
            if (w->elapsed) {
                put_part(&r, WAITING_UNKNOWN, NULL, w->begin.time, w->end.time,
                         0);
            }
        }
        backtraces_free(r.backtraces);
        thread_states_free(own);
    }
    g_hash_table_unref(r.stacks);
    g_array_unref(r.wanted);
    g_array_unref(r.waits);
    g_array_unref(r.ranges);
    if (ret) {
        waiting_clear(w);
    }
    return ret;
}

void waiting_clear(struct waiting_span *w)
{
    g_clear_pointer(&w->functions, g_array_unref);
    g_clear_pointer(&w->instead, g_array_unref);
    g_clear_pointer(&w->waits, g_array_unref);
    g_clear_pointer(&w->path, g_array_unref);
}
