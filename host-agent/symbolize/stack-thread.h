/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stacks of the threads that a trace names
 *
 * Each thread has a context, which waits while the thread does not run.  A vCPU
 * that runs a thread can have another context for the time being: where the
 * thread has not left another vCPU yet, because clocks are coarse; and after a
 * gap, until a return shows where the thread continues.
 */

#ifndef BTRAIL_STACK_THREAD_H
#define BTRAIL_STACK_THREAD_H

#include "symbolize/stack-context.h"

/**
 * stack_thread_number - the number that contexts know a thread by
 * @tid: as in struct task; each vCPU has an idle task, whose number is 0
 * @nested: likewise.  A nested guest has its own vCPUs, which run on any vCPU:
 *          its idle tasks are told apart by their names, swapper/0 and so on
 *
 * Returns 0 if no event names the thread.
 */
uint64_t stack_thread_number(unsigned vcpu, int64_t tid, uint16_t nested,
                             const char *name);

/*
 * The same after VMRUN, where the hypervisor may have run something else: each
 * thread is where it was when it left.
 */
void stack_thread_enter(struct stack_contexts *st, struct stack_cpu *cpu,
                        uint64_t thread);

/* @cpu runs a thread from here on; 0: the trace does not name it. */
void stack_thread_run(struct stack_contexts *st, struct stack_cpu *cpu,
                      uint64_t thread);

/* Moves the stack of @cpu's thread if the thread has another name now. */
void stack_thread_rename(struct stack_contexts *st, struct stack_cpu *cpu);

/*
 * Does @cpu's thread still run the program whose stack a context has?  It is
 * another one after an exec, with an address space of its own.  Before it
 * switches to another thread, the kernel loads that thread's address space, so
 * the answer is right in user mode, and where a thread gets a name.
 */
bool stack_thread_same(const struct stack_context *c,
                       const struct stack_cpu *cpu);

/*
 * @cpu's thread has returned to a place from which no frame of its context was
 * called.
 */
void stack_thread_return(struct stack_contexts *st, struct stack_cpu *cpu,
                         const struct stack_edge *e);

/*
 * The thread's context, if @cpu has another one for it and no vCPU runs the
 * former; or NULL
 */
struct stack_context *stack_thread_waiting(struct stack_contexts *st,
                                           const struct stack_cpu *cpu);

/* As stack_adopt(), for a context of @cpu's thread */
void stack_thread_adopt(struct stack_contexts *st, struct stack_cpu *cpu,
                        struct stack_context *c, unsigned k,
                        const struct stack_edge *e);

/* @cpu's thread is in a function, and has no frames: it is new, for example. */
void stack_thread_clear(struct stack_contexts *st, struct stack_cpu *cpu,
                        const struct function *function);

#endif /* BTRAIL_STACK_THREAD_H */
