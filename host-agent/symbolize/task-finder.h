/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tasks: which one ran, where page tables alone do not say
 *
 * A task of the kernel borrows the page table of the process that ran before
 * it.  The functions that the kernel calls when it switches tell them apart.
 */

#ifndef BTRAIL_TASK_FINDER_H
#define BTRAIL_TASK_FINDER_H

#include "symbolize/processes.h"

/**
 * struct task - the task that ran
 * @process: often the one whose page table was in force; tasks of the kernel
 *           are called NAME_TASK, and the idle task NAME_IDLE
 * @user:    how sure that is for records of user mode
 * @kernel:  the same for the other records
 */
struct task {
    const struct process *process;
    enum btrail_certainty user;
    enum btrail_certainty kernel;
};

struct task_finder;

/**
 * task_finder_new
 * @trace:  can be NULL, as can @names and @owners
 * @kernel: symbols of the kernel
 */
struct task_finder *task_finder_new(const struct btrail_trace *trace,
                                    struct address_space *kernel,
                                    const struct btrail_names *names,
                                    const struct btrail_owners *owners,
                                    struct processes *processes);
void task_finder_free(struct task_finder *f);

/* As symbolizer_part() */
bool task_finder_part(struct task_finder *f, unsigned vcpu,
                      const struct btrail_batch *b, struct btrail_batch *part,
                      struct task *task);

#endif /* BTRAIL_TASK_FINDER_H */
