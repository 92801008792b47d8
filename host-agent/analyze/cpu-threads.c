/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The threads of a trace: see cpu-threads.h
 */

#include "analyze/cpu-threads.h"
#include "lib/agent/thread.h"
#include "util/hash.h"
#include "util/search.h"

/* Up to here it does not matter which are needed. */
#define SOME_GAPS 1024

/*
 * @process: the task that runs; NULL if it has no thread
 * @thread:  its thread, or NULL
 * @since:   when it began to run here
 * @time:    up to which the vCPU has made records
 * @known:   up to which its pauses are those of threads
 */
struct thread_cpu {
    const struct process *process;
    struct cpu_thread *thread;
    uint64_t since;
    uint64_t time;
    uint64_t known;
};

/*
 * Records are missing.
 * @number: how many gaps were before
 * @since:  this time
 * @needed: for drop_gaps()
 */
struct thread_gap {
    uint64_t number;
    uint64_t since;
    bool needed;
};

/*
 * @n_cpus:  that have run or lost anything are before it
 * @threads: pid and tid -> struct cpu_thread
 * @n_gaps:  up to now
 * @gaps:    those since times that are before those of all later ones
 * @enough:  gaps, after which those that no thread needs are looked for
 */
struct cpu_threads {
    const struct pauses *pauses;
    size_t size;
    GDestroyNotify clear;
    struct thread_cpu cpus[BTRAIL_MAX_VCPUS];
    unsigned n_cpus;
    GHashTable *threads;
    uint64_t n_gaps;
    GArray *gaps;
    size_t enough;
};

struct cpu_threads *cpu_threads_new(size_t size, GDestroyNotify clear)
{
    struct cpu_threads *c = g_new0(struct cpu_threads, 1);

    c->size = size;
    c->clear = clear;
    c->threads = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                       g_free, g_free);
    c->gaps = g_array_new(FALSE, FALSE, sizeof(struct thread_gap));
    return c;
}

void cpu_threads_free(struct cpu_threads *c)
{
    GHashTableIter iter;
    gpointer thread;

    g_hash_table_iter_init(&iter, c->threads);
    while (c->clear && g_hash_table_iter_next(&iter, NULL, &thread)) {
        c->clear(thread);
    }
    g_hash_table_unref(c->threads);
    g_array_unref(c->gaps);
    g_free(c);
}

static struct thread_gap *thread_gap(const struct cpu_threads *c, size_t i)
{
    return &g_array_index(c->gaps, struct thread_gap, i);
}

void cpu_threads_time(struct cpu_threads *c, unsigned vcpu, uint64_t time)
{
    c->cpus[vcpu].time = MAX(c->cpus[vcpu].time, time);
}

void cpu_threads_set_pauses(struct cpu_threads *c, const struct pauses *pauses)
{
    c->pauses = pauses;
}

/* The thread of a vCPU has run there up to a time. */
static void add_pauses(struct cpu_threads *c, unsigned vcpu, uint64_t time)
{
    struct thread_cpu *cpu = &c->cpus[vcpu];

    if (c->pauses && cpu->thread && cpu->thread->vcpu == vcpu) {
        cpu->thread->paused += pauses_vcpu_alone(c->pauses, vcpu, cpu->known,
                                                 time);
    }
    cpu->known = MAX(cpu->known, time);
}

void cpu_threads_end(struct cpu_threads *c, uint64_t time)
{
    for (unsigned i = 0; i < c->n_cpus; i++) {
        add_pauses(c, i, time);
    }
}

static struct cpu_thread *add_thread(struct cpu_threads *c,
                                     const uint64_t key[2])
{
    struct cpu_thread *t = g_malloc0(c->size);

    t->number = g_hash_table_size(c->threads);
    t->gaps = c->n_gaps;
    g_hash_table_insert(c->threads, g_memdup2(key, 2 * sizeof(*key)), t);
    return t;
}

