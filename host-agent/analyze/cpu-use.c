/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who used a vCPU while a thread did not run: see cpu-use.h
 */

#include <stdlib.h>
#include <string.h>

#include "analyze/cpu-use.h"
#include "backtrail/trace.h"
#include "util/hash.h"
#include "util/search.h"

#define NOWHERE     UINT32_MAX

/* Runs of a vCPU that are kept; a power of two */
#define RUNS        1024u

/* Users that are told apart while one wait is summed up */
#define USERS       16u

/* From @since on, up to the next run, the vCPU is used by @process; NULL: it is
 * not known by whom. */
struct use_run {
    const struct process *process;
    uint64_t since;
};

/**
 * struct use_cpu - a vCPU
 * @n:      runs, of which the last ones are in @runs, or NULL
 * @process: of the last run
 * @thread: the same, if it can be followed and runs; or NULL
 * @until:  the end of its last record
 */
struct use_cpu {
    uint64_t n;
    struct use_run *runs;
    const struct process *process;
    struct cpu_use_thread *thread;
    uint64_t until;
};

struct use_wait {
    struct cpu_use_user users[CPU_USE_USERS];
};

/**
 * struct cpu_use_thread
 * @vcpu:   that runs it; or NOWHERE
 * @left:   or that it has left, at the time @since; or NOWHERE
 * @forgot: struct cpu_use's @forgets, then
 * @waited: up to now
 * @waits:  the last ones, or NULL
 */
struct cpu_use_thread {
    uint64_t key[2];
    uint32_t vcpu;
    uint32_t left;
    uint64_t since;
    uint64_t forgot;
    struct cpu_use_mark waited;
    struct use_wait *waits;
};

/* @forgets: how often nobody knew which threads run */
struct cpu_use {
    struct use_cpu cpus[BTRAIL_MAX_VCPUS];
    GHashTable *threads;        /* key -> struct cpu_use_thread */
    uint64_t forgets;
};

static void free_thread(gpointer p)
{
    struct cpu_use_thread *t = p;

    g_free(t->waits);
    g_free(t);
}

struct cpu_use *cpu_use_new(void)
{
    struct cpu_use *u = g_new0(struct cpu_use, 1);

    u->threads = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                       NULL, free_thread);
    return u;
}

void cpu_use_free(struct cpu_use *u)
{
    if (u) {
        for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
            g_free(u->cpus[i].runs);
        }
        g_hash_table_unref(u->threads);
        g_free(u);
    }
}

struct cpu_use_thread *cpu_use_thread(struct cpu_use *u,
                                      const struct process *p)
{
    struct cpu_use_thread *t;

    /* Idle tasks are all No 0. */
    if (!p || p->owner == p || p->tid <= 0) {
        return NULL;
    }
    const uint64_t key[2] = {
        (uint64_t)p->nested << 32 | (uint32_t)p->pid, p->tid,
    };

    t = g_hash_table_lookup(u->threads, key);
    if (!t) {
        t = g_new0(struct cpu_use_thread, 1);
        memcpy(t->key, key, sizeof(key));
        t->vcpu = t->left = NOWHERE;
        g_hash_table_insert(u->threads, t->key, t);
    }
    return t;
}

/* A thread can have several: one for each address space, and each name. */
static bool is_same(const struct process *a, const struct process *b)
{
    return a == b || (a->tid >= 0 && a->tid == b->tid && a->pid == b->pid &&
                      a->nested == b->nested && !strcmp(a->comm, b->comm));
}

static void sum_user(struct cpu_use_user *users, unsigned *n, unsigned most,
                     const struct process *p, uint64_t ns)
{
    unsigned i = 0;

    while (i < *n && !is_same(users[i].process, p)) {
        i++;
    }
    if (i < *n) {
        users[i].ns += ns;
    } else if (i < most) {
        users[(*n)++] = (struct cpu_use_user) { p, ns };
    }
}

static int by_time(gconstpointer a, gconstpointer b)
{
    const struct cpu_use_user *x = a, *y = b;

    return BTRAIL_COMPARE(y->ns, x->ns);
}

/* Who used a vCPU most between two times, as far as its runs go back */
static void find_users(const struct use_cpu *cpu, uint64_t since,
                       uint64_t until, struct use_wait *wait)
{
    struct cpu_use_user users[USERS];
    /* Another vCPU can be ahead.  One that is idle makes no records. */
    uint64_t end = cpu->thread ? MIN(until, cpu->until) : until;
    unsigned n = 0;

    for (uint64_t i = cpu->n; i && cpu->n - i < RUNS; i--) {
        const struct use_run *run = &cpu->runs[(i - 1) % RUNS];
        uint64_t begin = MAX(run->since, since);

        if (begin < end && run->process) {
            sum_user(users, &n, USERS, run->process, end - begin);
        }
        end = MIN(end, begin);
        if (run->since <= since) {
            break;
        }
    }
    qsort(users, n, sizeof(*users), by_time);
    memset(wait, 0, sizeof(*wait));
    memcpy(wait->users, users, MIN(n, CPU_USE_USERS) * sizeof(*users));
}

