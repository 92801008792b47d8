/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which interrupt a vCPU is in, by its call stack
 */

#ifndef BTRAIL_INTERRUPTED_H
#define BTRAIL_INTERRUPTED_H

#include "symbolize/stack.h"

/*
 * The name of the interrupt in Linux, such as apic_timer_interrupt, and of the
 * first function that says what it is for, after a colon; to be freed.  NULL if
 * the kernel runs for a task: a system call or an exception, or a thread of its
 * own.  @calls: as from stacks_calls()
 */
char *interrupted_by(const struct stack_call *calls, unsigned n);

#endif /* BTRAIL_INTERRUPTED_H */
