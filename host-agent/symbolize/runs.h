/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which kind of task ran: what the kernel's own functions tell
 *
 * A run is what one task makes on one vCPU until another is switched to.  Page
 * tables do not tell whose it is: a thread of the kernel has none of its own
 * and leaves in force what it finds, and so does the idle task.  But before
 * Linux switches to one of them it calls enter_lazy_tlb(), and before it
 * switches to another task switch_mm_irqs_off(), of this and no other process;
 * and then __switch_to_asm().
 */

#ifndef BTRAIL_RUNS_H
#define BTRAIL_RUNS_H

#include <glib.h>

#include "backtrail/trace.h"

/**
 * struct runs_symbols - addresses of functions; 0 for what is not known
 * @switch_to: __switch_to_asm
 * @lazy:      enter_lazy_tlb
 * @switch_mm: switch_mm_irqs_off
 * @idle:      functions of the idle task alone: do_idle, schedule_idle
 * @birth:     ret_from_fork, or ret_from_fork_asm
 * @clone:     kernel_clone, or _do_fork
 * @exit:      do_exit
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
};

/**
 * enum run_kind
 *
 * @RUN_UNKNOWN: nothing tells
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
 * struct run_event - a task comes or goes
 * @kind: a task begins to run, a task makes another one (which may fail), or a
 *        task ends
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
 * @first, @end: indices of its first record, and behind its last one
 * @time, @cr3: of the TIME event, and CR3, in force at its beginning; 0 if
 *              that is not known
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
 * runs_new - find the runs of a trace, which must have all that was executed
 *
 * NULL if it could not be read, or has too many.
 */
struct runs *runs_new(const struct btrail_trace *trace,
                      const struct runs_symbols *symbols, unsigned threads);
void runs_free(struct runs *r);

/* The run that a record is of */
struct run runs_find(const struct runs *r, unsigned vcpu, uint64_t index);

/*
 * Events of runs of RUN_USER, in no order.  Returns false if some may be
 * missing: the trace has gaps.
 */
bool runs_events(const struct runs *r, const struct run_event **events,
                 size_t *n);

#endif /* BTRAIL_RUNS_H */
