/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls of a function that take longer than some time: see long-calls.h
 */

#include <string.h>

#include "drain/long-calls.h"
#include "drain/thread-calls.h"
#include "util/hash.h"

/* Threads that are remembered.  The guest chooses them. */
#define MAX_THREADS 4096
/* Runs that wait for what came before them: of a thread, and of all */
#define MAX_RUNS    64
#define MAX_WAITING 4096
/* Returns in a run from calls that began before it */
#define MAX_ENDS    4
/* Threads that began a call since the last TIME event of a vCPU */
#define MAX_BEGUN   8

/* Threads that no number names: those of an address space, the idle ones */
#define OF_SPACE    (UINT64_C(1) << 62)     /* not a bit of any root */
#define OF_VCPU     (UINT64_C(1) << 61)

/**
 * struct thread_run - a thread runs on a vCPU, from a TASK event to the next
 * @vcpu:   which
 * @in:     when it began; earlier where the thread ran there last, but not
 *          before that run
 * @number: when it was handed over, by struct long_calls.now
 * @joined: what the thread did before it is known, so its calls are those of
 *          the thread
 * @calls:  else: those that began in it
 * @ends:   and where it returned to from others; when, less the pauses before
 * @more_ends: of spans, of which no more than @ends have times
 * @out:    when it ended
 * @paused: how long the vCPU was paused in it
 */
struct thread_run {
    unsigned vcpu;
    uint64_t in;
    uint64_t out;
    uint64_t paused;
    uint64_t number;
    bool joined;
    struct thread_calls calls;
    struct {
        uint64_t to;
        uint64_t time;
    } ends[MAX_ENDS];
    unsigned n_ends;
    uint64_t more_ends;
};

/**
 * struct thread
 * @runs: that have ended, and wait for what came before them; or NULL
 * @known_from: runs that began before are too late, or not known: the last that
 *        was joined, or forgotten, began then
 * @seen_in, @seen_number: the last begin, and the least number, of runs with
 *        nothing to join
 * @waits: it has runs that were not joined
 * @kept:  its bytes were taken from the budget
 * @away:  since when it has run on no vCPU; 0 if it does, or that is not known
 */
struct thread {
    uint64_t key;
    struct thread_calls calls;
    GArray *runs;
    uint64_t known_from;
    uint64_t seen_in;
    uint64_t seen_number;
    bool waits;
    bool kept;
    uint64_t away;
};

/**
 * struct vcpu
 * @time:    of the last TIME event; 0: none yet
 * @passed:  all that was before has been handed over
 * @thread:  that TASK has named, or NULL
 * @forgot:  who that is, up to the next TASK event
 * @run:     of that
 * @between: a KERNEL event has come, and no TASK event yet
 * @watch:   its pauses
 */
struct vcpu {
    bool nested;
    uint64_t kernel;
    uint64_t time;
    uint64_t passed;
    struct thread *thread;
    bool forgot;
    struct thread_run run;
    bool between;
    struct btrail_pause_watch watch;
    uint64_t begun[MAX_BEGUN];  /* keys of threads that began a call since */
    unsigned n_begun;           /* MAX_BEGUN + 1: or any other one */
};

struct long_calls {
    struct calls_measure by;
    uint64_t tick;
    uint64_t now;               /* grows with each event and site */
    bool doubtful;              /* what long_calls_passed() says */
    uint64_t forgotten;         /* what runs were that began before */
    unsigned n_runs;            /* that wait */
    uint64_t left_out;          /* atomic */
    struct btrail_budget *budget;
    GHashTable *threads;        /* by key */
    unsigned n_vcpus;
    struct vcpu *vcpus;
};

static void forget_all(struct long_calls *c);

static void free_thread(gpointer p)
{
    struct thread *t = p;

    if (t->runs) {
        g_array_unref(t->runs);
    }
    g_free(t);
}

static struct long_calls *make(uint64_t ns, bool spans)
{
    struct long_calls *c = g_new0(struct long_calls, 1);

