/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tasks of two traces, and which of them are the same
 *
 * Two boots of a guest start nearly the same processes, with nearly the same
 * numbers.  Tasks are the same if they have the same name and number.  Of those
 * that are left, the first one of a name is the same as the first one of that
 * name, and so on; then those with the same number that had the same name at
 * some time, because a trace may have ended, or named the task for the last
 * time, before it got its last name.
 */

#ifndef BTRAIL_DIFF_TASKS_H
#define BTRAIL_DIFF_TASKS_H

#include "analyze/diff-edges.h"
#include "analyze/window.h"

/**
 * struct diff_task
 * @process: the task as it was named last
 * @pid, @tid: -1 if they are not known
 * @comm:    its last name
 * @names:   all that it had, of char *
 * @named:   an event has named it
 * @known:   the same, or a snapshot has
 * @kernel:  it is a task of the kernel
 * @vcpu:    of an idle task; that of its first record otherwise
 * @records: that it has made
 * @time, @last: of its first record, and its last ones, by the host's clock
 * @other:   the same task in the other trace, or NULL
 * @user:    free for the user
 */
struct diff_task {
    const struct process *process;
    int64_t pid;
    int64_t tid;
    const char *comm;
    GPtrArray *names;
    bool named;
    bool known;
    bool kernel;
    unsigned vcpu;
    uint64_t records;
    uint64_t time;
    uint64_t last;
    struct diff_task *other;
    void *user;
};

/**
 * struct diff_tasks
 * @all:     of struct diff_task *, by their first records
 * @records: of the part of the trace that is read
 * @damage:  as of btrail_cursor_damage()
 */
struct diff_tasks {
    GPtrArray *all;
    GHashTable *keys;
    uint64_t records;
    uint64_t damage;
};

/*
 * Finds the tasks of a trace, without decoding its records.  Returns 0 or a
 * negative enum btrail_error.
 */
int diff_tasks_read(struct diff_tasks *t, const struct btrail_trace *trace,
                    struct symbolizer *names, const struct window *window);
void diff_tasks_clear(struct diff_tasks *t);

/* The task that made records of a vCPU; NULL if it was not found before. */
struct diff_task *diff_tasks_find(const struct diff_tasks *t, unsigned vcpu,
                                  const struct task *task);

/* Finds out which tasks are the same. */
void diff_tasks_match(struct diff_tasks tasks[DIFF_SIDES]);

#endif /* BTRAIL_DIFF_TASKS_H */
