/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What each thread of processes has run: see walk-lanes.h
 */

#include <string.h>

#include "analyze/thread-state.h"
#include "gdb/walk-lanes.h"
#include "lib/agent/merged.h"
#include "lib/agent/thread.h"
#include "util/hash.h"
#include "util/parse.h"

/* A lane with what tells its thread from others, see thread_key() */
struct task_lane {
    uint64_t key[2];
    struct walk_lane lane;
};

/**
 * struct walk_reading
 * @full:   there are too many threads
 * @tasks:  of struct task_lane
 * @wanted: processes that have the name, see process_of()
 */
struct walk_reading {
    const char *name;
    bool any_number;
    uint64_t number;
    bool named;
    bool full;
    GHashTable *tasks;
    GHashTable *wanted;
};

static void free_lane(gpointer lane)
{
    struct walk_lane *l = lane;

    g_clear_pointer(&l->runs, g_array_unref);
}

static void free_task(gpointer task)
{
    struct task_lane *t = task;

    free_lane(&t->lane);
    g_free(t);
}

static gpointer process_of(const struct walk_lane *l)
{
    return GSIZE_TO_POINTER((uint64_t)l->kernel << 32 | l->task.pid);
}

/*
 * Numbers of threads are used again, by other processes and kernels.  The idle
 * tasks of all vCPUs have one number.
 */
static struct walk_lane *lane_of(struct walk_reading *r,
                                 const struct btrail_batch *b)
{
    struct task_lane *t;
    uint64_t key[2];

    thread_key(key, &b->kernel, b->task.pid, b->task.tid, 0);
    t = g_hash_table_lookup(r->tasks, key);
    if (!t && g_hash_table_size(r->tasks) < WALK_LANES_MAX) {
        t = g_new0(struct task_lane, 1);
        memcpy(t->key, key, sizeof(key));
        t->lane.kernel = key[0];
        t->lane.runs = g_array_new(FALSE, FALSE, sizeof(struct lane_run));
        g_hash_table_insert(r->tasks, t->key, t);
    }
    r->full |= !t;
    if (t) {
        t->lane.task = b->task;
    }
    return t ? &t->lane : NULL;
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
    if (!b->task.known || !b->task.tid || !(l = lane_of(r, b))) {
        return;
    }
    if (r->any_number ? b->task.pid == r->number :
                        !strcmp(b->task.name, r->name)) {
        g_hash_table_add(r->wanted, process_of(l));
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
        while (!r->full &&
               !(ret = btrail_merged_next(merged, &vcpu, NULL, &b))) {
            if (!b.event) {
                take(r, vcpu, &b);
            }
        }
        btrail_merged_close(merged);
    }
    if (r->full) {
        return agent_fail(error, AGENT_ERROR_COMMAND,
                          "the trace has more than %u threads; walk along its "
                          "vCPUs", WALK_LANES_MAX);
    }
    return ret == -BTRAIL_ERR_END ||
           agent_fail(error, AGENT_ERROR_COMMAND, "the trace: %s",
                      btrail_strerror(ret));
}

static int compare(gconstpointer a, gconstpointer b)
{
    const struct walk_lane *x = a, *y = b;

    const uint64_t of_x[] = { btrail_thread(&x->task), x->task.pid, x->kernel };
    const uint64_t of_y[] = { btrail_thread(&y->task), y->task.pid, y->kernel };
    unsigned i = 0;

    while (i < G_N_ELEMENTS(of_x) - 1 && of_x[i] == of_y[i]) {
        i++;
    }
    return (of_x[i] > of_y[i]) - (of_x[i] < of_y[i]);
}

static GArray *pick(struct walk_reading *r, const char *process, GError **error)
{
    GArray *lanes = g_array_new(FALSE, FALSE, sizeof(struct walk_lane));
    GHashTableIter iter;
    gpointer value;

    g_array_set_clear_func(lanes, free_lane);
    g_hash_table_iter_init(&iter, r->tasks);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct task_lane *t = value;

        if (g_hash_table_contains(r->wanted, process_of(&t->lane))) {
            struct walk_lane taken = t->lane;

            g_array_ref(taken.runs);
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
    r.tasks = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal, NULL,
                                    free_task);
    r.wanted = g_hash_table_new(NULL, NULL);
    if (read_all(&r, trace, error)) {
        lanes = pick(&r, process, error);
    }
    g_hash_table_unref(r.tasks);
    g_hash_table_unref(r.wanted);
    return lanes;
}
