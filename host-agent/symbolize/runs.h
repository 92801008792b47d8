/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Runs: the records between two task switches of a vCPU, and the kind of task
 *
 * The page table alone does not say which task ran: a thread of the kernel and
 * the idle task have no page table of their own and keep the one in force.
 * Before Linux switches to one of them it calls enter_lazy_tlb(); before it
 * switches to another task it calls switch_mm_irqs_off() for its process.  Then
 * it calls __switch_to_asm().  Until then, what begins with start_kernel() is
 * init_task, which is the idle task of the CPU that boots; each other CPU
 * begins with its own in start_secondary().
 */

#ifndef BTRAIL_RUNS_H
#define BTRAIL_RUNS_H

#include <glib.h>

#include "backtrail/trace.h"

/**
 * struct runs_symbols - addresses of the kernel's functions; 0: not known
 * @switch_to: __switch_to_asm
 * @lazy:      enter_lazy_tlb
 * @switch_mm: switch_mm_irqs_off
 * @idle:      functions that only the idle task executes: do_idle,
 *             schedule_idle
 * @birth:     ret_from_fork, or ret_from_fork_asm
 * @clone:     kernel_clone, or _do_fork
 * @exit:      do_exit
 * @start:     start_kernel, start_secondary
 */
struct runs_symbols {
    uint64_t switch_to;
    uint64_t lazy;
    uint64_t switch_mm;
    struct {
        uint64_t start;
        uint64_t end;
    } idle[2];
    uint64_t birth;
    uint64_t clone;
    uint64_t exit;
    uint64_t start[2];
};

/**
 * enum run_kind
 *
 * @RUN_UNKNOWN: not known
 * @RUN_USER:    a task of the process whose page tables are in force
 * @RUN_KERNEL:  a thread of the kernel
 * @RUN_IDLE:    the idle task
 */
enum run_kind {
    RUN_UNKNOWN,
    RUN_USER,
    RUN_KERNEL,
    RUN_IDLE,
};

/**
 * struct run_event - a task begins or ends
 * @kind: a new task begins to run, a task makes another one (which may fail),
 *        or a task ends
 * @time: of the TIME event in force
 */
struct run_event {
    enum { RUN_BIRTH, RUN_CLONE, RUN_EXIT } kind;
    unsigned vcpu;
    uint64_t index;
    uint64_t time;
    uint64_t cr3;
};

/**
 * struct run
 * @first, @end: index of its first record, and after its last one
 * @time, @cr3: TIME event and CR3 in force at its beginning; 0 if not known
 */
struct run {
    uint64_t first;
    uint64_t end;
    uint64_t time;
    uint64_t cr3;
    enum run_kind kind;
};

struct runs;

/**
 * runs_new - find the runs of a trace, which must not be filtered
 * @until: for each vCPU, the index up to which its stream is searched: its
 *         events name the tasks from there on.  UINT64_MAX for all of it; NULL
 *         for all of all streams
 *
 * Returns NULL if the trace cannot be read, or has too many runs.
 */
struct runs *runs_new(const struct btrail_trace *trace, const uint64_t *until,
                      const struct runs_symbols *symbols, unsigned threads);
void runs_free(struct runs *r);

/* The run that a record belongs to */
struct run runs_find(const struct runs *r, unsigned vcpu, uint64_t index);

/*
 * Gets the events of runs of RUN_USER, in no order.  Returns false if some may
 * be missing because the trace has gaps.
 */
bool runs_events(const struct runs *r, const struct run_event **events,
                 size_t *n);

#endif /* BTRAIL_RUNS_H */
