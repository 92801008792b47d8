/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tasks that do not run: see off-cpu.h
 */

#include <string.h>

#include "analyze/off-cpu.h"
#include "util/hash.h"

/* A task runs this last; its number can be given to another one. */
#define DEAD    "do_task_dead"

struct off_cpu {
    GHashTable *away;           /* key of a task -> struct off_cpu_wait */
    uint64_t forgotten;
};

struct off_cpu *off_cpu_new(void)
{
    struct off_cpu *o = g_new0(struct off_cpu, 1);

    o->away = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                    g_free, g_free);
    return o;
}

void off_cpu_free(struct off_cpu *o)
{
    if (o) {
        g_hash_table_unref(o->away);
        g_free(o);
    }
}

/* Each kernel counts its tasks from 1. */
static void get_key(uint64_t key[2], const struct task *task)
{
    key[0] = (uint64_t)task->nested << 32 | (uint32_t)task->where.kernel;
    key[1] = task->tid;
}

bool off_cpu_ends_in(const struct function *f)
{
    return f && f->known && f->module->kernel && !strcmp(f->name, DEAD);
}

static bool is_dead(const struct stack_node *n)
{
    for (; n; n = n->parent) {
        if (off_cpu_ends_in(n->function)) {
            return true;
        }
    }
    return false;
}

void off_cpu_leaves(struct off_cpu *o, const struct task *task,
                    const struct off_cpu_wait *wait)
{
    uint64_t key[2];

    get_key(key, task);
    if (is_dead(wait->node)) {
        g_hash_table_remove(o->away, key);
    } else {
        g_hash_table_replace(o->away, g_memdup2(key, sizeof(key)),
                             g_memdup2(wait, sizeof(*wait)));
    }
}

bool off_cpu_returns(struct off_cpu *o, const struct task *task,
                     struct off_cpu_wait *wait)
{
    const struct off_cpu_wait *found;
    uint64_t key[2];

    get_key(key, task);
    found = g_hash_table_lookup(o->away, key);
    if (found) {
        *wait = *found;
        g_hash_table_remove(o->away, key);
    }
    return found;
}

void off_cpu_forget(struct off_cpu *o)
{
    o->forgotten += g_hash_table_size(o->away);
    g_hash_table_remove_all(o->away);
}

uint64_t off_cpu_forgotten(const struct off_cpu *o)
{
    return o->forgotten;
}

void off_cpu_each(const struct off_cpu *o, off_cpu_fn *fn, void *opaque)
{
    GHashTableIter iter;
    gpointer wait;

    g_hash_table_iter_init(&iter, o->away);
    while (g_hash_table_iter_next(&iter, NULL, &wait)) {
        fn(opaque, wait);
    }
}