void *cpu_threads_run(struct cpu_threads *c, unsigned vcpu, uint64_t time,
                      const struct process *p)
{
    struct thread_cpu *cpu = &c->cpus[vcpu];

    c->n_cpus = MAX(c->n_cpus, vcpu + 1);
    add_pauses(c, vcpu, time);
    /* Idle tasks are all No 0. */
    if (!p || p->owner == p || p->tid <= 0) {
        cpu->process = NULL;
        cpu->thread = NULL;
        return NULL;
    }
    if (cpu->process != p) {
        const uint64_t key[2] = {
            (uint64_t)p->nested << 32 | (uint32_t)p->pid, p->tid,
        };

        cpu->process = p;
        cpu->thread = g_hash_table_lookup(c->threads, key) ?:
                      add_thread(c, key);
        cpu->since = time;
    } else if (cpu->thread->vcpu != vcpu) {
        cpu->since = time;
    }
    cpu->thread->vcpu = vcpu;
    return cpu->thread;
}

void *cpu_threads_now(const struct cpu_threads *c, unsigned vcpu)
{
    return c->cpus[vcpu].thread;
}

/* Of the gaps in which a thread can have made records, the one that begins at
 * the first time */
static struct thread_gap *first_gap(const struct cpu_threads *c,
                                    const struct cpu_thread *t)
{
    size_t before = !t->gaps ? 0 :
                    BTRAIL_UP_TO(c->gaps->data, c->gaps->len,
                                 struct thread_gap, number, t->gaps - 1);

    return thread_gap(c, before);
}

/* Of any number of gaps no more are kept than there are threads. */
static void drop_gaps(struct cpu_threads *c)
{
    GHashTableIter iter;
    gpointer thread;
    unsigned kept = 0;

    g_hash_table_iter_init(&iter, c->threads);
    while (g_hash_table_iter_next(&iter, NULL, &thread)) {
        if (cpu_threads_lost(c, thread)) {
            first_gap(c, thread)->needed = true;
        }
    }
    for (unsigned i = 0; i < c->gaps->len; i++) {
        if (thread_gap(c, i)->needed) {
            *thread_gap(c, kept) = *thread_gap(c, i);
            thread_gap(c, kept++)->needed = false;
        }
    }
    g_array_set_size(c->gaps, kept);
    c->enough = MAX(SOME_GAPS, 2 * kept);
}

void cpu_threads_gap(struct cpu_threads *c, unsigned vcpu)
{
    struct thread_cpu *lost = &c->cpus[vcpu];
    const struct thread_gap gap = { .number = c->n_gaps, .since = lost->time };

    for (unsigned i = 0; i < c->n_cpus; i++) {
        const struct thread_cpu *cpu = &c->cpus[i];
        struct cpu_thread *t = cpu->thread;

        if (i != vcpu && t && t->vcpu == i && t->gaps == c->n_gaps &&
            cpu->since <= lost->time) {
            t->gaps++;
        }
    }
    while (c->gaps->len &&
           thread_gap(c, c->gaps->len - 1)->since >= gap.since) {
        g_array_set_size(c->gaps, c->gaps->len - 1);
    }
    g_array_append_val(c->gaps, gap);
    c->n_gaps++;
    lost->process = NULL;
    lost->thread = NULL;
    if (c->gaps->len > c->enough) {
        drop_gaps(c);
    }
}

bool cpu_threads_lost(const struct cpu_threads *c, const void *thread)
{
    const struct cpu_thread *t = thread;

    return t->gaps != c->n_gaps;
}

uint64_t cpu_threads_lost_since(const struct cpu_threads *c,
                                const void *thread)
{
    return first_gap(c, thread)->since;
}

void cpu_threads_found(const struct cpu_threads *c, void *thread)
{
    struct cpu_thread *t = thread;

    t->gaps = c->n_gaps;
}

void *cpu_threads_find(const struct cpu_threads *c,
                       const struct btrail_task *task)
{
    const uint64_t key[2] = { btrail_thread_process(task), task->tid };

    return g_hash_table_lookup(c->threads, key);
}

static gint by_number(gconstpointer a, gconstpointer b)
{
    const struct cpu_thread *x = a, *y = b;

    return BTRAIL_COMPARE(x->number, y->number);
}

GList *cpu_threads_all(const struct cpu_threads *c)
{
    return g_list_sort(g_hash_table_get_values(c->threads), by_number);
}
