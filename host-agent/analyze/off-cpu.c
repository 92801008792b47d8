/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tasks that do not run: see off-cpu.h
 */

#include <string.h>

#include "analyze/off-cpu.h"
#include "analyze/wake-order.h"
#include "util/hash.h"

/* A task runs this last; its number can be given to another one. */
#define DEAD    "do_task_dead"

/* Tasks of which something is known while they are not away */
#define MAX_WOKEN   (1u << 17)

/* Of a task, with the waker of an early wake-up */
struct woken {
    struct wake_order order;
    const struct stack_node *waker;
};

/* @told, @strangers: those of struct off_cpu when it has left */
struct away {
    struct off_cpu_wait wait;
    struct woken woken;
    bool told;
    uint64_t strangers;
};

/**
 * struct off_cpu
 * @away:      key of a task -> struct away
 * @woken:     the same of one that is not -> struct woken, if that matters
 * @told:      somebody was woken
 * @strangers: how often it was not known who
 */
struct off_cpu {
    uint64_t slack;
    GHashTable *away;
    GHashTable *woken;
    uint64_t forgotten;
    bool told;
    uint64_t strangers;
};

struct off_cpu *off_cpu_new(uint64_t slack)
{
    struct off_cpu *o = g_new0(struct off_cpu, 1);

    o->away = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                    g_free, g_free);
    o->woken = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                     g_free, g_free);
    o->slack = slack;
    return o;
}

void off_cpu_free(struct off_cpu *o)
{
    if (o) {
        g_hash_table_unref(o->away);
        g_hash_table_unref(o->woken);
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

/* Keeps what matters of a task that is not away, if there is room. */
static void keep_woken(struct off_cpu *o, const uint64_t key[2],
                       const struct woken *woken)
{
    if (!woken->order.owed && !woken->order.early) {
        g_hash_table_remove(o->woken, key);
    } else if (g_hash_table_size(o->woken) < MAX_WOKEN) {
        g_hash_table_replace(o->woken, g_memdup2(key, 2 * sizeof(key[0])),
                             g_memdup2(woken, sizeof(*woken)));
    }
}

void off_cpu_wakes(struct off_cpu *o, const struct task *task, uint64_t time,
                   const struct stack_node *waker)
{
    struct woken none = { .waker = NULL }, *woken;
    struct away *away;
    uint64_t key[2];

    o->told = true;
    get_key(key, task);
    away = g_hash_table_lookup(o->away, key);
    woken = away ? &away->woken : g_hash_table_lookup(o->woken, key) ?: &none;
    switch (wake_order_wakes(&woken->order, time, o->slack,
                             away && !away->wait.woken)) {
    case WAKE_OF_PRESENT:
    case WAKE_INSTEAD:
        away->wait.woken = MAX(time, away->wait.since);
        away->wait.waker = waker;
        break;
    case WAKE_OF_NEXT:
        woken->waker = waker;
        if (woken == &none) {
            keep_woken(o, key, woken);
        }
        break;
    default:
        break;
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
    const struct woken *woken;
    struct away away = {
        .wait = *wait, .told = o->told, .strangers = o->strangers,
    };
    uint64_t key[2];

    get_key(key, task);
    woken = g_hash_table_lookup(o->woken, key);
    if (woken) {
        away.woken = *woken;
        g_hash_table_remove(o->woken, key);
    }
    if (wake_order_leaves(&away.woken.order, wait->since, o->slack,
                          wait->state == THREAD_BLOCKED)) {
        away.wait.woken = MAX(away.woken.order.woken, wait->since);
        away.wait.waker = away.woken.waker;
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

bool off_cpu_returns(struct off_cpu *o, const struct task *task, uint64_t time,
                     struct off_cpu_wait *wait)
{
    const struct away *found;
    struct woken woken;
    uint64_t key[2];

    get_key(key, task);
    found = g_hash_table_lookup(o->away, key);
    if (found) {
        *wait = wait_of(o, found);
        woken = found->woken;
        wake_order_comes(&woken.order, time,
                         wait->state == THREAD_BLOCKED && !wait->woken);
        keep_woken(o, key, &woken);
        g_hash_table_remove(o->away, key);
    }
    return found;
}

bool off_cpu_is_away(const struct off_cpu *o, const struct task *task,
                     uint64_t *since)
{
    const struct away *found;
    uint64_t key[2];

    get_key(key, task);
    found = g_hash_table_lookup(o->away, key);
    if (found) {
        *since = found->wait.since;
    }
    return found;
}

void off_cpu_forget(struct off_cpu *o)
{
    o->forgotten += g_hash_table_size(o->away);
    g_hash_table_remove_all(o->away);
    g_hash_table_remove_all(o->woken);
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
