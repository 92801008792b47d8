/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tasks of address spaces: see space-tasks.h
 */

#include <stdlib.h>
#include <string.h>

#include "analyze/chooser.h"
#include "analyze/space-tasks.h"
#include "lib/agent/batch.h"
#include "util/hash.h"
#include "util/search.h"

#define MAX_TASKS   (1u << 18)

struct space_tasks {
    struct symbolizer *names;
    struct window window;
    struct chooser *chooser;    /* if there is a filter */
    GMutex lock;                /* of all below, and of the names */
    GHashTable *counts;         /* of struct space_task */
    GArray *sorted;             /* the same, in order; NULL before */
};

static guint hash_task(gconstpointer p)
{
    const struct space_task *t = p;

    return btrail_hash3(t->space.cr3 ^ t->space.kernel, t->process->pid,
                        btrail_str_hash(t->process->comm)) >> 32;
}

static gboolean equal_tasks(gconstpointer a, gconstpointer b)
{
    const struct space_task *x = a, *y = b;

    return btrail_pair_equal(&x->space, &y->space) &&
           x->process->pid == y->process->pid &&
           !strcmp(x->process->comm, y->process->comm);
}

struct space_tasks *space_tasks_new(struct symbolizer *names,
                                    const struct filter *filter,
                                    const struct window *window)
{
    struct space_tasks *t = g_new0(struct space_tasks, 1);

    t->names = names;
    t->window = *window;
    t->chooser = filter ? chooser_new(names, filter, window) : NULL;
    g_mutex_init(&t->lock);
    t->counts = g_hash_table_new_full(hash_task, equal_tasks, g_free, NULL);
    return t;
}

void space_tasks_free(struct space_tasks *t)
{
    if (t) {
        chooser_free(t->chooser);
        g_mutex_clear(&t->lock);
        g_hash_table_unref(t->counts);
        g_clear_pointer(&t->sorted, g_array_unref);
        g_free(t);
    }
}

void space_tasks_reset(struct space_tasks *t)
{
    g_hash_table_remove_all(t->counts);
    g_clear_pointer(&t->sorted, g_array_unref);
}

/* How many records of a part are likely of its task */
static uint64_t count_likely(const struct task *task,
                             const struct btrail_batch *b)
{
    uint64_t kernel = 0;

    if (task->user == task->kernel) {
        return task->user == BTRAIL_LIKELY ? b->count : 0;
    }
    for (size_t i = 0; i < b->count; i++) {
        kernel += b->records[i].from >> 63;
    }
    return (task->kernel == BTRAIL_LIKELY ? kernel : 0) +
           (task->user == BTRAIL_LIKELY ? b->count - kernel : 0);
}

static void count_part(struct space_tasks *t, const struct task *task,
                       const struct btrail_batch *b)
{
    const struct space_task key = {
        .space = space_key_of(b), .process = task->process,
    };
    struct space_task *found = g_hash_table_lookup(t->counts, &key);

    if (!found && g_hash_table_size(t->counts) < MAX_TASKS) {
        found = g_memdup2(&key, sizeof(key));
        g_hash_table_add(t->counts, found);
    }
    if (found) {
        found->records += b->count;
        found->likely += count_likely(task, b);
    }
}

/* Counts those records of a part that count. */
static void choose_part(struct space_tasks *t, unsigned vcpu,
                        const struct task *task, const struct btrail_batch *b,
                        bool *counts)
{
    struct btrail_batch run;
    size_t i, end;

    if (!chooser_choose(t->chooser, vcpu, task, b, counts)) {
        return;
    }
    for (i = 0; i < b->count; i = end) {
        for (end = i + 1; end < b->count && counts[end] == counts[i]; end++) {
        }
        if (counts[i]) {
            run = btrail_batch_part(b, i, end - i);
            count_part(t, task, &run);
        }
    }
}

bool *space_tasks_add(struct space_tasks *t, unsigned vcpu,
                      const struct btrail_batch *b)
{
    struct btrail_batch part = { .count = 0 };
    struct task task;
    bool *counts = NULL;

    if (!window_has(&t->window, b->time.host)) {
        return g_new0(bool, b->count);
    }
    if (t->chooser) {
        counts = g_new(bool, b->count);
    }
    g_mutex_lock(&t->lock);
    while (symbolizer_part(t->names, vcpu, b, &part, &task)) {
        if (counts) {
            choose_part(t, vcpu, &task, &part,
                        counts + (part.index - b->index));
        } else {
            count_part(t, &task, &part);
        }
    }
    g_mutex_unlock(&t->lock);
    return counts;
}

static int by_space(const void *a, const void *b)
{
    const struct space_task *x = a, *y = b;

    return BTRAIL_COMPARE(x->space.cr3, y->space.cr3) ?:
           BTRAIL_COMPARE(x->space.kernel, y->space.kernel) ?:
           BTRAIL_COMPARE(y->records, x->records) ?:
           BTRAIL_COMPARE(x->process->pid, y->process->pid) ?:
           strcmp(x->process->comm, y->process->comm);
}

static void sort_tasks(struct space_tasks *t)
{
    GHashTableIter iter;
    gpointer task;

    t->sorted = g_array_new(FALSE, FALSE, sizeof(struct space_task));
    g_hash_table_iter_init(&iter, t->counts);
    while (g_hash_table_iter_next(&iter, &task, NULL)) {
        g_array_append_vals(t->sorted, task, 1);
    }
    if (t->sorted->len) {
        qsort(t->sorted->data, t->sorted->len, sizeof(struct space_task),
              by_space);
    }
}

const struct space_task *space_tasks_of(struct space_tasks *t,
                                        const struct space_key *space,
                                        size_t *n)
{
    const struct space_task *all;
    size_t first, end;

    if (!t->sorted) {
        sort_tasks(t);
    }
    all = (const struct space_task *)t->sorted->data;
    end = BTRAIL_UP_TO(all, t->sorted->len, struct space_task, space.cr3,
                       space->cr3);
    while (end && all[end - 1].space.cr3 == space->cr3 &&
           all[end - 1].space.kernel > space->kernel) {
        end--;
    }
    for (first = end;
         first && btrail_pair_equal(&all[first - 1].space, space); first--) {
    }
    *n = end - first;
    return all + first;
}
