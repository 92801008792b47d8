/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where call stacks continue after the kernel, or an interrupt: where they
 * were, in a signal handler, or in another thread
 */

#ifndef BTRAIL_STACK_EXIT_H
#define BTRAIL_STACK_EXIT_H

#include "symbolize/stack-return.h"

/* Back to user mode */
void stack_exit(struct stack_moves *m, struct stack_cpu *cpu,
                const struct stack_edge *e);

/* Back from an interrupt to the code in the same mode */
void stack_iret(struct stack_moves *m, struct stack_cpu *cpu,
                const struct stack_edge *e);

#endif /* BTRAIL_STACK_EXIT_H */