    c->by = (struct calls_measure) {
        .ns = ns, .sites = call_sites_new(), .pauses = any_pauses_new(),
        .spans = spans,
    };
    c->threads = g_hash_table_new_full(btrail_int64_hash, g_int64_equal, NULL,
                                       free_thread);
    return c;
}

struct long_calls *long_calls_new(uint64_t ns)
{
    return make(ns, false);
}

struct long_calls *long_calls_new_spans(uint64_t ns)
{
    return make(ns, true);
}

void long_calls_free(struct long_calls *c)
{
    if (c) {
        forget_all(c);
        g_hash_table_unref(c->threads);
        if (c->budget) {
            btrail_budget_unref(c->budget);
        }
        call_sites_free(c->by.sites);
        any_pauses_free(c->by.pauses);
        g_free(c->vcpus);
        g_free(c);
    }
}

void long_calls_set_device(struct long_calls *c, uint64_t tick_ns,
                           unsigned vcpus)
{
    c->tick = tick_ns;
    c->n_vcpus = vcpus;
    g_free(c->vcpus);
    c->vcpus = g_new0(struct vcpu, vcpus);
}

void long_calls_set_doubtful(struct long_calls *c)
{
    c->doubtful = true;
}

void long_calls_set_budget(struct long_calls *c, struct btrail_budget *budget)
{
    c->budget = budget ? btrail_budget_ref(budget) : NULL;
}

uint64_t long_calls_left_out(const struct long_calls *c)
{
    return __atomic_load_n(&c->left_out, __ATOMIC_RELAXED);
}

struct call_time long_calls_take_time(struct long_calls *c)
{
    struct call_time longest = c->by.longest;

    c->by.longest = (struct call_time) { 0 };
    return longest;
}

/*
 * Threads
 */

static void leave_out(struct long_calls *c, uint64_t n)
{
    __atomic_fetch_add(&c->left_out, n, __ATOMIC_RELAXED);
}

/* Nothing that has begun is known any more.  What is deeper was counted. */
static void leave_out_calls(struct long_calls *c, struct thread_calls *calls)
{
    leave_out(c, calls->call.lasts + calls->outer.lasts + calls->spans.n);
    memset(calls, 0, sizeof(*calls));
}

/* False if there is no room for a thread, or a run. */
static bool keep_bytes(struct long_calls *c, size_t size)
{
    return !c->budget || btrail_budget_keep(c->budget, size);
}

static void drop_bytes(struct long_calls *c, size_t size)
{
    if (c->budget) {
        btrail_budget_drop(c->budget, size);
    }
}

static void remove_run(struct long_calls *c, struct thread *t, unsigned i)
{
    drop_bytes(c, sizeof(struct thread_run));
    g_array_remove_index(t->runs, i);
    c->n_runs--;
}

/* Up to when has all been handed over that a vCPU did? */
static uint64_t handed_until(const struct vcpu *v)
{
    return MAX(v->time, v->passed);
}

static void forget_thread(struct long_calls *c, struct thread *t)
{
    leave_out_calls(c, &t->calls);
    while (t->runs && t->runs->len) {
        leave_out_calls(c, &g_array_index(t->runs, struct thread_run,
                                          t->runs->len - 1).calls);
        remove_run(c, t, t->runs->len - 1);
    }
    if (t->kept) {
        drop_bytes(c, sizeof(*t));
    }
}

/* Forgets who runs, and what its run has not yet given to the thread. */
static void forget_running(struct long_calls *c, struct vcpu *v)
{
    if (!v->run.joined) {
        leave_out_calls(c, &v->run.calls);
    }
    v->thread = NULL;
    v->forgot = true;
}

/*
 * Forgets all threads, of which there are too many, or which are not known.
 * What one vCPU did can have ended a call that another one has yet to hand
 * over.
 */
static void forget_all(struct long_calls *c)
{
    GHashTableIter iter;
    gpointer value;

    g_hash_table_iter_init(&iter, c->threads);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        forget_thread(c, value);
        g_hash_table_iter_remove(&iter);
    }
    for (unsigned i = 0; i < c->n_vcpus; i++) {
        if (c->vcpus[i].thread) {
            forget_running(c, &c->vcpus[i]);
        }
        c->forgotten = MAX(c->forgotten, handed_until(&c->vcpus[i]));
    }
}

