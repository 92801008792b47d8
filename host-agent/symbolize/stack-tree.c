/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A tree of functions: see stack-tree.h
 */

#include <string.h>

#include "symbolize/stack-tree.h"
#include "util/hash.h"

#define FIRST_BITS  10

/* The slot of a node; it is empty if there is no such node. */
static struct stack_node **node_slot(const struct stack_tree *t,
                                     const struct stack_node *key)
{
    const void *name = key->function ? (const void *)key->function :
                       key->process;
    size_t mask = ((size_t)1 << t->bits) - 1;
    size_t i = btrail_hash2((uintptr_t)key->parent, (uintptr_t)name) >>
               (64 - t->bits);

    for (;; i = (i + 1) & mask) {
        const struct stack_node *n = t->slots[i];

        if (!n || (n->parent == key->parent && n->function == key->function &&
                   (n->function || n->process == key->process))) {
            return &t->slots[i];
        }
    }
}

static void grow_nodes(struct stack_tree *t)
{
    g_free(t->slots);
    t->bits++;
    t->slots = g_new0(struct stack_node *, (size_t)1 << t->bits);
    for (unsigned i = 0; i < t->all->len; i++) {
        *node_slot(t, t->all->pdata[i]) = t->all->pdata[i];
    }
}

static void add_node(struct stack_tree *t, struct stack_node *n)
{
    struct stack_node **first = n->parent ? &n->parent->child : &t->roots;

    n->id = t->all->len;
    n->next = *first;
    *first = n;
    if (t->all->len >= ((size_t)1 << t->bits) / 2) {
        grow_nodes(t);
    }
    *node_slot(t, n) = n;
    g_ptr_array_add(t->all, n);
}

static struct stack_node *get_node(struct stack_tree *t,
                                   struct stack_node *parent,
                                   const struct process *process,
                                   const struct function *function)
{
    const struct stack_node key = { parent, process, function };
    struct stack_node *n = *node_slot(t, &key);

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

/* The one that stands for all processes of the same name */
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
    memset(t->slots, 0, sizeof(*t->slots) << t->bits);
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
        .slots = g_new0(struct stack_node *, (size_t)1 << FIRST_BITS),
        .bits = FIRST_BITS,
        .all = g_ptr_array_new_with_free_func(g_free),
        .commands = by_command ?
                    g_hash_table_new_full(btrail_str_hash, g_str_equal, NULL,
                                          g_free) : NULL,
        .counts = counts,
    };
}

void stack_tree_clear(struct stack_tree *t)
{
    g_free(t->slots);
    g_ptr_array_unref(t->all);
    g_clear_pointer(&t->commands, g_hash_table_unref);
}
