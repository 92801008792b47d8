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
    struct call_rows sums;
    struct row **rows;
    uint64_t all, self = 0;
    size_t i, n;

    call_rows_init(&sums, kind, function);
    call_rows_add(&sums, t);
    rows = rows_sorted(sums.rows, CALL_ROWS_ALL, &n);
    all = sums.all;
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
    call_rows_clear(&sums);
}

static void add_rows(void *opaque, const struct call_tree *t)
{
    call_rows_add(opaque, t);
}

/* The rows of a tree are those of all that is spilled of it. */
static void check_spilled(const struct call_tree *t,
                          const struct btrail_trace *trace,
                          const struct call_tree_options *all)
{
    static const struct call_tree_ops ops = { .spill = add_rows };
    struct call_tree_options options = *all;
    struct call_rows whole, parts;
    struct call_tree rest;
    struct row **want, **got;
    size_t n, m;

    call_rows_init(&whole, CALL_ROWS_CHILDREN, NULL);
    call_rows_add(&whole, t);
    call_rows_init(&parts, CALL_ROWS_CHILDREN, NULL);
    options.ops = &ops;
    options.opaque = &parts;
    options.many = 1;
    g_assert_cmpint(call_tree_read(&rest, trace, &options), ==, 0);
    call_rows_add(&parts, &rest);
    g_assert_cmpuint(stacks_nodes(rest.stacks), <, stacks_nodes(t->stacks));
    g_assert_cmpuint(parts.all, ==, whole.all);
    want = rows_sorted(whole.rows, CALL_ROWS_ALL, &n);
    got = rows_sorted(parts.rows, CALL_ROWS_ALL, &m);
    g_assert_cmpuint(n, ==, m);
    for (size_t i = 0; i < n; i++) {
        for (unsigned k = 0; k < 3; k++) {
            g_assert_cmpstr(got[i]->names[k], ==, want[i]->names[k]);
        }
        /* Parts of a nanosecond are lost at each spill. */
        for (unsigned k = 0; k < ROWS_MAX_VALUES; k++) {
            g_assert_true(k == CALL_ROWS_TIME ||
                          got[i]->values[k] == want[i]->values[k]);
        }
    }
    call_tree_clear(&rest);
    call_rows_clear(&whole);
    call_rows_clear(&parts);
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
        check_spilled(&tree, t.trace, &options);
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
