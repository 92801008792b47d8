/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The call stacks of a whole trace, as one tree
 */

#ifndef BTRAIL_CALL_TREE_H
#define BTRAIL_CALL_TREE_H

#include "analyze/off-cpu-sums.h"
#include "analyze/times.h"
#include "symbolize/filter.h"
#include "symbolize/stack.h"

struct call_tree;

/**
 * struct call_tree_ops - callbacks while a trace is read; each can be NULL
 * @moved:  a vCPU went from one function to another at a moment of the host's
 *          clock; a node of NULL means that the function is not known, or that
 *          @stack, which is that of @to, has ended: see stacks_stack()
 * @spent:  a vCPU has made @records records that count in a function, up to
 *          that moment
 * @gap:    records of a vCPU are missing
 * @spill:  the tree is large: then only the nodes on the stacks of now are
 *          kept, and all counts begin at 0 again
 * @runs:   a vCPU makes records of a task between two moments; NULL if nobody
 *          knows of which one.  This comes before what these records do.  To
 *          the task of a hypervisor, its guest is a part of what it runs
 */
struct call_tree_ops {
    void (*moved)(void *opaque, unsigned vcpu, uint64_t time,
                  const struct stack_node *from,
                  const struct stack_node *to, uint64_t stack);
    void (*spent)(void *opaque, unsigned vcpu, uint64_t time,
                  const struct stack_node *node, uint64_t stack,
                  uint64_t records);
    void (*gap)(void *opaque, unsigned vcpu);
    void (*spill)(void *opaque, const struct call_tree *t);
    void (*runs)(void *opaque, unsigned vcpu, const struct process *process,
                 uint64_t since, uint64_t until);
};

/**
 * struct call_tree_options
 * @filter: which records count; NULL for all
 * @window: the part of the trace that counts; stacks are those of the whole
 *          trace, so all before it is read
 * @from:   host clock; what was recorded before it is not read at all
 * @times:  the time that counts; NULL for that in the window
 * @waits:  of that, the time in which vCPUs can wait; NULL for all of it
 * @whole:  as in struct call_reader_options
 * @off_cpu: nodes count how often a task has left a vCPU there, as records, and
 *          how long it was away, in place of what vCPUs have run; see off-cpu.h.
 *          Without @ops
 * @tick:   of the session, in nanoseconds; 0 if it is not known
 * @many:   a tree with this many nodes is spilled; 0: STACK_MANY_NODES
 * @many_edges: this many different edges are classified anew; 0:
 *          STACK_MANY_EDGES
 * @ops:    NULL keeps the whole tree.  With @moved or @spent each process has
 *          a root of its own; without, all of a command share one
 */
struct call_tree_options {
    struct symbolizer *names;
    const struct filter *filter;
    struct window window;
    uint64_t from;
    const struct times *times;
    const struct times *waits;
    bool whole;
    bool off_cpu;
    uint64_t tick;
    unsigned many;
    unsigned many_edges;
    const struct call_tree_ops *ops;
    void *opaque;
};

/**
 * struct call_tree
 * @stacks:  the tree, and how well calls and returns matched
 * @records: number of records in the window
 * @chosen:  of those that the filter has chosen
 * @damage:  as of btrail_cursor_damage()
 * @gaps:    where records are missing in the window
 * @tasks:   with @off_cpu: some are named by events
 * @forgotten: how often it is not known how long a task was away
 * @away:    with @off_cpu: the same times as of nodes, by who woke the task
 * @told:    the trace says who is woken
 */
struct call_tree {
    struct stacks *stacks;
    uint64_t records;
    uint64_t chosen;
    uint64_t damage;
    uint64_t gaps;
    bool tasks;
    uint64_t forgotten;
    struct off_cpu_sums *away;
    bool told;
};

/*
 * Returns 0 and a tree, which call_tree_clear() frees; or a negative enum
 * btrail_error.
 */
int call_tree_read(struct call_tree *t, const struct btrail_trace *trace,
                   const struct call_tree_options *options);
void call_tree_clear(struct call_tree *t);

/*
 * Sums over a node and all nodes below it.  The array has one entry for each
 * node, by its id; the caller frees it with g_free().
 */
struct call_sum {
    uint64_t records;
    uint64_t ticks;
};
struct call_sum *call_tree_sums(const struct call_tree *t);

/*
 * The name of a node.  A process is "comm", "comm 123" with its pid, or
 * "comm 123/124" if its only thread is known and is not the first one.
 */
const char *call_tree_name(const struct stack_node *n, char *buf, size_t size);

/* The same of a function of a process; NULL for the process */
const char *call_tree_name_of(const struct process *process,
                              const struct function *function, char *buf,
                              size_t size);

#endif /* BTRAIL_CALL_TREE_H */
