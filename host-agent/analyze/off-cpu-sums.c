/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long tasks did not run, by where they were: see off-cpu-sums.h
 */

#include "analyze/off-cpu-sums.h"
#include "util/hash.h"

/* @index: a sum -> its number + 1 in @sums */
struct off_cpu_sums {
    GHashTable *index;
    GArray *sums;
    unsigned most;
};

struct off_cpu_sums *off_cpu_sums_new(unsigned most)
{
    struct off_cpu_sums *s = g_new0(struct off_cpu_sums, 1);

    s->index = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                     g_free, NULL);
    s->sums = g_array_new(FALSE, FALSE, sizeof(struct off_cpu_sum));
    s->most = most ?: OFF_CPU_MOST;
    return s;
}

void off_cpu_sums_free(struct off_cpu_sums *s)
{
    if (s) {
        g_hash_table_unref(s->index);
        g_array_unref(s->sums);
        g_free(s);
    }
}

static void add(struct off_cpu_sums *s, const struct stack_node *node,
                enum off_cpu_kind kind, const struct stack_node *waker,
                uint64_t times, uint64_t ticks)
{
    uint64_t key[2] = { (uintptr_t)node << 2 | kind, (uintptr_t)waker };
    gpointer found = g_hash_table_lookup(s->index, key);
    struct off_cpu_sum *sum;

    if (!found && s->sums->len >= s->most && waker) {
        add(s, node, kind, NULL, times, ticks);
        return;
    }
    if (!found) {
        const struct off_cpu_sum new = { node, waker, kind, 0, 0 };

        g_array_append_val(s->sums, new);
        found = GUINT_TO_POINTER(s->sums->len);
        g_hash_table_insert(s->index, g_memdup2(key, sizeof(key)), found);
    }
    sum = &g_array_index(s->sums, struct off_cpu_sum,
                         GPOINTER_TO_UINT(found) - 1);
    sum->times += times;
    sum->ticks += ticks;
}

uint64_t off_cpu_sums_add(struct off_cpu_sums *s,
                          const struct off_cpu_wait *wait, uint64_t until,
                          bool back, off_cpu_count *count, void *opaque)
{
    uint64_t woken = CLAMP(wait->woken, wait->since, until);
    uint64_t all = count(opaque, wait->since, until), blocked = all;

    if (!all) {
        return 0;
    }
    if (wait->state == THREAD_RUNNABLE) {
        add(s, wait->node, OFF_CPU_WAITED, NULL, 1, all);
    } else if (wait->state == THREAD_BLOCKED && wait->woken) {
        blocked = count(opaque, wait->since, woken);
        add(s, wait->node, OFF_CPU_BLOCKED, wait->waker, 1, blocked);
        if (all > blocked) {
            add(s, wait->node, OFF_CPU_WAITED, NULL, 0, all - blocked);
        }
    } else if (wait->state == THREAD_BLOCKED && wait->surely && back) {
        /* The order of two vCPUs is as exact as a tick: who is back is woken. */
        add(s, wait->node, OFF_CPU_BLOCKED, NULL, 1, all);
    } else {
        add(s, wait->node, OFF_CPU_PLAIN, NULL, 1, all);
    }
    return all;
}

const struct off_cpu_sum *off_cpu_sums_get(const struct off_cpu_sums *s,
                                           size_t i)
{
    return i < s->sums->len ? &g_array_index(s->sums, struct off_cpu_sum, i) :
           NULL;
}
