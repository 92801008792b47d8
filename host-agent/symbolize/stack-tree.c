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

static void add_node(struct stack_tree *t, struct stack_node *n)
{
    struct stack_node **first = n->parent ? &n->parent->child : &t->roots;

    n->id = t->all->len;
    n->next = *first;
    *first = n;
    g_ptr_array_add(t->all, n);
    g_hash_table_add(t->nodes, n);
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
        t->counts->dropped++;
        return parent;
    }
    n = g_new0(struct stack_node, 1);
    *n = key;
    n->depth = parent ? parent->depth + 1 : 0;
    add_node(t, n);
    return n;
}

struct stack_node *stack_tree_seek(struct stack_tree *t,
                                   struct stack_node *parent,
                                   const struct function *function)
{
    return get_node(t, parent, parent->process, function);
}

/* What stands for all processes of the same name */
static const struct process *command_of(struct stack_tree *t,
                                        const struct process *p)
{
    struct process *command = g_hash_table_lookup(t->commands, p->comm);

    if (!command) {
        command = g_new(struct process, 1);
        *command = (struct process) {
            .pid = -1, .tid = -1, .comm = p->comm, .known = p->known,
            .who = command,
        };
        g_hash_table_insert(t->commands, (gpointer)p->comm, command);
    }
    return command;
}

struct stack_node *stack_tree_root(struct stack_tree *t,
                                   const struct process *p)
{
    return get_node(t, NULL, t->commands ? command_of(t, p) : p->who, NULL);
}

void stack_tree_keep(struct stack_node *node)
{
    for (; node && !node->kept; node = node->parent) {
        node->kept = true;
    }
}

void stack_tree_sweep(struct stack_tree *t)
{
    GPtrArray *old = t->all;

    t->all = g_ptr_array_new_with_free_func(g_free);
    t->roots = NULL;
    g_hash_table_remove_all(t->nodes);
    /* A parent is older than its children. */
    for (unsigned i = 0; i < old->len; i++) {
        struct stack_node *n = old->pdata[i];

        if (n->kept) {
            n->kept = false;
            n->records = n->ticks = n->calls = 0;
            n->child = n->hot = NULL;
            add_node(t, n);
        } else {
            g_free(n);
        }
    }
    g_ptr_array_set_free_func(old, NULL);
    g_ptr_array_unref(old);
}

void stack_tree_init(struct stack_tree *t, bool by_command,
                     struct stack_counts *counts)
{
    *t = (struct stack_tree) {
        .nodes = g_hash_table_new(node_hash, node_equal),
        .all = g_ptr_array_new_with_free_func(g_free),
        .commands = by_command ?
                    g_hash_table_new_full(g_str_hash, g_str_equal, NULL,
                                          g_free) : NULL,
        .counts = counts,
    };
}

void stack_tree_clear(struct stack_tree *t)
{
    g_hash_table_unref(t->nodes);
    g_ptr_array_unref(t->all);
    g_clear_pointer(&t->commands, g_hash_table_unref);
}
