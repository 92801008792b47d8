/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Threads of control, and which of them vCPUs run
 *
 * A context is a stack: the user's frames, the entry into the kernel and the
 * kernel's frames.  Which one a vCPU goes on with after a switch is found by
 * return addresses.
 */

#ifndef BTRAIL_STACK_CONTEXT_H
#define BTRAIL_STACK_CONTEXT_H

#include "symbolize/stack-counts.h"
#include "symbolize/stack-edge.h"
#include "symbolize/stack-tree.h"

enum stack_frame_kind {
    STACK_FRAME_CALL,
    STACK_FRAME_INTERRUPT,
    STACK_FRAME_ENTRY,
    STACK_FRAME_SIGNAL,
};

/*
 * @from and @back: if the call's length is not known, @back is 0
 * @caller: where it goes on after the return
 */
struct stack_frame {
    uint64_t from;
    uint64_t back;
    struct stack_node *caller;
    uint8_t kind;
    bool inner;
};

struct stack_context {
    struct stack_frame *frames;
    unsigned n;
    unsigned size;
    int entry;                  /* that of STACK_FRAME_ENTRY; -1: user mode */
    struct stack_node *node;    /* NULL if that is not known */
    const struct process *process;
    bool sure;                  /* it was in user mode in that process */
    bool parked;                /* a user stack that is not a thread's */
    bool running;
    uint64_t resume;            /* where in the kernel it will go on */
    uint64_t age;
    GPtrArray *candidates;      /* what it could be, if it has no frames */
    unsigned level;             /* frames of theirs that were passed */
};

struct stack_cpu {
    struct stack_context *ctx;
    const struct process *process;
    unsigned switching;         /* frames, when the stack is switched; 0: not */
};

/**
 * struct stack_contexts
 * @counts:   what happened
 * @n_cpus:   beyond these, none was seen
 * @all:      all of struct stack_context
 * @counting: the record that comes counts
 */
struct stack_contexts {
    struct stack_tree *tree;
    struct stack_counts *counts;
    struct stack_cpu cpus[BTRAIL_MAX_VCPUS];
    unsigned n_cpus;
    GPtrArray *all;
    uint64_t age;
    bool counting;
};

void stack_contexts_init(struct stack_contexts *st, struct stack_tree *tree,
                         struct stack_counts *counts);
void stack_contexts_clear(struct stack_contexts *st);

/* A context that runs; the one that was left first makes room for it. */
struct stack_context *stack_context_new(struct stack_contexts *st,
                                        const struct process *process);

/* Call what the edge leads to. */
void stack_push(struct stack_contexts *st, struct stack_context *c,
                enum stack_frame_kind kind, const struct stack_edge *e);

/* Go back to frame @k. */
void stack_pop_to(struct stack_contexts *st, struct stack_context *c,
                  unsigned k, const struct stack_edge *e);

/*
 * @cpu does not run its context any more, which may be gone afterwards if it
 * has no frames.
 */
void stack_suspend(struct stack_contexts *st, struct stack_cpu *cpu,
                   uint64_t resume);

/* @cpu goes on with @c, where that was left. */
void stack_run(struct stack_contexts *st, struct stack_cpu *cpu,
               struct stack_context *c);

/* Nothing is known but where it is. */
struct stack_context *stack_run_fresh(struct stack_contexts *st,
                                      struct stack_cpu *cpu,
                                      const struct stack_edge *e);

/* @c turns out to be what @cpu runs; its frames from @k on are done. */
void stack_adopt(struct stack_contexts *st, struct stack_cpu *cpu,
                 struct stack_context *c, unsigned k,
                 const struct stack_edge *e);

/* The kernel goes on at @to, on the stack of another thread. */
void stack_switch_thread(struct stack_contexts *st, struct stack_cpu *cpu,
                         const struct stack_edge *e, uint64_t resume);

/* The last known frame of a context has returned. */
void stack_return_from_bottom(struct stack_contexts *st,
                              struct stack_cpu *cpu,
                              const struct stack_edge *e);

/* A user stack that was left and goes on at @to: the oldest one */
struct stack_context *stack_find_parked(struct stack_contexts *st,
                                        const struct stack_cpu *cpu,
                                        uint64_t to);

/* A program goes on with another stack of its own. */
void stack_park(struct stack_contexts *st, struct stack_cpu *cpu,
                const struct stack_edge *e, struct stack_context *next);

/* The frame that goes back to @to, or -1 */
int stack_find_back(const struct stack_context *c, uint64_t to);

/* The frame that a function called from, or -1 */
int stack_find_caller(const struct stack_context *c,
                      const struct function *function);

/* The frames that belong to what the context does now: from here on */
unsigned stack_bottom(const struct stack_context *c);

/* Does a return from this frame go to @to? */
bool stack_goes_back(const struct stack_frame *f, uint64_t to);

/*
 * With page table isolation a process has two page tables, one beside the
 * other.  Who knows the process knows that it is one.
 */
bool stack_same_process(const struct process *a, const struct process *b);

#endif /* BTRAIL_STACK_CONTEXT_H */
