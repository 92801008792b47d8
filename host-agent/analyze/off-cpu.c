/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tasks that do not run: see off-cpu.h
 */

#include <string.h>

#include "analyze/off-cpu.h"
#include "util/hash.h"

/* A task runs this last; its number can be given to another one. */
#define DEAD    "do_task_dead"

/* Tasks that are woken while they are not away */
#define MAX_EARLY   (1u << 17)

/* @told, @strangers: those of struct off_cpu when it has left */
struct away {
    struct off_cpu_wait wait;
    bool told;
    uint64_t strangers;
};

/**
 * struct off_cpu
 * @away:      key of a task -> struct away
 * @early:     the same of one that was woken and was not seen to leave
 * @told:      somebody was woken
 * @strangers: how often it was not known who
 */
struct off_cpu {
    GHashTable *away;
    GHashTable *early;
    uint64_t forgotten;
    bool told;
    uint64_t strangers;
};

struct off_cpu *off_cpu_new(void)
{
    struct off_cpu *o = g_new0(struct off_cpu, 1);

    o->away = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                    g_free, g_free);
    o->early = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                     g_free, g_free);
    return o;
}

void off_cpu_free(struct off_cpu *o)
{
    if (o) {
        g_hash_table_unref(o->away);
        g_hash_table_unref(o->early);
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

void off_cpu_comes(struct off_cpu *o, const struct task *task)
{
    uint64_t key[2];

    get_key(key, task);
    g_hash_table_remove(o->early, key);
}

void off_cpu_wakes(struct off_cpu *o, const struct task *task, uint64_t time,
                   const struct stack_node *waker)
{
    const struct off_cpu_wait wake = { .woken = time, .waker = waker };
    struct away *away;
    uint64_t key[2];

    o->told = true;
    get_key(key, task);
    away = g_hash_table_lookup(o->away, key);
    if (away && !away->wait.woken) {
        away->wait.woken = time;
        away->wait.waker = waker;
    } else if (!away && g_hash_table_size(o->early) < MAX_EARLY) {
        g_hash_table_replace(o->early, g_memdup2(key, sizeof(key)),
                             g_memdup2(&wake, sizeof(wake)));
    }
}

void off_cpu_wakes_unknown(struct off_cpu *o)
{
    o->told = true;
    o->strangers++;
}

void off_cpu_leaves(struct off_cpu *o, const struct task *task,
                    const struct off_cpu_wait *wait)
{
    const struct off_cpu_wait *early;
    struct away away = {
        .wait = *wait, .told = o->told, .strangers = o->strangers,
    };
    uint64_t key[2];

    get_key(key, task);
    early = g_hash_table_lookup(o->early, key);
    if (early) {
        away.wait.woken = MAX(early->woken, wait->since);
        away.wait.waker = early->waker;
        g_hash_table_remove(o->early, key);
    }
    if (wait->state == THREAD_DEAD || is_dead(wait->node)) {
        g_hash_table_remove(o->away, key);
    } else {
        g_hash_table_replace(o->away, g_memdup2(key, sizeof(key)),
                             g_memdup2(&away, sizeof(away)));
    }
}

static struct off_cpu_wait wait_of(const struct off_cpu *o,
                                   const struct away *away)
{
    struct off_cpu_wait wait = away->wait;

    wait.surely = away->told && away->strangers == o->strangers;
    return wait;
}

bool off_cpu_returns(struct off_cpu *o, const struct task *task,
                     struct off_cpu_wait *wait)
{
    const struct away *found;
    uint64_t key[2];

    get_key(key, task);
    found = g_hash_table_lookup(o->away, key);
    if (found) {
        *wait = wait_of(o, found);
        g_hash_table_remove(o->away, key);
    }
    return found;
}

void off_cpu_forget(struct off_cpu *o)
{
    o->forgotten += g_hash_table_size(o->away);
    g_hash_table_remove_all(o->away);
    g_hash_table_remove_all(o->early);
}

uint64_t off_cpu_forgotten(const struct off_cpu *o)
{
    return o->forgotten;
}

void off_cpu_each(const struct off_cpu *o, off_cpu_fn *fn, void *opaque)
{
    GHashTableIter iter;
    gpointer away;

    g_hash_table_iter_init(&iter, o->away);
    while (g_hash_table_iter_next(&iter, NULL, &away)) {
        const struct off_cpu_wait wait = wait_of(o, away);

        fn(opaque, &wait);
    }
}
