/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of symbolize/stack-tree.h: nodes, tail calls, limits
 */
#include <glib.h>

#include "symbolize/stack-tree.h"

static struct process process, other;
static struct function functions[3];

static void test_nodes(void)
{
    struct stack_counts counts = { 0 };
    struct stack_tree t;
    struct stack_node *root, *a, *b;

    stack_tree_init(&t, false, &counts);
    process.who = &process;
    /* It stands for the other one. */
    other.who = &process;
    root = stack_tree_root(&t, &process);
    g_assert_true(stack_tree_root(&t, &other) == root);
    g_assert_true(t.roots == root && !root->function && !root->parent);
    a = stack_tree_child(&t, root, &functions[0]);
    b = stack_tree_child(&t, root, &functions[1]);
    g_assert_true(a != b);
    g_assert_true(stack_tree_child(&t, root, &functions[0]) == a);
    g_assert_true(stack_tree_sibling(&t, a, &functions[1]) == b);
    g_assert_true(stack_tree_sibling(&t, a, &functions[0]) == a);
    g_assert_true(stack_tree_child(&t, a, &functions[1]) != b);
    g_assert_true(a->parent == root && a->process == &process);
    g_assert_cmpuint(a->depth, ==, 1);
    g_assert_cmpuint(t.all->len, ==, 4);
    g_assert_true(t.all->pdata[b->id] == b);
    /* Both are found from their parent. */
    g_assert_true((root->child == a && a->next == b) ||
                  (root->child == b && b->next == a));
    g_assert_cmpuint(counts.dropped + counts.deep, ==, 0);
    stack_tree_clear(&t);
}

/* Processes of one name share a root. */
static void test_commands(void)
{
    struct process one = { .pid = 1, .comm = "sh" };
    char same[] = "sh";
    struct process two = { .pid = 2, .comm = same };
    struct process three = { .pid = 3, .comm = "cc" };
    struct stack_counts counts = { 0 };
    struct stack_tree t;
    struct stack_node *root;

    stack_tree_init(&t, true, &counts);
    root = stack_tree_root(&t, &one);
    g_assert_true(stack_tree_root(&t, &two) == root);
    g_assert_true(stack_tree_root(&t, &three) != root);
    g_assert_cmpstr(root->process->comm, ==, "sh");
    g_assert_cmpint(root->process->pid, ==, -1);
    stack_tree_clear(&t);
}

static void test_sweep(void)
{
    struct stack_counts counts = { 0 };
    struct stack_tree t;
    struct stack_node *root, *a, *b, *c;

    stack_tree_init(&t, false, &counts);
    process.who = &process;
    other.who = &other;
    stack_tree_child(&t, stack_tree_root(&t, &other), &functions[0]);
    root = stack_tree_root(&t, &process);
    a = stack_tree_child(&t, root, &functions[0]);
    stack_tree_child(&t, root, &functions[1]);
    b = stack_tree_child(&t, a, &functions[1]);
    c = stack_tree_child(&t, a, &functions[2]);
    stack_tree_child(&t, c, &functions[0]);
    a->records = b->calls = c->ticks = 7;
    stack_tree_keep(b);
    stack_tree_keep(NULL);
    stack_tree_sweep(&t);
    /* What is kept is where it was, and can be found. */
    g_assert_cmpuint(t.all->len, ==, 3);
    g_assert_true(t.roots == root && !root->next && root->child == a);
    g_assert_true(!a->next && a->child == b && !b->next && !b->child);
    g_assert_true(stack_tree_root(&t, &process) == root);
    g_assert_true(stack_tree_child(&t, root, &functions[0]) == a);
    g_assert_true(stack_tree_child(&t, a, &functions[1]) == b);
    g_assert_cmpuint(a->records + b->calls, ==, 0);
    for (unsigned i = 0; i < t.all->len; i++) {
        g_assert_cmpuint(((struct stack_node *)t.all->pdata[i])->id, ==, i);
    }
    /* What is not is new when it comes again. */
    c = stack_tree_child(&t, a, &functions[2]);
    g_assert_cmpuint(c->id, ==, 3);
    g_assert_cmpuint(c->ticks, ==, 0);
    /* Nothing is kept for ever. */
    stack_tree_sweep(&t);
    g_assert_cmpuint(t.all->len, ==, 0);
    g_assert_null(t.roots);
    g_assert_cmpuint(counts.dropped + counts.deep, ==, 0);
    stack_tree_clear(&t);
}

static void test_limits(void)
{
    struct function *many = g_new0(struct function, STACK_MAX_NODES);
    struct stack_counts counts = { 0 };
    struct stack_tree t;
    struct stack_node *n;
    unsigned i;

    stack_tree_init(&t, false, &counts);
    process.who = &process;
    n = stack_tree_root(&t, &process);
    for (i = 0; i < STACK_MAX_DEPTH; i++) {
        n = stack_tree_child(&t, n, &functions[i % 2]);
    }
    g_assert_cmpuint(n->depth, ==, STACK_MAX_DEPTH);
    g_assert_cmpuint(counts.dropped + counts.deep, ==, 0);
    n = stack_tree_child(&t, n, &functions[2]);
    g_assert_cmpuint(n->depth, ==, STACK_MAX_DEPTH);
    g_assert_true(n->function == &functions[2]);
    g_assert_cmpuint(counts.deep, ==, 1);
    for (i = 0; i < STACK_MAX_NODES; i++) {
        n = stack_tree_child(&t, t.roots, &many[i]);
        g_assert_nonnull(n);
    }
    g_assert_true(n == t.roots);
    g_assert_cmpuint(t.all->len, ==, STACK_MAX_NODES);
    /* All of a path that is too long, and the rest of the many */
    g_assert_cmpuint(counts.dropped, ==, STACK_MAX_DEPTH + 2);
    g_assert_cmpuint(counts.deep, ==, 1);
    /* Processes are few. */
    other.who = &other;
    g_assert_true(stack_tree_root(&t, &other)->process == &other);
    stack_tree_clear(&t);
    g_free(many);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/stack-tree/nodes", test_nodes);
    g_test_add_func("/stack-tree/commands", test_commands);
    g_test_add_func("/stack-tree/sweep", test_sweep);
    g_test_add_func("/stack-tree/limits", test_limits);
    return g_test_run();
}
