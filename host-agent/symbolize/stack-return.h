/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where returns and jumps lead to in call stacks: back, to another stack, or
 * out of functions
 */

#ifndef BTRAIL_STACK_RETURN_H
#define BTRAIL_STACK_RETURN_H

#include "symbolize/stack-context.h"
#include "symbolize/stack-part.h"

/**
 * struct stack_moves - call stacks, and the edge that they follow
 * @ahead, @n_ahead: edges that the task takes after it
 * @next, @opaque: as in struct stacks_options
 * @parked: of struct stack_parked; empty
 * @over:   number of the stack that has just ended
 */
struct stack_moves {
    struct stack_tree tree;
    struct stack_contexts contexts;
    struct stack_counts counts;
    const struct stack_edge *const *ahead;
    size_t n_ahead;
    const struct stack_part *(*next)(void *opaque, unsigned n);
    void *opaque;
    GArray *parked;
    uint64_t over;
};

/* The frame that was added last in this mode, or NULL */
static inline struct stack_frame *stack_top(const struct stack_context *c)
{
    return c->n > stack_bottom(c) ? &c->frames[c->n - 1] : NULL;
}

static inline bool stack_returns_from(const struct stack_frame *top,
                                      uint64_t to)
{
    return top && stack_returns(top, to);
}

/* A jump; one that goes @far may be to anywhere. */
void stack_jump(struct stack_moves *m, struct stack_cpu *cpu,
                const struct stack_edge *e, bool far);

void stack_return(struct stack_moves *m, struct stack_cpu *cpu,
                  const struct stack_edge *e);

#endif /* BTRAIL_STACK_RETURN_H */