static struct thread *find_thread(struct long_calls *c, uint64_t key)
{
    struct thread *t = g_hash_table_lookup(c->threads, &key);

    if (!t) {
        bool full = g_hash_table_size(c->threads) >= MAX_THREADS;
        bool kept = !full && keep_bytes(c, sizeof(*t));

        if (!kept) {
            forget_all(c);
            /* One there is in any case. */
            kept = keep_bytes(c, sizeof(*t));
        }
        t = g_new0(struct thread, 1);
        t->kept = kept;
        t->key = key;
        t->seen_number = UINT64_MAX;
        t->known_from = c->forgotten;
        g_hash_table_insert(c->threads, &t->key, t);
    }
    return t;
}

/*
 * The one that runs on a vCPU; @run gets its run if that has not been joined.
 */
static struct thread *running(struct long_calls *c, unsigned vcpu,
                              uint64_t cr3, struct thread_run **run)
{
    struct vcpu *v = &c->vcpus[vcpu];

    *run = NULL;
    if (!v->thread || v->between) {
        return find_thread(c, OF_SPACE | btrail_cr3_root(cr3));
    }
    if (!v->run.joined) {
        *run = &v->run;
    }
    return v->thread;
}

/* How much of the time since it left its vCPU counts, up to @time, of a call */
static uint64_t away_paused(const struct long_calls *c,
                            const struct thread *t, uint64_t time)
{
    return t->away ? any_pauses_in(c->by.pauses, t->away, time) : 0;
}

/*
 * Runs
 */

static bool has_anything(const struct thread_run *r)
{
    return r->n_ends || thread_calls_last(&r->calls);
}

/* Does it matter what a thread did before it came to the vCPU? */
static bool must_join(const struct vcpu *v)
{
    const struct thread *t = v->thread;

    return t && !v->run.joined && !v->between &&
           (thread_calls_last(&t->calls) || (t->runs && t->runs->len) ||
            has_anything(&v->run));
}

/* Has all been handed over that any other vCPU did before the run began? */
static bool is_next(struct long_calls *c, struct thread *t,
                    const struct thread_run *r)
{
    for (unsigned i = 0; i < c->n_vcpus; i++) {
        struct vcpu *v = &c->vcpus[i];

        if (i == r->vcpu) {
            continue;
        }
        if (handed_until(v) < r->in) {
            return false;
        }
        if (v->thread == t && v->run.in < r->in) {
            /* It has not said that the thread has left it. */
            if (!v->run.joined && has_anything(&v->run)) {
                leave_out_calls(c, &t->calls);
            }
            forget_running(c, v);
        }
    }
    return true;
}

/* The thread continues with a run. */
static unsigned join(struct long_calls *c, struct thread *t,
                     struct thread_run *r)
{
    unsigned found = 0;

    r->joined = true;
    t->known_from = r->in;
    thread_calls_skip(&t->calls, away_paused(c, t, r->in));
    t->away = r->out;
    for (unsigned i = 0; i < r->n_ends; i++) {
        thread_calls_end(&t->calls, &c->by, r->ends[i].to, r->ends[i].time,
                         &found);
    }
    for (uint64_t n = r->more_ends;
         n && open_spans_drop(&t->calls.spans); n--) {
        leave_out(c, 1);
    }
    /* Ends have their times without these. */
    thread_calls_skip(&t->calls, r->paused);
    thread_calls_doubt(&t->calls, &c->by, r->number);
    if (r->calls.outer.lasts) {
        thread_calls_begin(&t->calls, &c->by, &r->calls.outer);
    }
    if (r->calls.call.lasts) {
        thread_calls_begin(&t->calls, &c->by, &r->calls.call);
    }
    leave_out(c, open_spans_join(&t->calls.spans, &r->calls.spans));
    if (t->seen_in > r->in) {
        thread_calls_doubt(&t->calls, &c->by, t->seen_number);
    }
    return found;
}

