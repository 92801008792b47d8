/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The threads of a trace: which one each vCPU runs, and which of them can have
 * made records that are missing
 *
 * What vCPUs do comes in the order of an estimated time.  So a thread can be
 * seen on a second vCPU before the first one is seen to have left it.
 */

#ifndef BTRAIL_CPU_THREADS_H
#define BTRAIL_CPU_THREADS_H

#include <glib.h>

#include "analyze/pauses.h"
#include "symbolize/processes.h"

/**
 * struct cpu_thread - what the user keeps of a thread begins with it
 * @number: in the order in which they came
 * @vcpu:   that ran it last
 * @paused: for how long vCPUs were paused while they ran it, but for the time
 *          in which the whole guest was; up to the last cpu_threads_run()
 * @gaps:   it has made none of the records that are missing in so many gaps,
 *          the first ones; see cpu_threads_lost()
 */
struct cpu_thread {
    unsigned number;
    unsigned vcpu;
    uint64_t paused;
    uint64_t gaps;
};

struct cpu_threads;

/* @size: of what the user keeps of a thread, which is 0 at first.  @clear frees
 * what is in it; or NULL */
struct cpu_threads *cpu_threads_new(size_t size, GDestroyNotify clear);
void cpu_threads_free(struct cpu_threads *c);

/* Before all that follows: the pauses of the trace, which are used up to the
 * last call; or NULL */
void cpu_threads_set_pauses(struct cpu_threads *c, const struct pauses *pauses);

/* What vCPUs run, they have run up to this time. */
void cpu_threads_end(struct cpu_threads *c, uint64_t time);

/* A vCPU has made records up to this time of the host's clock. */
void cpu_threads_time(struct cpu_threads *c, unsigned vcpu, uint64_t time);

/*
 * A vCPU runs this task, at least since this time.  Returns its thread; NULL if
 * it has none: @p is NULL, nobody names its thread, or it is an idle task,
 * which is the vCPU itself.
 */
void *cpu_threads_run(struct cpu_threads *c, unsigned vcpu, uint64_t time,
                      const struct process *p);

/* The last result for a vCPU */
void *cpu_threads_now(const struct cpu_threads *c, unsigned vcpu);

/*
 * Records of a vCPU are missing from the last cpu_threads_time() on.  Threads
 * that other vCPUs have run since before have not made them.
 */
void cpu_threads_gap(struct cpu_threads *c, unsigned vcpu);

/* Can it have made records that are missing, since cpu_threads_found()? */
bool cpu_threads_lost(const struct cpu_threads *c, const void *thread);

/* If it can: since when */
uint64_t cpu_threads_lost_since(const struct cpu_threads *c,
                                const void *thread);

/* What it does is known again. */
void cpu_threads_found(const struct cpu_threads *c, void *thread);

/* The thread of a task, or NULL */
void *cpu_threads_find(const struct cpu_threads *c,
                       const struct btrail_task *task);

/* All, by number; the list is to be freed. */
GList *cpu_threads_all(const struct cpu_threads *c);

#endif /* BTRAIL_CPU_THREADS_H */