/* A thread is back. */
static void add_wait(struct cpu_use *u, struct cpu_use_thread *t,
                     uint64_t until)
{
    if (t->forgot != u->forgets || !t->since || !until) {
        t->waited.unknown++;
    } else if (until > t->since) {
        if (!t->waits) {
            t->waits = g_new(struct use_wait, CPU_USE_WAITS);
        }
        find_users(&u->cpus[t->left], t->since, until,
                   &t->waits[t->waited.waits % CPU_USE_WAITS]);
        t->waited.ns += until - t->since;
        t->waited.waits++;
    }
    t->left = NOWHERE;
}

static void add_run(struct use_cpu *cpu, const struct process *p,
                    uint64_t since)
{
    struct use_run *last;

    if (!cpu->runs) {
        cpu->runs = g_new(struct use_run, RUNS);
    }
    last = cpu->n ? &cpu->runs[(cpu->n - 1) % RUNS] : NULL;
    if (!last || last->process != p) {
        cpu->runs[cpu->n++ % RUNS] = (struct use_run) {
            p, last ? MAX(since, last->since) : since,
        };
    }
}

static void leave(struct cpu_use *u, unsigned vcpu)
{
    struct use_cpu *cpu = &u->cpus[vcpu];
    struct cpu_use_thread *t = cpu->thread;

    cpu->thread = NULL;
    /* It can have been seen on another vCPU before. */
    if (t && t->vcpu == vcpu) {
        t->vcpu = NOWHERE;
        t->left = vcpu;
        t->since = cpu->until;
        t->forgot = u->forgets;
    }
}

static void come(struct cpu_use *u, struct cpu_use_thread *t, unsigned vcpu,
                 uint64_t time)
{
    if (t) {
        if (t->left != NOWHERE) {
            add_wait(u, t, time);
        }
        t->vcpu = vcpu;
    }
    u->cpus[vcpu].thread = t;
}

void cpu_use_runs(struct cpu_use *u, unsigned vcpu, const struct process *p,
                  uint64_t since, uint64_t until)
{
    struct use_cpu *cpu = &u->cpus[vcpu];
    struct cpu_use_thread *t = cpu->thread;

    if (!p) {
        /* It can be any thread. */
        u->forgets++;
    }
    if (!t || p != cpu->process) {
        t = cpu_use_thread(u, p);
        if (cpu->thread && t != cpu->thread && since > cpu->until) {
            add_run(cpu, NULL, cpu->until);
        }
        add_run(cpu, p, since);
    }
    if (t != cpu->thread) {
        leave(u, vcpu);
        come(u, t, vcpu, since);
    }
    cpu->process = p;
    cpu->until = until;
}

void cpu_use_gap(struct cpu_use *u, unsigned vcpu)
{
    struct use_cpu *cpu = &u->cpus[vcpu];

    u->forgets++;
    leave(u, vcpu);
    if (cpu->runs) {
        add_run(cpu, NULL, cpu->until);
    }
    u->forgets++;
}

struct cpu_use_mark cpu_use_mark(const struct cpu_use_thread *t)
{
    return t ? t->waited : (struct cpu_use_mark) { 0 };
}

struct cpu_use_sum cpu_use_since(const struct cpu_use_thread *t,
                                 const struct cpu_use_mark *mark)
{
    struct cpu_use_user users[USERS];
    struct cpu_use_sum sum = { 0 };
    uint64_t i, said = 0;
    unsigned n = 0;

    if (!t) {
        return sum;
    }
    sum.ns = t->waited.ns - mark->ns;
    sum.least = t->waited.unknown != mark->unknown;
    i = t->waited.waits - MIN(t->waited.waits - mark->waits, CPU_USE_WAITS);
    for (; i < t->waited.waits; i++) {
        const struct use_wait *wait = &t->waits[i % CPU_USE_WAITS];

        for (unsigned k = 0; k < CPU_USE_USERS; k++) {
            if (wait->users[k].process) {
                sum_user(users, &n, USERS, wait->users[k].process,
                         wait->users[k].ns);
            }
        }
    }
    qsort(users, n, sizeof(*users), by_time);
    sum.n_users = MIN(n, CPU_USE_USERS);
    memcpy(sum.users, users, sum.n_users * sizeof(*users));
    for (unsigned k = 0; k < sum.n_users; k++) {
        said += users[k].ns;
    }
    sum.others = sum.ns - MIN(said, sum.ns);
    return sum;
}