/* Its run that is first of those that were not joined; @i gets its index if it
 * has ended. */
static struct thread_run *first_run(struct thread *t, struct vcpu *v,
                                    unsigned *index)
{
    struct thread_run *first = v && v->thread == t && !v->run.joined &&
                               v->run.in >= t->known_from ? &v->run : NULL;

    *index = MAX_RUNS;
    for (unsigned i = 0; t->runs && i < t->runs->len; i++) {
        struct thread_run *r = &g_array_index(t->runs, struct thread_run, i);

        /* Of the same moment, those that have ended were before. */
        if (!first || r->in < first->in ||
            (*index == MAX_RUNS && r->in == first->in)) {
            first = r;
            *index = i;
        }
    }
    return first;
}

/*
 * Joins those runs of a thread of which it is known what came before; @v is the
 * vCPU on which it runs, or NULL.  Returns how many calls have been found.
 */
static unsigned join_runs(struct long_calls *c, struct thread *t,
                          struct vcpu *v)
{
    unsigned found = 0, i;
    struct thread_run *r;

    while ((r = first_run(t, v, &i)) && is_next(c, t, r)) {
        found += join(c, t, r);
        if (i < MAX_RUNS) {
            remove_run(c, t, i);
        }
    }
    return found;
}

/* Forgets what a thread did in its runs: there are too many. */
static void forget_runs(struct long_calls *c, struct thread *t)
{
    for (; t->runs->len; remove_run(c, t, t->runs->len - 1)) {
        t->known_from = MAX(t->known_from,
                            g_array_index(t->runs, struct thread_run,
                                          t->runs->len - 1).in);
        leave_out_calls(c, &g_array_index(t->runs, struct thread_run,
                                          t->runs->len - 1).calls);
    }
    leave_out_calls(c, &t->calls);
    for (unsigned i = 0; i < c->n_vcpus; i++) {
        struct vcpu *v = &c->vcpus[i];

        if (v->thread == t && v->run.in < t->known_from) {
            v->run.joined = false;
        }
    }
}

/* Keeps a run that has ended, if there is something to join. */
static void keep_run(struct long_calls *c, struct thread *t,
                     struct thread_run *r)
{
    if (r->joined) {
        return;
    }
    if (r->in < t->known_from) {
        leave_out_calls(c, &r->calls);
        if (c->by.spans && r->n_ends) {
            leave_out_calls(c, &t->calls);
        }
        return;
    }
    if (!has_anything(r)) {
        t->seen_in = MAX(t->seen_in, r->in);
        t->seen_number = MIN(t->seen_number, r->number);
        return;
    }
    if (c->n_runs == MAX_WAITING || !keep_bytes(c, sizeof(*r))) {
        leave_out_calls(c, &r->calls);
        forget_all(c);
        return;
    }
    if (!t->runs) {
        t->runs = g_array_new(FALSE, FALSE, sizeof(struct thread_run));
    }
    if (t->runs->len == MAX_RUNS) {
        drop_bytes(c, sizeof(*r));
        leave_out_calls(c, &r->calls);
        forget_runs(c, t);
        return;
    }
    g_array_append_vals(t->runs, r, 1);
    c->n_runs++;
}

/* @time: when */
static void leave_thread(struct long_calls *c, struct vcpu *v, uint64_t time)
{
    struct thread *t = v->thread;

    if (t) {
        v->thread = NULL;
        v->run.out = time;
        if (v->run.joined) {
            t->away = time;
        }
        keep_run(c, t, &v->run);
    }
}

/*
 * When a task was switched to.  One without a clock ran here last, so it is
 * enough that this is not before what the vCPU did until then.
 */
static uint64_t switch_time(const struct vcpu *v, const struct btrail_event *e)
{
    uint32_t since = e->clock - (uint32_t)(v->time / BTRAIL_CLOCK_NS);

    return e->clock ? v->time + (uint64_t)since * BTRAIL_CLOCK_NS :
           handed_until(v);
}

/* Does a run count that has not been known from its beginning? */
static bool is_known_again(const struct vcpu *v)
{
    return v->run.in < v->thread->known_from &&
           v->time >= v->thread->known_from;
}

