/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The names that the tasks of a guest have: see task-names.h
 */

#include <string.h>

#include "find/task-names.h"
#include "lib/agent/merged.h"
#include "util/closest.h"
#include "util/hash.h"
#include "util/parse.h"

/* @last: time at which an event has named a task so last; never before that of
 * the name before it */
struct named {
    char name[BTRAIL_TASK_NAME + 1];
    uint64_t last;
};

/**
 * struct named_task
 * @key:   its kernel; its process and number
 * @names: of struct named, in their order
 */
struct named_task {
    uint64_t key[2];
    GArray *names;
};

static const struct named *name_of(const struct named_task *task, guint i)
{
    return &g_array_index(task->names, struct named, i);
}

static void free_task(gpointer p)
{
    struct named_task *task = p;

    g_array_unref(task->names);
    g_free(task);
}

static struct named_task *add_task(struct task_names *t, const uint64_t key[2])
{
    struct named_task *task = g_new(struct named_task, 1);

    memcpy(task->key, key, sizeof(task->key));
    task->names = g_array_new(FALSE, FALSE, sizeof(struct named));
    g_hash_table_add(t->all, task);
    return task;
}

/* An event names a task, which can be NULL. */
static void add_name(struct task_names *t, unsigned most,
                     struct named_task *task, const uint64_t key[2],
                     const char *name, uint64_t host)
{
    guint n = task ? task->names->len : 0;
    struct named named = { .last = host };

    if (n) {
        named.last = MAX(host, name_of(task, n - 1)->last);
    }
    if (!n || strcmp(name_of(task, n - 1)->name, name)) {
        if (t->n == most) {
            return;
        }
        t->n++;
        task = task ?: add_task(t, key);
        g_strlcpy(named.name, name, sizeof(named.name));
        g_array_append_val(task->names, named);
    } else {
        g_array_index(task->names, struct named, n - 1).last = named.last;
    }
}

static void note_task(struct task_names *t, unsigned most,
                      const struct btrail_batch *b)
{
    struct btrail_task task;
    struct btrail_left left;
    uint64_t key[2] = { b->kernel.known ? b->kernel.number : 0 };

    btrail_event_task(b->event, &task);
    btrail_event_left(b->event, &left);
    t->lefts |= left.known;
    t->tasks |= task.known;
    if (!task.known || b->task.nested || b->kernel.nested) {
        return;
    }
    key[1] = (uint64_t)task.pid << 32 | task.tid;
    add_name(t, most, g_hash_table_lookup(t->all, key), key, task.name,
             b->time.host);
}

struct task_names *task_names_new(const struct btrail_trace *trace,
                                  unsigned most, GError **error)
{
    struct task_names *t = g_new0(struct task_names, 1);
    struct btrail_merged *merged;
    struct btrail_batch b;
    unsigned vcpu;
    int ret;

    t->all = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal, NULL,
                                   free_task);
    ret = btrail_merged_open(&merged, trace, NULL, 0,
                             BTRAIL_CURSOR_EVENTS_ONLY, BTRAIL_MERGED_GRAIN);
    while (!ret &&
           !(ret = btrail_merged_next(merged, &vcpu, NULL, &b))) {
        if (b.event && b.event->type == BTRAIL_EVENT_TASK) {
            note_task(t, most ?: TASK_NAMES_MOST, &b);
        } else if (b.event && b.event->type == BTRAIL_EVENT_WAKE) {
            t->wakes = true;
        }
    }
    btrail_merged_close(merged);
    if (ret != -BTRAIL_ERR_END) {
        agent_fail(error, AGENT_ERROR_COMMAND, "the trace: %s",
                   btrail_strerror(ret));
        task_names_free(t);
        return NULL;
    }
    return t;
}

bool task_names_any(const struct btrail_trace *trace)
{
    struct btrail_merged *merged;
    struct btrail_task task = { .known = false };
    struct btrail_batch b;
    unsigned vcpu;
    int ret = btrail_merged_open(&merged, trace, NULL, 0,
                                 BTRAIL_CURSOR_EVENTS_ONLY,
                                 BTRAIL_MERGED_GRAIN);

    while (!ret && !task.known &&
           !(ret = btrail_merged_next(merged, &vcpu, NULL, &b))) {
        if (b.event && b.event->type == BTRAIL_EVENT_TASK) {
            btrail_event_task(b.event, &task);
        }
    }
    btrail_merged_close(merged);
    return ret != -BTRAIL_ERR_END;
}

void task_names_free(struct task_names *t)
{
    if (t) {
        g_hash_table_unref(t->all);
        g_free(t);
    }
}

/*
 * A task that does not run keeps its name, so it is that of the next event, or
 * of the last one.
 */
const char *task_names_at(const struct task_names *t, unsigned kernel,
                          uint32_t pid, uint32_t tid, uint64_t host)
{
    const uint64_t key[2] = { kernel, (uint64_t)pid << 32 | tid };
    const struct named_task *task = g_hash_table_lookup(t->all, key);
    guint low = 0, high = task ? task->names->len - 1 : 0;

    while (low < high) {
        guint middle = low + (high - low) / 2;

        if (name_of(task, middle)->last < host) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return task ? name_of(task, low)->name : NULL;
}

bool task_names_means(const char *wanted, const char *name, uint32_t pid,
                      uint32_t tid)
{
    uint64_t number;

    return (name && !strcmp(wanted, name)) ||
           (parse_text_number(wanted, NULL, &number) &&
            (number == tid || number == pid));
}

char *task_names_hint(const struct task_names *t, const char *wanted)
{
    struct closest closest = closest_to(wanted);
    GHashTableIter iter;
    gpointer value;

    g_hash_table_iter_init(&iter, t->all);
    while (g_hash_table_iter_next(&iter, &value, NULL)) {
        const struct named_task *task = value;

        for (guint i = 0; i < task->names->len; i++) {
            const char *name = name_of(task, i)->name;

            if (task_names_means(wanted, name, task->key[1] >> 32,
                                 task->key[1])) {
                return NULL;
            }
            closest_offer(&closest, name);
        }
    }
    return closest_hint(&closest);
}

bool task_names_check(const struct task_names *t, const char *wanted,
                      GError **error)
{
    g_autofree char *hint = task_names_hint(t, wanted);

    return !hint ||
           agent_fail(error, AGENT_ERROR_NAMES,
                      "the trace names no task %s%s", wanted, hint);
}
