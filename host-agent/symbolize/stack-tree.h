/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions as they were called
 *
 * A node is a function as called along the path from the root, which is a
 * process.
 */

#ifndef BTRAIL_STACK_TREE_H
#define BTRAIL_STACK_TREE_H

#include "symbolize/symbolizer.h"

/* Units of struct stack_node's @ticks in a nanosecond */
#define STACK_TICKS     1024

/* A tree has no more nodes, and is no deeper. */
#define STACK_MAX_NODES (1u << 20)
#define STACK_MAX_DEPTH 512

/**
 * struct stack_node - a function, called along a path
 * @parent:   NULL for a process
 * @process:  of the whole path
 * @function: NULL for a process
 * @records:  made in it, not in what it called
 * @ticks:    time spent in it, in 1/STACK_TICKS ns
 * @calls:    how often it was called so
 * @depth:    0 for a process
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
    struct stack_node *child;
    struct stack_node *next;
    struct stack_node *hot;     /* the child that was sought last */
};

/**
 * struct stack_tree
 * @roots:   processes, and all below them
 * @all:     nodes, by their ids
 * @dropped: counts when a limit is reached, and a parent stands for the node
 */
struct stack_tree {
    struct stack_node *roots;
    GPtrArray *all;
    GHashTable *nodes;
    uint64_t *dropped;
};

void stack_tree_init(struct stack_tree *t, uint64_t *dropped);
void stack_tree_clear(struct stack_tree *t);

/* The root of a process */
struct stack_node *stack_tree_root(struct stack_tree *t,
                                   const struct process *p);

/* What is below @parent; stack_tree_child() is faster. */
struct stack_node *stack_tree_seek(struct stack_tree *t,
                                   struct stack_node *parent,
                                   const struct function *function);

/* @parent has called @function. */
static inline struct stack_node *
stack_tree_child(struct stack_tree *t, struct stack_node *parent,
                 const struct function *function)
{
    if (parent->depth >= STACK_MAX_DEPTH && parent->parent) {
        (*t->dropped)++;
        parent = parent->parent;
    }
    if (!parent->hot || parent->hot->function != function) {
        parent->hot = stack_tree_seek(t, parent, function);
    }
    return parent->hot;
}

/* The same caller has @function instead: after a tail call. */
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
