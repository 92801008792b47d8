/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The call stacks of a whole trace
 */

#ifndef BTRAIL_CALL_TREE_H
#define BTRAIL_CALL_TREE_H

#include "cli/cli.h"
#include "symbolize/filter.h"
#include "symbolize/stack.h"

/**
 * struct call_tree_ops - what is told while a trace is read; all can be NULL
 * @moved:  a vCPU went from one function to another, at a moment of the host's
 *          clock; NULL is nowhere
 * @spent:  so many records that count were made in a function, up to that
 *          moment
 */
struct call_tree_ops {
    void (*moved)(void *opaque, unsigned vcpu, uint64_t time,
                  const struct stack_node *from,
                  const struct stack_node *to);
    void (*spent)(void *opaque, unsigned vcpu, uint64_t time,
                  const struct stack_node *node, uint64_t records);
};

/**
 * struct call_tree_options
 * @filter: which records count; NULL for all
 * @time:   read no more than this, in nanoseconds since the session's start
 */
struct call_tree_options {
    struct symbolizer *names;
    const struct filter *filter;
    struct btrail_range time;
    const struct call_tree_ops *ops;
    void *opaque;
};

/**
 * struct call_tree
 * @stacks:  with the tree
 * @records: that were read
 * @damage:  damaged chunks, and GAP events that tell of what is missing
 */
struct call_tree {
    struct stacks *stacks;
    uint64_t records;
    uint64_t damage;
};

/*
 * Returns 0 and a tree, to be freed with call_tree_clear(); or a negative enum
 * btrail_error.
 */
int call_tree_read(struct call_tree *t, const struct cli_trace *trace,
                   const struct call_tree_options *options);
void call_tree_clear(struct call_tree *t);

/* Sums over a node and all below it, by its id; freed with g_free() */
struct call_sum {
    uint64_t records;
    uint64_t ticks;
};
struct call_sum *call_tree_sums(const struct call_tree *t);

/* Say on stderr how well calls and returns fit. */
void call_tree_tell(const struct call_tree *t);

/*
 * What a node is called: of a process "comm" or "comm 123", or "comm 123/124"
 * if it is known that another thread is left than the first
 */
const char *call_tree_name(const struct stack_node *n, char *buf, size_t size);

#endif /* BTRAIL_CALL_TREE_H */
