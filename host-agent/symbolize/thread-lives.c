/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Threads that came and went: see thread-lives.h
 */

#include "lib/agent/names-private.h"
#include "symbolize/runs.h"
#include "symbolize/thread-lives.h"
#include "util/hash.h"

/* Events of the threads of one process */
struct thread_events {
    struct run_event birth;     /* the last one */
    unsigned births;
    bool made;                  /* it may have made that thread itself */
    uint64_t exit;              /* time of the first one */
};

struct thread_lives {
    const struct btrail_names *names;
    const struct btrail_owners *owners;
    GHashTable *processes;      /* btrail_names_last() -> thread_events */
    GHashTable *strangers;      /* CR3s where threads of no process began */
};

/* Events of the process that an event is of; NULL if it is not known */
static struct thread_events *get_events(struct thread_lives *t,
                                        const struct run_event *e)
{
    const struct btrail_process *seen;
    struct thread_events *events;

    if (btrail_owners_process(t->owners, e->vcpu, e->index, e->time, e->cr3,
                              &seen) == BTRAIL_UNKNOWN) {
        return NULL;
    }
    seen = btrail_names_last(seen);
    events = g_hash_table_lookup(t->processes, seen);
    if (!events) {
        events = g_new0(struct thread_events, 1);
        events->exit = UINT64_MAX;
        g_hash_table_insert(t->processes, (gpointer)seen, events);
    }
    return events;
}

/* Did one event certainly come before another? */
static bool certainly_before(const struct thread_lives *t,
                             const struct run_event *a,
                             const struct run_event *b)
{
    return a->vcpu == b->vcpu ? a->index < b->index :
           b->time > btrail_owners_until(t->owners, a->vcpu, a->index,
                                         a->time);
}

static void add_life(struct thread_lives *t, const struct run_event *e)
{
    struct thread_events *events = get_events(t, e);
    uint64_t root = btrail_names_root(t->names, false, e->cr3);

    if (!events && e->kind == RUN_BIRTH) {
        g_hash_table_add(t->strangers, g_memdup2(&root, sizeof(root)));
    } else if (events && e->kind == RUN_BIRTH) {
        events->births++;
        events->birth = *e;
    } else if (events && e->kind == RUN_EXIT) {
        events->exit = MIN(events->exit, e->time);
    }
}

struct thread_lives *thread_lives_new(const struct runs *runs,
                                      const struct btrail_names *names,
                                      const struct btrail_owners *owners)
{
    struct thread_lives *t;
    const struct run_event *events;
    size_t i, n;

    if (!runs_events(runs, &events, &n) || !btrail_names_all_vcpus(names)) {
        return NULL;
    }
    t = g_new0(struct thread_lives, 1);
    t->names = names;
    t->owners = owners;
    t->processes = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    t->strangers = g_hash_table_new_full(btrail_int64_hash, g_int64_equal,
                                         g_free, NULL);
    for (i = 0; i < n; i++) {
        add_life(t, &events[i]);
    }
    for (i = 0; i < n; i++) {
        struct thread_events *e = events[i].kind == RUN_CLONE ?
                                  get_events(t, &events[i]) : NULL;

        if (e && e->births) {
            e->made |= !certainly_before(t, &e->birth, &events[i]);
        }
    }
    return t;
}

void thread_lives_free(struct thread_lives *t)
{
    if (t) {
        g_hash_table_unref(t->processes);
        g_hash_table_unref(t->strangers);
        g_free(t);
    }
}

bool thread_lives_all_seen(const struct thread_lives *t,
                           const struct btrail_process *process,
                           uint64_t root, uint64_t first)
{
    const struct thread_events *e;

    if (g_hash_table_contains(t->strangers, &root)) {
        return false;
    }
    e = g_hash_table_lookup(t->processes, process);
    /*
     * One birth is the process's own, unless it was of a thread that it has
     * made.
     */
    return !e || (e->exit > first &&
                  (!e->births || (e->births == 1 && !e->made)));
}
