/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * System calls as they began and ended
 *
 * Where the trace names its threads, a call is one of a thread, and continues
 * while that does not run.  Elsewhere it is one of a vCPU, and has ended when
 * that runs something else.
 */

#ifndef BTRAIL_SYSCALL_TIMES_H
#define BTRAIL_SYSCALL_TIMES_H

#include "analyze/call-tree.h"
#include "analyze/cpu-use.h"
#include "util/closest.h"

/**
 * struct syscall_time
 * @process:  the task that made the call
 * @function: its @syscall is the name of the call
 * @begin:    of the host's clock
 * @end:      the same
 * @paused:   how long its task, or the whole guest, was paused in it
 * @vcpu:     that ran the task when the call began
 * @late:     it had begun before that
 * @cut:      it has not really ended: the trace has no more of it
 * @use:      what its thread waits, if that is asked for; or NULL
 * @waited:   what it had waited when the call began
 */
struct syscall_time {
    const struct process *process;
    const struct function *function;
    uint64_t begin;
    uint64_t end;
    uint64_t paused;
    unsigned vcpu;
    bool late;
    bool cut;
    const struct cpu_use_thread *use;
    struct cpu_use_mark waited;
};

/**
 * struct syscall_times_options
 * @shortest: shorter calls are left out, in ns
 * @name:     of the calls that are reported; NULL for all
 * @pauses:   of the trace; NULL: calls have none
 * @use:      if not NULL, gets to know which task each vCPU runs
 * @ended:    called for each call in which there are records that count
 */
struct syscall_times_options {
    uint64_t shortest;
    const char *name;
    const struct pauses *pauses;
    struct cpu_use *use;
    void (*ended)(void *opaque, const struct syscall_time *s);
    void *opaque;
};

struct syscall_times;

struct syscall_times *
syscall_times_new(const struct syscall_times_options *options);
void syscall_times_free(struct syscall_times *s);

/* For call_tree_read(), which gets the times as @opaque */
extern const struct call_tree_ops syscall_times_tree_ops;

/* Ends all calls, where the trace or the window ends. */
void syscall_times_end(struct syscall_times *s,
                       const struct btrail_trace *trace,
                       const struct window *window);

/* The calls that were made and whose names are most like the wanted @name */
const struct closest *
syscall_times_closest(const struct syscall_times *s);

#endif /* BTRAIL_SYSCALL_TIMES_H */