static unsigned switch_task(struct long_calls *c, unsigned vcpu,
                            const struct btrail_event *e)
{
    bool idle = !e->data[0], unknown = e->reason & BTRAIL_TASK_UNKNOWN;
    uint64_t key = idle ? OF_VCPU | vcpu :
                   e->data[0] & ~(OF_SPACE | OF_VCPU);
    struct vcpu *v = &c->vcpus[vcpu];
    struct thread *t;

    v->between = v->forgot = false;
    if (v->thread && v->thread->key == key && !unknown && !is_known_again(v)) {
        return 0;
    }
    leave_thread(c, v, switch_time(v, e));
    v->passed = MAX(v->passed, switch_time(v, e));
    if (idle || unknown) {
        /* Now, and a switch has a TIME event, if the last one is not as new. */
        v->n_begun = 0;
    }
    if (unknown) {
        return 0;
    }
    t = find_thread(c, key);
    v->thread = t;
    v->run = (struct thread_run) {
        .vcpu = vcpu,
        .in = switch_time(v, e),
        .number = ++c->now,
        .joined = idle,
    };
    if (idle) {
        thread_calls_skip(&t->calls, away_paused(c, t, v->run.in));
        t->away = 0;
    }
    return must_join(v) ? join_runs(c, t, v) : 0;
}

/*
 * Time
 */

static void delay_thread(struct thread *t, uint64_t begin, uint64_t time)
{
    thread_calls_delay(&t->calls, begin, time);
    for (unsigned i = 0; t->runs && i < t->runs->len; i++) {
        thread_calls_delay(&g_array_index(t->runs, struct thread_run, i).calls,
                           begin, time);
    }
}

/*
 * The device's tick is late: what has begun since the last one can have begun
 * at any time up to this one.  A vCPU that halts has no ticks, and a TIME event
 * before that.
 */
static void begun_before(struct long_calls *c, struct vcpu *v,
                          uint64_t time)
{
    uint64_t most = v->time + c->tick;

    if (v->n_begun > MAX_BEGUN) {
        GHashTableIter iter;
        gpointer t;

        g_hash_table_iter_init(&iter, c->threads);
        while (g_hash_table_iter_next(&iter, NULL, &t)) {
            delay_thread(t, most, time);
        }
    }
    for (unsigned i = 0; i < MIN(v->n_begun, MAX_BEGUN); i++) {
        struct thread *t = g_hash_table_lookup(c->threads, &v->begun[i]);

        if (t) {
            delay_thread(t, most, time);
        }
    }
    if (v->thread) {
        thread_calls_delay(&v->run.calls, most, time);
    }
}

static unsigned set_time(struct long_calls *c, unsigned vcpu,
                         uint64_t time)
{
    struct vcpu *v = &c->vcpus[vcpu];
    struct thread *t = v->thread;
    unsigned found = 0;

    if (v->time && time > v->time + c->tick) {
        begun_before(c, v, time);
    }
    if (!v->time) {
        /* The first one: the run has made no record before. */
        v->run.in = MAX(v->run.in, time);
    }
    v->time = time;
    v->n_begun = 0;
    if (!t || v->between) {
        return 0;
    }
    if (must_join(v)) {
        found = join_runs(c, t, v);
    }
    return found + thread_calls_find(v->run.joined ? &t->calls :
                                     &v->run.calls, &c->by, time);
}

/* The thread that was on the vCPU was paused; others are asked when they go on,
 * or have waited for too long. */
static void end_pause(struct long_calls *c, struct vcpu *v,
                      const struct btrail_pause *pause)
{
    uint64_t ns = pause->end - pause->begin;

    any_pauses_add(c->by.pauses, pause);
    if (v->thread) {
        thread_calls_skip(v->run.joined ? &v->thread->calls : &v->run.calls,
                          ns);
        v->run.paused += ns;
    }
    v->time = MAX(v->time, pause->end);
}

