/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tasks that ran in each address space
 *
 * Tasks of the kernel borrow the page tables of a process, so not all records
 * of an address space are of its owner.
 */

#ifndef BTRAIL_SPACE_TASKS_H
#define BTRAIL_SPACE_TASKS_H

#include "analyze/window.h"
#include "symbolize/filter.h"

/**
 * struct space_key - an address space of one kernel
 * @cr3:    btrail_cr3_root() of it
 * @kernel: that of struct symbolizer_where
 */
struct space_key {
    uint64_t cr3;
    uint64_t kernel;
};

static inline struct space_key space_key_of(const struct btrail_batch *b)
{
    return (struct space_key) {
        btrail_cr3_root(b->cr3), symbolizer_kernel(&b->kernel),
    };
}

/**
 * struct space_task - the threads of one process with one name
 * @space:   that they ran in
 * @process: one of them
 * @likely:  records among @records that are likely, not certainly, of them
 */
struct space_task {
    struct space_key space;
    const struct process *process;
    uint64_t records;
    uint64_t likely;
};

struct space_tasks;

/* Only records that @filter (NULL: all) chooses in @window count. */
struct space_tasks *space_tasks_new(struct symbolizer *names,
                                    const struct filter *filter,
                                    const struct window *window);
void space_tasks_free(struct space_tasks *t);

/* Forgets what was counted. */
void space_tasks_reset(struct space_tasks *t);

/*
 * Counts the records of a batch; any thread can call this.  With too many
 * different tasks, those that come last are left out.
 *
 * Returns NULL if all of them count; otherwise which ones do, which the caller
 * frees with g_free().
 */
bool *space_tasks_add(struct space_tasks *t, unsigned vcpu,
                      const struct btrail_batch *b);

/*
 * The tasks of an address space, those with most records first; @n gets their
 * number.  After the last space_tasks_add().
 */
const struct space_task *space_tasks_of(struct space_tasks *t,
                                        const struct space_key *space,
                                        size_t *n);

#endif /* BTRAIL_SPACE_TASKS_H */
