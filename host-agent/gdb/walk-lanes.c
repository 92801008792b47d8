/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What each thread of processes has run: see walk-lanes.h
 */

#include <string.h>

#include "gdb/walk-lanes.h"
#include "lib/agent/merged.h"
#include "lib/agent/thread.h"
#include "util/parse.h"

#define MAX_TASKS   1000000

/**
 * struct walk_reading
 * @tasks: number of a thread -> struct walk_lane
 * @wanted: numbers of processes that have the name
 */
struct walk_reading {
    const char *name;
    bool any_number;
    uint64_t number;
    bool named;
    GHashTable *tasks;
    GHashTable *wanted;
};

static void free_lane(gpointer lane)
{
    struct walk_lane *l = lane;

    g_clear_pointer(&l->runs, g_array_unref);
}

static void free_task(gpointer lane)
{
    free_lane(lane);
    g_free(lane);
}

/* The idle tasks of all vCPUs have one number. */
static struct walk_lane *lane_of(struct walk_reading *r,
                                 const struct btrail_task *task)
{
    gpointer key = GSIZE_TO_POINTER(btrail_thread(task));
    struct walk_lane *l = g_hash_table_lookup(r->tasks, key);

    if (!l && g_hash_table_size(r->tasks) < MAX_TASKS) {
        l = g_new0(struct walk_lane, 1);
        l->runs = g_array_new(FALSE, FALSE, sizeof(struct lane_run));
        g_hash_table_insert(r->tasks, key, l);
    }
    if (l) {
        l->task = *task;
    }
    return l;
}

static void take(struct walk_reading *r, unsigned vcpu,
                 const struct btrail_batch *b)
{
    const struct lane_run run = {
        vcpu, b->index, b->index + b->count, b->time,
    };
    struct walk_lane *l;
    struct lane_run *last;

    r->named |= b->task.known;
    if (!b->task.known || !b->task.tid || !(l = lane_of(r, &b->task))) {
        return;
    }
    if (r->any_number ? b->task.pid == r->number :
                        !strcmp(b->task.name, r->name)) {
        g_hash_table_add(r->wanted,
                         GSIZE_TO_POINTER(btrail_thread_process(&b->task)));
    }
    last = l->runs->len ? &g_array_index(l->runs, struct lane_run,
                                         l->runs->len - 1) : NULL;
    if (last && last->vcpu == vcpu && last->end == run.begin) {
        last->end = run.end;
    } else {
        g_array_append_val(l->runs, run);
    }
}

static bool read_all(struct walk_reading *r, const struct btrail_trace *trace,
                     GError **error)
{
    struct btrail_merged *merged;
    struct btrail_batch b;
    unsigned vcpu;
    int ret = btrail_merged_open(&merged, trace, NULL, 0,
                                 BTRAIL_CURSOR_COUNTS_ONLY,
                                 BTRAIL_MERGED_GRAIN);

    if (!ret) {
        while (!(ret = btrail_merged_next(merged, &vcpu, NULL, &b))) {
            if (!b.event) {
                take(r, vcpu, &b);
            }
        }
        btrail_merged_close(merged);
    }
    return ret == -BTRAIL_ERR_END ||
           agent_fail(error, AGENT_ERROR_COMMAND, "the trace: %s",
                      btrail_strerror(ret));
}

static int compare(gconstpointer a, gconstpointer b)
{
    const struct walk_lane *x = a, *y = b;

    return (btrail_thread(&x->task) > btrail_thread(&y->task)) -
           (btrail_thread(&x->task) < btrail_thread(&y->task));
}

static GArray *pick(struct walk_reading *r, const char *process, GError **error)
{
    GArray *lanes = g_array_new(FALSE, FALSE, sizeof(struct walk_lane));
    GHashTableIter iter;
    gpointer value;

    g_array_set_clear_func(lanes, free_lane);
    g_hash_table_iter_init(&iter, r->tasks);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct walk_lane *l = value;

        if (g_hash_table_contains(
                r->wanted, GSIZE_TO_POINTER(btrail_thread_process(&l->task)))) {
            struct walk_lane taken = { l->task, g_array_ref(l->runs) };

            g_array_append_val(lanes, taken);
        }
    }
    if (!lanes->len) {
        g_array_unref(lanes);
        agent_fail(error, AGENT_ERROR_COMMAND, r->named ?
                   "no process '%s' has run" :
                   "the trace names no processes, and has no '%s'",
                   process);
        return NULL;
    }
    g_array_sort(lanes, compare);
    return lanes;
}

GArray *walk_lanes(const struct btrail_trace *trace, const char *process,
                   GError **error)
{
    struct walk_reading r = { .name = process };
    GArray *lanes = NULL;

    r.any_number = parse_text_number(process, NULL, &r.number);
    r.tasks = g_hash_table_new_full(NULL, NULL, NULL, free_task);
    r.wanted = g_hash_table_new(NULL, NULL);
    if (read_all(&r, trace, error)) {
        lanes = pick(&r, process, error);
    }
    g_hash_table_unref(r.tasks);
    g_hash_table_unref(r.wanted);
    return lanes;
}
