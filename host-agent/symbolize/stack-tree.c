/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A tree of functions: see stack-tree.h
 */

#include "symbolize/stack-tree.h"
#include "util/hash.h"

static guint node_hash(gconstpointer p)
{
    const struct stack_node *n = p;
    const void *name = n->function ? (const void *)n->function : n->process;

    return btrail_hash2((uintptr_t)n->parent, (uintptr_t)name) >> 32;
}

static gboolean node_equal(gconstpointer a, gconstpointer b)
{
    const struct stack_node *x = a, *y = b;

    return x->parent == y->parent && x->function == y->function &&
           (x->function || x->process == y->process);
}

static struct stack_node *get_node(struct stack_tree *t,
                                   struct stack_node *parent,
                                   const struct process *process,
                                   const struct function *function)
{
    const struct stack_node key = { parent, process, function };
    struct stack_node *n = g_hash_table_lookup(t->nodes, &key);

    if (n) {
        return n;
    }
    if (parent && t->all->len >= STACK_MAX_NODES) {
        (*t->dropped)++;
        return parent;
    }
    n = g_new0(struct stack_node, 1);
    *n = key;
    n->depth = parent ? parent->depth + 1 : 0;
    n->id = t->all->len;
    n->next = parent ? parent->child : t->roots;
    if (parent) {
        parent->child = n;
    } else {
        t->roots = n;
    }
    g_ptr_array_add(t->all, n);
    g_hash_table_add(t->nodes, n);
    return n;
}

struct stack_node *stack_tree_seek(struct stack_tree *t,
                                   struct stack_node *parent,
                                   const struct function *function)
{
    return get_node(t, parent, parent->process, function);
}

struct stack_node *stack_tree_root(struct stack_tree *t,
                                   const struct process *p)
{
    return get_node(t, NULL, p->who, NULL);
}

void stack_tree_init(struct stack_tree *t, uint64_t *dropped)
{
    *t = (struct stack_tree) {
        .nodes = g_hash_table_new(node_hash, node_equal),
        .all = g_ptr_array_new_with_free_func(g_free),
        .dropped = dropped,
    };
}

void stack_tree_clear(struct stack_tree *t)
{
    g_hash_table_unref(t->nodes);
    g_ptr_array_unref(t->all);
}
