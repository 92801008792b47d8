/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A tree of functions as they were called
 *
 * A node is a function as called along the path from the root, which is a
 * process, or all processes of one command.
 */

#ifndef BTRAIL_STACK_TREE_H
#define BTRAIL_STACK_TREE_H

#include "symbolize/stack-counts.h"
#include "symbolize/symbolizer.h"

/* Units of struct stack_node's @ticks in a nanosecond */
#define STACK_TICKS     1024

/* Limits of nodes and depth */
#define STACK_MAX_NODES (1u << 21)
#define STACK_MAX_DEPTH 512

/* With this many nodes it is time for stack_tree_sweep(). */
#define STACK_MANY_NODES (STACK_MAX_NODES / 2)

/**
 * struct stack_node - a function, called along a path
 * @parent:   NULL for a process
 * @process:  the root of the path
 * @function: NULL for a process
 * @records:  made in it, without those of its callees
 * @ticks:    time spent in it, in 1/STACK_TICKS ns
 * @calls:    number of calls along this path
 * @depth:    0 for a process
 * @kept:     stays at the next stack_tree_sweep()
 * @next:     another child of @parent
 */
struct stack_node {
    struct stack_node *parent;
    const struct process *process;
    const struct function *function;
    uint64_t records;
    uint64_t ticks;
    uint64_t calls;
    unsigned depth;
    unsigned id;
    bool kept;
    struct stack_node *child;
    struct stack_node *next;
    struct stack_node *hot;     /* the child that was searched last */
};

/**
 * struct stack_tree
 * @roots:    processes
 * @all:      nodes, by their ids
 * @slots:    the same, by parent and function; 1 << @bits of them
 * @commands: name -> the struct process that stands for all of that name; NULL
 *            if each process has a root of its own
 * @counts:   gets the calls that are beyond a limit
 */
struct stack_tree {
    struct stack_node *roots;
    GPtrArray *all;
    struct stack_node **slots;
    unsigned bits;
    GHashTable *commands;
    struct stack_counts *counts;
};

void stack_tree_init(struct stack_tree *t, bool by_command,
                     struct stack_counts *counts);
void stack_tree_clear(struct stack_tree *t);

/* Keeps a node, and the path to it, at the next stack_tree_sweep(). */
void stack_tree_keep(struct stack_node *node);

/*
 * Frees all nodes except those that are to be kept, which count from 0
 * again.
 */
void stack_tree_sweep(struct stack_tree *t);

/* The root of a process, or of its command */
struct stack_node *stack_tree_root(struct stack_tree *t,
                                   const struct process *p);

/* Finds or adds the child of @parent; stack_tree_child() is faster. */
struct stack_node *stack_tree_seek(struct stack_tree *t,
                                   struct stack_node *parent,
                                   const struct function *function);

/* The node of @function, called by @parent */
static inline struct stack_node *
stack_tree_child(struct stack_tree *t, struct stack_node *parent,
                 const struct function *function)
{
    if (parent->depth >= STACK_MAX_DEPTH && parent->parent) {
        t->counts->deep++;
        parent = parent->parent;
    }
    if (!parent->hot || parent->hot->function != function) {
        parent->hot = stack_tree_seek(t, parent, function);
    }
    return parent->hot;
}

/* The node of @function, called by the caller of @node: after a tail call */
static inline struct stack_node *
stack_tree_sibling(struct stack_tree *t, struct stack_node *node,
                   const struct function *function)
{
    if (node->function == function) {
        return node;
    }
    return stack_tree_child(t, node->parent ? node->parent : node, function);
}

#endif /* BTRAIL_STACK_TREE_H */