unsigned long_calls_event(struct long_calls *c, unsigned vcpu,
                          const struct btrail_event *e)
{
    struct vcpu *v = &c->vcpus[vcpu];
    struct btrail_pause pause;
    /* In a pause, time stands. */
    uint64_t time = v->watch.reasons ? MIN(e->data[0], v->watch.since) :
                    e->data[0];
    bool ended = btrail_pause_watch_event(&v->watch, e, &pause);

    switch (e->type) {
    case BTRAIL_EVENT_TASK:
        /* A nested guest has the same numbers again. */
        return v->nested ? 0 : switch_task(c, vcpu, e);
    case BTRAIL_EVENT_KERNEL:
        /* Each slab has one, with the TASK in force after it. */
        v->nested = e->reason & BTRAIL_KERNEL_NESTED;
        if (v->nested || v->kernel != e->data[0]) {
            leave_thread(c, v, handed_until(v));
        }
        if (!v->nested) {
            v->kernel = e->data[0];
        }
        v->between = true;
        return 0;
    case BTRAIL_EVENT_TIME:
        return set_time(c, vcpu, time);
    case BTRAIL_EVENT_PAUSE:
        /* What it has begun was before. */
        return time ? set_time(c, vcpu, time) : 0;
    case BTRAIL_EVENT_RESUME:
        if (ended) {
            end_pause(c, v, &pause);
        }
        return 0;
    case BTRAIL_EVENT_GAP:
        if (e->data[0]) {
            long_calls_lost(c, vcpu);
        }
        return 0;
    default:
        return 0;
    }
}

/* Any thread can have returned there. */
void long_calls_lost(struct long_calls *c, unsigned vcpu)
{
    forget_all(c);
}

static void add_begun(struct vcpu *v, uint64_t key)
{
    for (unsigned i = 0; i < MIN(v->n_begun, MAX_BEGUN); i++) {
        if (v->begun[i] == key) {
            return;
        }
    }
    if (v->n_begun < MAX_BEGUN) {
        v->begun[v->n_begun] = key;
    }
    v->n_begun = MIN(v->n_begun + 1, MAX_BEGUN + 1);
}

static struct lasting_call new_call(const struct long_calls *c,
                                    const struct vcpu *v, uint64_t from)
{
    return (struct lasting_call) {
        .lasts = true,
        .from = from,
        .begin = v->time + c->tick,
        .any = !v->thread || v->between,
    };
}

void long_calls_begin(struct long_calls *c, unsigned vcpu,
                      uint64_t cr3, uint64_t from)
{
    struct vcpu *v = &c->vcpus[vcpu];
    const struct lasting_call call = new_call(c, v, from);
    struct thread *t;
    struct thread_run *run;

    /* Without a time nothing can be measured. */
    if (!v->time || !call_sites_add(c->by.sites, from, &c->now)) {
        return;
    }
    t = running(c, vcpu, cr3, &run);
    thread_calls_begin(run ? &run->calls : &t->calls, &c->by, &call);
    add_begun(v, t->key);
}

/*
 * Do marks of a vCPU come in the order in which its thread has left them?  What
 * an address space does on several vCPUs does not.
 */
static bool is_in_order(const struct long_calls *c, const struct vcpu *v)
{
    return !v->forgot && (c->n_vcpus == 1 || (v->thread && !v->between));
}

void long_calls_begin_span(struct long_calls *c, unsigned vcpu, uint64_t cr3)
{
    struct vcpu *v = &c->vcpus[vcpu];
    struct lasting_call span = new_call(c, v, 0);
    struct thread_run *run;
    struct thread *t;

    if (!is_in_order(c, v)) {
        leave_out(c, 1);
        return;
    }
    t = running(c, vcpu, cr3, &run);
    /* It is open all the same, for marks B that come. */
    if (!v->time) {
        span.found = true;
        leave_out(c, 1);
    }
    leave_out(c, !open_spans_begin(run ? &run->calls.spans : &t->calls.spans,
                                   &span));
    add_begun(v, t->key);
}

