/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls of a function that take longer than some time: see long-calls.h
 */

#include "drain/long-calls.h"
#include "util/hash.h"

/* Threads and places of calls that are remembered.  The guest chooses them. */
#define MAX_THREADS 4096
#define MAX_SITES   4096

/* The longest call instruction that is in use: REX, FF /2, SIB, disp32 */
#define MAX_CALL    9

/* Threads that no number names: those of an address space, the idle ones */
#define OF_SPACE    (UINT64_C(1) << 62)     /* not a bit of any root */
#define OF_VCPU     (UINT64_C(1) << 61)

/*
 * A thread, and its outermost call.  Calls that the function makes of itself
 * are part of that.
 */
struct thread {
    uint64_t key;
    unsigned vcpu;              /* that it ran on last */
    uint64_t seen;              /* when it was switched to there */
    bool runs;
    bool calls;
    bool found;                 /* to be too long */
    uint64_t from;
    uint64_t begin;
};

struct vcpu {
    bool nested;
    uint64_t time;              /* of the last TIME event; 0: none yet */
    struct thread *thread;      /* that TASK has named, or NULL */
};

struct btrail_long_calls {
    uint64_t ns, tick;
    unsigned n_calls;
    GHashTable *threads;        /* by key */
    GHashTable *sites;          /* of calls that have returned */
    struct vcpu vcpus[BTRAIL_MAX_VCPUS];
};

struct btrail_long_calls *btrail_long_calls_new(uint64_t ns)
{
    struct btrail_long_calls *c = g_new0(struct btrail_long_calls, 1);

    c->ns = ns;
    c->threads = g_hash_table_new_full(btrail_int64_hash, g_int64_equal, NULL,
                                       g_free);
    c->sites = g_hash_table_new_full(btrail_int64_hash, g_int64_equal, g_free,
                                     NULL);
    return c;
}

void btrail_long_calls_free(struct btrail_long_calls *c)
{
    if (c) {
        g_hash_table_unref(c->threads);
        g_hash_table_unref(c->sites);
        g_free(c);
    }
}

void btrail_long_calls_set_tick(struct btrail_long_calls *c, uint64_t ns)
{
    c->tick = ns;
}

bool btrail_long_calls_any(const struct btrail_long_calls *c)
{
    return c->n_calls;
}

/* Forgets all threads, of which there are too many, or which are not known. */
static void forget_all(struct btrail_long_calls *c)
{
    g_hash_table_remove_all(c->threads);
    c->n_calls = 0;
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        c->vcpus[i].thread = NULL;
    }
}

static struct thread *find_thread(struct btrail_long_calls *c, uint64_t key)
{
    struct thread *t = g_hash_table_lookup(c->threads, &key);

    if (!t) {
        if (g_hash_table_size(c->threads) >= MAX_THREADS) {
            forget_all(c);
        }
        t = g_new0(struct thread, 1);
        t->key = key;
        g_hash_table_insert(c->threads, &t->key, t);
    }
    return t;
}

/* The one that runs on a vCPU */
static struct thread *running(struct btrail_long_calls *c, unsigned vcpu,
                              uint64_t cr3)
{
    return c->vcpus[vcpu].thread ? c->vcpus[vcpu].thread :
           find_thread(c, OF_SPACE | btrail_cr3_root(cr3));
}

static void stop_running(struct vcpu *v)
{
    if (v->thread) {
        v->thread->runs = false;
        v->thread = NULL;
    }
}

static void switch_task(struct btrail_long_calls *c, unsigned vcpu,
                        const struct btrail_event *e)
{
    struct vcpu *v = &c->vcpus[vcpu];
    struct thread *t;

    stop_running(v);
    if (e->reason & BTRAIL_TASK_UNKNOWN) {
        return;
    }
    t = find_thread(c, e->data[0] ? e->data[0] & ~(OF_SPACE | OF_VCPU) :
                    OF_VCPU | vcpu);
    t->vcpu = vcpu;
    t->seen = v->time;
    t->runs = true;
    v->thread = t;
}

static bool is_too_long(const struct btrail_long_calls *c,
                        const struct thread *t, uint64_t now)
{
    return now > t->begin && now - t->begin > c->ns &&
           now - t->begin - c->ns > c->tick;
}

static bool has_returned(const struct btrail_long_calls *c, uint64_t from)
{
    return g_hash_table_contains(c->sites, &from);
}

unsigned btrail_long_calls_event(struct btrail_long_calls *c, unsigned vcpu,
                                 const struct btrail_event *e)
{
    struct vcpu *v = &c->vcpus[vcpu];
    struct thread *t = v->thread;

    switch (e->type) {
    case BTRAIL_EVENT_TASK:
        /* A nested guest has the same numbers again. */
        if (!v->nested) {
            switch_task(c, vcpu, e);
        }
        return 0;
    case BTRAIL_EVENT_KERNEL:
        stop_running(v);
        v->nested = e->reason & BTRAIL_KERNEL_NESTED;
        return 0;
    case BTRAIL_EVENT_TIME:
        v->time = e->data[0];
        if (t && t->calls && !t->found && has_returned(c, t->from) &&
            is_too_long(c, t, v->time)) {
            t->found = true;
            return 1;
        }
        return 0;
    case BTRAIL_EVENT_GAP:
        if (e->data[0]) {
            btrail_long_calls_lost(c, vcpu);
        }
        return 0;
    default:
        return 0;
    }
}

/* Any thread can have returned there. */
void btrail_long_calls_lost(struct btrail_long_calls *c, unsigned vcpu)
{
    forget_all(c);
}

void btrail_long_calls_begin(struct btrail_long_calls *c, unsigned vcpu,
                             uint64_t cr3, uint64_t from)
{
    struct vcpu *v = &c->vcpus[vcpu];
    struct thread *t = running(c, vcpu, cr3);

    /*
     * Without a time nothing can be measured.  A thread that runs elsewhere
     * already, whose records came first, may have returned there.
     */
    if (!v->time ||
        (t->vcpu != vcpu && t->seen && t->seen + c->tick >= v->time)) {
        return;
    }
    /* One that goes on, unless it must have ended without a return */
    if (t->calls && t->from != from) {
        return;
    }
    c->n_calls += !t->calls;
    t->calls = true;
    t->found = false;
    t->from = from;
    t->begin = v->time;
}

bool btrail_long_calls_end(struct btrail_long_calls *c, unsigned vcpu,
                           uint64_t cr3, uint64_t to)
{
    struct thread *t = running(c, vcpu, cr3);
    bool found;

    if (!t->calls || to - t->from - 1 >= MAX_CALL) {
        return false;
    }
    found = !t->found && is_too_long(c, t, c->vcpus[vcpu].time);
    if (!has_returned(c, t->from) &&
        g_hash_table_size(c->sites) < MAX_SITES) {
        g_hash_table_add(c->sites, g_memdup2(&t->from, sizeof(t->from)));
    }
    t->calls = false;
    c->n_calls--;
    return found;
}

unsigned btrail_long_calls_waiting(struct btrail_long_calls *c, uint64_t now)
{
    uint64_t time = now - MIN(now, BTRAIL_LONG_CALLS_LATE);
    GHashTableIter iter;
    gpointer value;
    unsigned n = 0;

    if (!c->n_calls) {
        return 0;
    }
    g_hash_table_iter_init(&iter, c->threads);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct thread *t = value;

        if (t->calls && !t->runs && !t->found &&
            !(t->key & (OF_SPACE | OF_VCPU)) && has_returned(c, t->from) &&
            is_too_long(c, t, time)) {
            t->found = true;
            n++;
        }
    }
    return n;
}
