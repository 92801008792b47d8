/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/call-rows.h: sums of rows against those of the tree
 */
#include "analyze/call-rows.h"
#include "cli/cli.h"
#include "random-trace.h"

static uint64_t sum_self(const struct stack_node *n)
{
    uint64_t sum = 0;

    for (; n; n = n->next) {
        sum += (n->function ? n->records : 0) + sum_self(n->child);
    }
    return sum;
}

static void check(const struct call_tree *t, enum call_rows_kind kind,
                  const char *function, bool any)
{
    uint64_t all, self = 0;
    struct rows *sums = call_rows_new(t, kind, function, &all);
    struct row **rows;
    size_t i, n;

    rows = rows_sorted(sums, CALL_ROWS_ALL, &n);
    g_assert_cmpuint(all, ==, t->records);
    g_assert_true(n ? any : !any);
    for (i = 0; i < n; i++) {
        g_assert_cmpuint(rows[i]->values[CALL_ROWS_ALL], <=, all);
        self += rows[i]->values[CALL_ROWS_SELF];
    }
    if (kind == CALL_ROWS_CHILDREN) {
        g_assert_cmpuint(self, ==, sum_self(stacks_roots(t->stacks)));
        g_assert_cmpuint(self, ==, all);
    }
    rows_free(sums);
}

static void test_random(void)
{
    unsigned round;

    for (round = 0; round < 4; round++) {
        struct random_trace *random = random_trace_new(1 + round % 3, 40);
        char *paths[] = { random->path, NULL };
        const struct symbolizer_options none = { NULL };
        struct call_tree_options options = {
            .names = symbolizer_new(&none, NULL, NULL),
        };
        struct call_tree tree;
        struct cli_trace t;

        g_assert_true(cli_trace_open(&t, paths));
        options.window = WINDOW_ALL(t.start);
        g_assert_cmpint(call_tree_read(&tree, t.trace, &options), ==, 0);
        check(&tree, CALL_ROWS_CHILDREN, NULL, true);
        check(&tree, CALL_ROWS_CALLERS, NAME_UNKNOWN, true);
        check(&tree, CALL_ROWS_CALLERS, "other", false);
        check(&tree, CALL_ROWS_CALLEES, "other", false);
        check(&tree, CALL_ROWS_SYSCALLS, NULL, false);
        call_tree_clear(&tree);
        symbolizer_free(options.names);
        cli_trace_close(&t);
        random_trace_free(random);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/call-rows/random", test_random);
    return g_test_run();
}
