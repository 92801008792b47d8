/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/diff-edges.h: the same code at other addresses has the same
 * numbers, other code has others, and calls are counted
 */
#include <glib.h>

#include "analyze/diff-edges.h"

static struct module program = { .name = "program" };
static struct module library = { .name = "library" };

static struct function make(const char *name, struct module *module)
{
    return (struct function) {
        .name = name, .module = module, .known = name[0] != '[',
    };
}

struct end {
    const struct function *function;
    uint64_t base;
    uint64_t offset;
};

static uint32_t number(struct diff_edges *d, enum stack_edge_kind kind,
                       struct end from, struct end to)
{
    const struct stack_edge e = {
        .from = from.base + from.offset, .to = to.base + to.offset,
        .kind = kind, .start = to.function->known && !to.offset,
        .back = kind == STACK_EDGE_CALL ? from.base + from.offset + 5 : 0,
    };
    const struct place at = { from.function, from.offset, from.offset };
    const struct place target = { to.function, to.offset, to.offset };

    return diff_edges_number(d, &e, &at, &target, false);
}

static void test_numbers(void)
{
    struct function f = make("f", &program), g = make("g", &program);
    struct function other = make("f", &library);
    struct function again = make("f", &program);
    struct function none = make("[unknown]", &program);
    struct diff_edges *d = diff_edges_new();
    const struct end to = { &g, 0x9000, 0 };
    uint32_t call = number(d, STACK_EDGE_CALL, (struct end) { &f, 0x1000, 8 },
                           to);
    const struct end differ[] = {
        { &f, 0x1000, 9 }, { &other, 0x1000, 8 }, { &g, 0x1000, 8 },
        { &none, 0x1000, 8 },
    };
    const struct diff_edge *e = diff_edges_get(d, call);

    g_assert_cmpuint(call, >, DIFF_EDGE_OTHERS | DIFF_EDGE_STACK);
    g_assert_cmpuint(number(d, STACK_EDGE_CALL,
                            (struct end) { &again, 0x770000, 8 },
                            (struct end) { &g, 0x440000, 0 }), ==, call);
    for (unsigned i = 0; i < G_N_ELEMENTS(differ); i++) {
        g_assert_cmpuint(number(d, STACK_EDGE_CALL, differ[i], to), !=, call);
    }
    g_assert_cmpstr(e->from_fn->name, ==, "f");
    g_assert_cmpstr(e->to_fn->module, ==, "program");
    g_assert_cmpuint(e->from, ==, 8);
    g_assert_cmpuint(e->back, ==, 13);
    g_assert_true(e->start && e->user);
    /* Calls change the stack, jumps do not. */
    g_assert_true(call & DIFF_EDGE_STACK);
    g_assert_false(number(d, STACK_EDGE_JUMP, (struct end) { &f, 0x1000, 8 },
                          (struct end) { &f, 0x1000, 0x20 }) &
                   DIFF_EDGE_STACK);
    diff_edges_free(d);
}

/* The way out of the kernel is not told apart by where it begins. */
static void test_exit(void)
{
    struct function f = make("f", &program), out = make("out", &library);
    struct diff_edges *d = diff_edges_new();
    const struct end to = { &f, 0x1000, 0x30 };

    g_assert_cmpuint(number(d, STACK_EDGE_EXIT,
                            (struct end) { &out, ADDRESS_SHARED, 1 }, to), ==,
                     number(d, STACK_EDGE_EXIT,
                            (struct end) { &out, ADDRESS_SHARED, 2 }, to));
    diff_edges_free(d);
}

static void test_calls(void)
{
    enum { FUNCTIONS = 100 };
    struct diff_edges *d = diff_edges_new();
    struct function functions[FUNCTIONS];
    uint64_t expected[FUNCTIONS][DIFF_SIDES] = { 0 };
    GArray *counts[DIFF_SIDES];
    GPtrArray *found;

    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        counts[side] = g_array_new(FALSE, TRUE, sizeof(uint64_t));
    }
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        functions[i] = make(g_strdup_printf("f%u", i), &program);
    }
    for (unsigned i = 0; i < 20000; i++) {
        unsigned f = g_test_rand_int_range(0, FUNCTIONS);
        unsigned g = g_test_rand_int_range(0, FUNCTIONS);
        unsigned side = g_test_rand_bit();
        uint64_t offset = g_test_rand_bit() ? 0 : 64;
        uint32_t e = number(d, STACK_EDGE_CALL, (struct end) {
            &functions[f], 0x1000 * f, 16 + g_test_rand_int_range(0, 9),
        }, (struct end) { &functions[g], 0x1000 * g, offset }) / 2;

        if (e >= counts[side]->len) {
            g_array_set_size(counts[side], e + 1);
        }
        g_array_index(counts[side], uint64_t, e) += 1;
        expected[g][side] += !offset;
    }
    found = diff_edges_functions(d, counts);
    for (unsigned i = 0; i < found->len; i++) {
        const struct diff_function *f = found->pdata[i];

        if (f->known) {
            unsigned g = g_ascii_strtoull(f->name + 1, NULL, 10);

            g_assert_cmpuint(f->calls[0], ==, expected[g][0]);
            g_assert_cmpuint(f->calls[1], ==, expected[g][1]);
        }
    }
    g_assert_cmpuint(found->len, >=, FUNCTIONS);
    g_ptr_array_unref(found);
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        g_free((char *)functions[i].name);
    }
    g_array_unref(counts[0]);
    g_array_unref(counts[1]);
    diff_edges_free(d);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/diff-edges/numbers", test_numbers);
    g_test_add_func("/diff-edges/exit", test_exit);
    g_test_add_func("/diff-edges/calls", test_calls);
    return g_test_run();
}
