/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When the processes of a name ran: see process-runs.h
 */

#include <string.h>

#include "find/clock-order.h"
#include "find/process-runs.h"
#include "find/target.h"
#include "find/task-names.h"
#include "lib/agent/thread.h"

/* The last thing that a process does: no return, and no other task calls it. */
#define DEAD    "do_task_dead"

#define fail(error, ...) \
    agent_fail(error, AGENT_ERROR_COMMAND, __VA_ARGS__)

/**
 * struct lives_search
 * @dead:  the function that tasks end in; NULL if it is not known
 * @named: the trace names tasks
 * @first: the record before the first run
 * @begun: the first record of that run: the vCPU can have waited before
 * @last:  the last record of any run
 * @ends:  struct run_end by process number
 * @order: of moments of several vCPUs
 */
struct lives_search {
    const char *name;
    struct find_target *dead;
    bool named;
    struct moment first;
    struct moment begun;
    struct moment last;
    bool found;
    GHashTable *ends;
    struct clock_order *order;
};

/**
 * struct run_end - the last run of a process
 * @dead: its task has ended
 */
struct run_end {
    struct moment last;
    bool dead;
};

/**
 * struct life_run - the task that a vCPU runs
 * @before: the record before it, or its first one if there is none
 * @first:  its first record
 * @last:   its last record, or that of the task before
 * @any:    it has made records
 * @dead:   it has called the function that tasks end in
 * @begun:  the stream has begun
 */
struct life_run {
    struct btrail_task task;
    struct moment before;
    struct moment first;
    struct moment last;
    bool any;
    bool dead;
    bool begun;
};

static bool is_wanted(const struct lives_search *s,
                      const struct btrail_task *task)
{
    return task->known && !strcmp(task->name, s->name);
}

static void note_end(struct lives_search *s, const struct life_run *run)
{
    gpointer key = GUINT_TO_POINTER(run->task.pid);
    const struct run_end *old = g_hash_table_lookup(s->ends, key);
    struct run_end end = { .last = run->last, .dead = run->dead };

    if (!old || moment_compare(&old->last, &end.last) <= 0) {
        g_hash_table_insert(s->ends, key, g_memdup2(&end, sizeof(end)));
    }
}

/* Records of a task are over. */
static void end_run(struct lives_search *s, struct life_run *run)
{
    if (!run->any || !is_wanted(s, &run->task)) {
        return;
    }
    clock_order_stamp(s->order, &run->first);
    clock_order_stamp(s->order, &run->last);
    if (!s->found || moment_compare(&run->first, &s->begun) < 0) {
        s->first = run->before;
        s->begun = run->first;
    }
    if (!s->found || moment_compare(&run->last, &s->last) >= 0) {
        s->last = run->last;
    }
    s->found = true;
    note_end(s, run);
}

/* Does a record go to the function that tasks end in? */
static bool goes_to_end(const struct lives_search *s,
                        const struct symbolizer_where *where,
                        const struct btrail_record *r)
{
    const GArray *addresses = s->dead->addresses;
    bool found = false;

    for (unsigned i = 0; kernel_names_may_have(r->to) && i < addresses->len;
         i++) {
        found |= g_array_index(addresses, uint64_t, i) == r->to;
    }
    return found && find_target_at(s->dead, r->to, where->kernel, where->time);
}

/* Reads records of one task. */
static void read_records(struct lives_search *s, struct life_run *run,
                         unsigned vcpu,
                         const struct btrail_batch *b)
{
    const struct symbolizer_where where = symbolizer_at(vcpu, b, 0);
    size_t last = b->count - 1;

    if (!run->any) {
        run->first = moment_after(vcpu, b, 0);
        run->before = run->begun ? run->last : run->first;
    }
    run->last = moment_after(vcpu, b, last);
    run->any = run->begun = true;
    for (size_t i = 0; i <= last && s->dead && is_wanted(s, &run->task);
         i++) {
        run->dead |= goes_to_end(s, &where, &b->records[i]);
    }
}

static bool same(const struct btrail_task *a, const struct btrail_task *b)
{
    return a->known == b->known && btrail_thread(a) == btrail_thread(b) &&
           a->pid == b->pid &&
           !strcmp(a->name, b->name);
}

static bool read_stream(struct lives_search *s,
                        const struct btrail_trace *trace,
                        unsigned vcpu, GError **error)
{
    struct life_run run = { .any = false };
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    int ret = btrail_cursor_open(&cursor, trace, vcpu, 0);

    if (ret) {
        return fail(error, "the trace: %s", btrail_strerror(ret));
    }
    while (!(ret = btrail_cursor_next(cursor, &b))) {
        if (b.event) {
            continue;
        }
        s->named |= b.task.known;
        if (!same(&b.task, &run.task)) {
            end_run(s, &run);
            run.task = b.task;
            run.any = run.dead = false;
        }
        read_records(s, &run, vcpu, &b);
    }
    end_run(s, &run);
    btrail_cursor_close(cursor);
    return ret == -BTRAIL_ERR_END ||
           fail(error, "the trace: %s", btrail_strerror(ret));
}

static bool read_all(struct lives_search *s, const struct btrail_trace *trace,
                     GError **error)
{
    struct btrail_stream_info info;

    for (unsigned i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        if (!read_stream(s, trace, info.vcpu, error)) {
            return false;
        }
    }
    return true;
}

/* The first or last end; false if there is none */
static bool pick_end(GHashTable *ends, bool last, struct moment *visit)
{
    const struct run_end *best = NULL;
    GHashTableIter iter;
    gpointer value;

    g_hash_table_iter_init(&iter, ends);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct run_end *end = value;

        if (end->dead &&
            (!best ||
             (moment_compare(&end->last, &best->last) > 0) == last)) {
            best = end;
        }
    }
    if (best) {
        *visit = best->last;
    }
    return best;
}

/* What may be meant by the name of a process; to be freed, or NULL */
static char *hint_of(const struct btrail_trace *trace, const char *name)
{
    struct task_names *names = task_names_new(trace, 0, NULL);
    char *hint = names ? task_names_hint(names, name) : NULL;

    task_names_free(names);
    return hint;
}

bool process_runs_find(const struct btrail_trace *trace, const char *name,
                       enum process_run what, struct moment *visit,
                       GError **error)
{
    bool exits = what == PROCESS_EXIT_FIRST || what == PROCESS_EXIT_LAST;
    struct lives_search s = { .name = name };
    bool ok, found = false;

    s.dead = exits ? find_target_function(trace, NULL, NULL, DEAD, NULL) : NULL;
    if (exits && !s.dead) {
        return agent_fail(error, AGENT_ERROR_NAMES,
                          "the trace does not show where processes end: "
                          "the guest's kernel has no function " DEAD
                          ", or the trace has no names");
    }
    s.ends = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    s.order = clock_order_of(trace);
    ok = read_all(&s, trace, error);
    if (ok && exits) {
        found = pick_end(s.ends, what == PROCESS_EXIT_LAST, visit);
    } else if (ok) {
        found = s.found;
        *visit = what == PROCESS_RUN_FIRST ? s.first : s.last;
    }
    find_target_free(s.dead);
    g_hash_table_unref(s.ends);
    clock_order_free(s.order);
    if (ok && !s.named) {
        ok = fail(error, "the trace names no processes, and has no %s", name);
    } else if (ok && !found) {
        g_autofree char *hint = hint_of(trace, name);

        ok = fail(error, "no process %s has run%s%s", name,
                  exits ? " and ended" : "", hint ?: "");
    }
    return ok;
}