/* Remembers the first return of a run to a place, or each end of a span. */
static void add_end(const struct long_calls *c, struct thread_run *r,
                    uint64_t to, uint64_t time)
{
    for (unsigned i = 0; !c->by.spans && i < r->n_ends; i++) {
        if (r->ends[i].to == to) {
            return;
        }
    }
    if (r->n_ends == MAX_ENDS) {
        r->more_ends++;
    } else if (c->by.spans || call_sites_return(c->by.sites, to)) {
        r->ends[r->n_ends].to = to;
        r->ends[r->n_ends++].time = time - r->paused;
    }
}

/* The same of calls and of spans */
static bool end_any(struct long_calls *c, unsigned vcpu, uint64_t cr3,
                    uint64_t to)
{
    uint64_t time = c->vcpus[vcpu].time;
    struct thread *t;
    struct thread_run *run;
    unsigned found = 0;

    t = running(c, vcpu, cr3, &run);
    if (!thread_calls_end(run ? &run->calls : &t->calls, &c->by, to, time,
                          &found) && run) {
        add_end(c, run, to, time);
    }
    return found;
}

bool long_calls_end(struct long_calls *c, unsigned vcpu,
                    uint64_t cr3, uint64_t to)
{
    return call_sites_may_return(c->by.sites, to) &&
           end_any(c, vcpu, cr3, to);
}

bool long_calls_end_span(struct long_calls *c, unsigned vcpu, uint64_t cr3)
{
    return is_in_order(c, &c->vcpus[vcpu]) && end_any(c, vcpu, cr3, 0);
}

void long_calls_passed(struct long_calls *c, unsigned vcpu,
                       uint64_t time)
{
    struct vcpu *v = &c->vcpus[vcpu];

    /*
     * A busy host can keep a vCPU from what is believed of it.  One that
     * executes has TIME events, which say more.
     */
    if (c->doubtful && v->thread && !(v->thread->key & OF_VCPU) &&
        !v->watch.reasons) {
        return;
    }
    v->passed = MAX(v->passed, time);
    if (v->n_begun && time > v->time + c->tick) {
        begun_before(c, v, time);
        v->n_begun = 0;
    }
}

/* Up to when is it known what all vCPUs did?  Not in a pause that lasts. */
static uint64_t known_until(const struct long_calls *c)
{
    uint64_t until = UINT64_MAX;

    for (unsigned i = 0; i < c->n_vcpus; i++) {
        const struct vcpu *v = &c->vcpus[i];

        until = MIN(until, v->watch.reasons ? v->watch.since :
                    handed_until(v));
    }
    return until;
}

/*
 * The threads whose last call began since the last tick of a vCPU, which may be
 * late.  Returns whether it may be any.
 */
static bool wait_for_tick(struct long_calls *c, const struct vcpu *v)
{
    for (unsigned i = 0; i < MIN(v->n_begun, MAX_BEGUN); i++) {
        struct thread *t = g_hash_table_lookup(c->threads, &v->begun[i]);

        if (t) {
            t->waits = true;
        }
    }
    return v->n_begun > MAX_BEGUN;
}

unsigned long_calls_waiting(struct long_calls *c)
{
    uint64_t until = known_until(c);
    GHashTableIter iter;
    gpointer value;
    bool all_wait = false;
    unsigned n = 0;

    for (unsigned i = 0; i < c->n_vcpus; i++) {
        struct vcpu *v = &c->vcpus[i];
        struct thread *t = v->thread;

        if (must_join(v)) {
            n += join_runs(c, t, v);
            t->waits |= !v->run.joined && has_anything(&v->run);
        }
        all_wait |= wait_for_tick(c, v);
    }
    g_hash_table_iter_init(&iter, c->threads);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct thread *t = value;

        if (t->runs && t->runs->len) {
            n += join_runs(c, t, NULL);
            t->waits |= t->runs->len;
        }
        if (t->seen_in < until) {
            t->seen_number = UINT64_MAX;
        }
        if (!t->waits && !all_wait && !(t->key & (OF_SPACE | OF_VCPU))) {
            n += thread_calls_find(&t->calls, &c->by,
                                   until - away_paused(c, t, until));
        }
        t->waits = false;
    }
    return n;
}
