/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The threads of a trace: see cpu-threads.h
 */

#include "analyze/cpu-threads.h"
#include "lib/agent/thread.h"
#include "util/hash.h"
#include "util/search.h"

/*
 * @process: the task that runs; NULL if it has no thread
 * @thread:  its thread, or NULL
 * @since:   when it began to run here
 * @time:    up to which the vCPU has made records
 */
struct thread_cpu {
    const struct process *process;
    struct cpu_thread *thread;
    uint64_t since;
    uint64_t time;
};

struct cpu_threads {
    size_t size;
    GDestroyNotify clear;
    struct thread_cpu cpus[BTRAIL_MAX_VCPUS];
    GHashTable *threads;        /* pid and tid -> struct cpu_thread */
    uint64_t gaps;
};

struct cpu_threads *cpu_threads_new(size_t size, GDestroyNotify clear)
{
    struct cpu_threads *c = g_new0(struct cpu_threads, 1);

    c->size = size;
    c->clear = clear;
    c->threads = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                       g_free, g_free);
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
    g_free(c);
}

void cpu_threads_time(struct cpu_threads *c, unsigned vcpu, uint64_t time)
{
    c->cpus[vcpu].time = MAX(c->cpus[vcpu].time, time);
}

static struct cpu_thread *add_thread(struct cpu_threads *c,
                                     const uint64_t key[2])
{
    struct cpu_thread *t = g_malloc0(c->size);

    t->number = g_hash_table_size(c->threads);
    t->gaps = c->gaps;
    g_hash_table_insert(c->threads, g_memdup2(key, 2 * sizeof(*key)), t);
    return t;
}

void *cpu_threads_run(struct cpu_threads *c, unsigned vcpu, uint64_t time,
                      const struct process *p)
{
    struct thread_cpu *cpu = &c->cpus[vcpu];

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

void cpu_threads_gap(struct cpu_threads *c, unsigned vcpu)
{
    struct thread_cpu *lost = &c->cpus[vcpu];
    GHashTableIter iter;
    gpointer thread;

    g_hash_table_iter_init(&iter, c->threads);
    while (g_hash_table_iter_next(&iter, NULL, &thread)) {
        struct cpu_thread *t = thread;
        const struct thread_cpu *cpu = &c->cpus[t->vcpu];

        if (t->gaps != c->gaps) {
            t->known_until = MIN(t->known_until, lost->time);
        } else if (t->vcpu != vcpu && cpu->thread == t &&
                   cpu->since <= lost->time) {
            t->gaps++;
        } else {
            t->known_until = lost->time;
        }
    }
    c->gaps++;
    lost->process = NULL;
    lost->thread = NULL;
}

bool cpu_threads_lost(const struct cpu_threads *c, const void *thread)
{
    const struct cpu_thread *t = thread;

    return t->gaps != c->gaps;
}

void cpu_threads_found(const struct cpu_threads *c, void *thread)
{
    struct cpu_thread *t = thread;

    t->gaps = c->gaps;
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
