/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of symbolize/stack-context.h: frames, switches and parked stacks
 */
#include <glib.h>

#include "symbolize/stack-context.h"

#define KERNEL  UINT64_C(0xffffffff81000000)

static struct module module = { .name = "m" };
static struct function functions[] = {
    { .name = "a", .module = &module, .known = true },
    { .name = "b", .module = &module, .known = true },
    { .name = "c", .module = &module, .known = true },
};
static struct process one = { .cr3 = 0x1000, .who = &one, .owner = &one,
                              .known = true };
static struct process two = { .cr3 = 0x2000, .who = &two, .owner = &two,
                              .known = true };

struct setup {
    struct stack_counts counts;
    struct stack_tree tree;
    struct stack_contexts *st;
    struct stack_cpu *cpu;
};

static void setup(struct setup *x)
{
    *x = (struct setup) { .st = g_new0(struct stack_contexts, 1) };
    stack_tree_init(&x->tree, false, &x->counts);
    stack_contexts_init(x->st, &x->tree, &x->counts);
    x->cpu = &x->st->cpus[0];
    x->cpu->process = &one;
    x->st->n_cpus = 1;
    x->cpu->ctx = stack_context_new(x->st, &one);
    x->cpu->ctx->node = stack_tree_child(&x->tree,
                                         stack_tree_root(&x->tree, &one),
                                         &functions[0]);
}

static void teardown(struct setup *x)
{
    stack_contexts_clear(x->st);
    stack_tree_clear(&x->tree);
    g_free(x->st);
}

/* A call from one function to another, that returns to @back */
static struct stack_edge call(unsigned from, unsigned to, uint64_t back)
{
    return (struct stack_edge) {
        .from = back - 5, .to = KERNEL + 0x1000 * to, .back = back,
        .from_fn = &functions[from], .to_fn = &functions[to],
        .kind = STACK_EDGE_CALL, .start = true,
    };
}

static struct stack_edge ret(uint64_t to, unsigned function)
{
    return (struct stack_edge) {
        .to = to, .to_fn = &functions[function], .kind = STACK_EDGE_RET,
    };
}

static void test_frames(void)
{
    struct stack_edge e = call(0, 1, KERNEL + 0x105);
    struct stack_context *c;
    struct stack_node *a;
    struct setup x;
    unsigned i;

    setup(&x);
    c = x.cpu->ctx;
    a = c->node;
    x.st->counting = true;
    stack_push(x.st, c, STACK_FRAME_CALL, &e);
    g_assert_true(c->node->function == &functions[1]);
    g_assert_true(c->node->parent == a);
    g_assert_cmpuint(c->node->calls, ==, 1);
    e = call(1, 2, KERNEL + 0x1105);
    stack_push(x.st, c, STACK_FRAME_CALL, &e);
    g_assert_cmpint(stack_find_back(c, KERNEL + 0x105), ==, 0);
    g_assert_cmpint(stack_find_back(c, KERNEL + 0x1105), ==, 1);
    g_assert_cmpint(stack_find_back(c, KERNEL), ==, -1);
    g_assert_cmpint(stack_find_caller(c, &functions[1]), ==, 1);
    g_assert_cmpint(stack_find_caller(c, &functions[2]), ==, -1);
    /* Below the entry into the kernel nothing is looked for. */
    stack_push(x.st, c, STACK_FRAME_ENTRY, &e);
    g_assert_cmpuint(stack_bottom(c), ==, 3);
    g_assert_cmpint(stack_find_back(c, KERNEL + 0x105), ==, -1);
    e = ret(KERNEL + 0x105, 0);
    stack_pop_to(x.st, c, 0, &e);
    g_assert_true(c->node == a);
    g_assert_cmpuint(c->n, ==, 0);
    g_assert_cmpint(c->entry, ==, -1);
    /* A call of which only the beginning is known */
    e = call(0, 1, KERNEL + 5);
    e.back = 0;
    stack_push(x.st, c, STACK_FRAME_CALL, &e);
    g_assert_true(stack_goes_back(&c->frames[0], KERNEL + 2));
    g_assert_true(stack_goes_back(&c->frames[0], KERNEL + 8));
    g_assert_false(stack_goes_back(&c->frames[0], KERNEL + 1));
    g_assert_false(stack_goes_back(&c->frames[0], KERNEL + 9));
    /* However deep it goes, memory is bounded. */
    for (i = 0; i < 1000000; i++) {
        stack_push(x.st, c, STACK_FRAME_CALL, &e);
    }
    g_assert_cmpuint(c->n, <=, 1 << 19);
    g_assert_cmpuint(x.counts.deep, >, 900000);
    teardown(&x);
}

/* Of a deep recursion, all callers are there after it. */
static void test_deep(void)
{
    enum { DEPTH = 100000 };
    struct stack_edge e = call(0, 1, KERNEL + 0x105);
    struct stack_context *c;
    struct stack_node *a;
    struct setup x;

    setup(&x);
    c = x.cpu->ctx;
    a = c->node;
    stack_push(x.st, c, STACK_FRAME_CALL, &e);
    e = call(1, 1, KERNEL + 0x1105);
    for (unsigned i = 0; i < DEPTH; i++) {
        stack_push(x.st, c, STACK_FRAME_CALL, &e);
    }
    g_assert_cmpuint(c->n, ==, DEPTH + 1);
    /* What is drawn without all of its callers is counted. */
    g_assert_cmpuint(x.counts.deep, >, DEPTH - STACK_MAX_DEPTH - 2);
    g_assert_cmpuint(x.counts.deep, <=, DEPTH);
    /* A jump out of all of it */
    g_assert_cmpint(stack_find_back(c, KERNEL + 0x105), ==, 0);
    g_assert_cmpint(stack_find_caller(c, &functions[0]), ==, 0);
    e = ret(KERNEL + 0x1105, 1);
    for (unsigned i = 0; i < DEPTH; i++) {
        int k = stack_find_back(c, KERNEL + 0x1105);

        g_assert_cmpint(k, ==, DEPTH - i);
        stack_pop_to(x.st, c, k, &e);
        g_assert_true(c->node->function == &functions[1]);
    }
    e = ret(KERNEL + 0x105, 0);
    stack_pop_to(x.st, c, 0, &e);
    g_assert_true(c->node == a);
    teardown(&x);
}

/* Many deep stacks: those that have waited longest are forgotten. */
static void test_many_frames(void)
{
    struct stack_edge e = call(0, 1, KERNEL + 0x105);
    struct stack_context *c, *last = NULL;
    size_t frames = 0;
    struct setup x;

    setup(&x);
    for (unsigned i = 0; i < 1000; i++) {
        c = i ? stack_run_fresh(x.st, x.cpu, &e) : x.cpu->ctx;
        for (unsigned k = 0; k < 8000; k++) {
            stack_push(x.st, c, STACK_FRAME_CALL, &e);
        }
        if (i < 999) {
            stack_suspend(x.st, x.cpu, 0);
            last = c;
        }
    }
    for (unsigned i = 0; i < x.st->all->len; i++) {
        c = x.st->all->pdata[i];
        frames += c->size;
        g_assert_cmpuint(c->n, ==, 8000);
    }
    g_assert_cmpuint(frames, ==, x.st->frames);
    g_assert_cmpuint(frames, <=, 4 << 20);
    g_assert_cmpuint(frames, >, 3 << 20);
    g_assert_true(g_ptr_array_find(x.st->all, last, NULL));
    g_assert_cmpuint(x.counts.deep, >=, (1000 - x.st->all->len) * 8000);
    teardown(&x);
}

/* Threads that the kernel switches between at one place */
static void test_switches(void)
{
    const uint64_t resume = KERNEL + 0x500;
    struct stack_edge e = call(0, 1, KERNEL + 0x105);
    struct stack_edge s = ret(resume, 2);
    struct stack_context *first, *second;
    struct setup x;

    setup(&x);
    first = x.cpu->ctx;
    stack_push(x.st, first, STACK_FRAME_CALL, &e);
    stack_switch_thread(x.st, x.cpu, &s, resume);
    second = x.cpu->ctx;
    g_assert_true(second != first);
    g_assert_false(first->running);
    /* Not what has just been left */
    g_assert_cmpuint(second->candidates->len, ==, 0);
    e = call(2, 1, KERNEL + 0x205);
    stack_push(x.st, second, STACK_FRAME_CALL, &e);
    stack_switch_thread(x.st, x.cpu, &s, resume);
    g_assert_cmpuint(x.cpu->ctx->candidates->len, ==, 1);
    g_assert_true(x.cpu->ctx->candidates->pdata[0] == first);
    /* It returns to where but the first has been called from. */
    e = ret(KERNEL + 0x105, 0);
    stack_return_from_bottom(x.st, x.cpu, &e);
    g_assert_true(x.cpu->ctx == first);
    g_assert_true(first->running);
    g_assert_cmpuint(first->n, ==, 0);
    g_assert_cmpuint(x.counts.resumed, ==, 1);
    g_assert_cmpuint(x.st->all->len, ==, 2);
    /* Now to where nobody has. */
    e = ret(KERNEL + 0x999, 1);
    stack_return_from_bottom(x.st, x.cpu, &e);
    g_assert_cmpuint(x.counts.unknown, ==, 1);
    g_assert_true(x.cpu->ctx->node->function == &functions[1]);
    teardown(&x);
}

/* The number of parked stacks that may continue; the first one */
static unsigned find_parked(struct setup *x, uint64_t to,
                            struct stack_parked *first)
{
    g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(*first));

    stack_find_parked(x->st, x->cpu, to, found);
    if (found->len) {
        *first = g_array_index(found, struct stack_parked, 0);
    }
    return found->len;
}

/* A stack that a program begins ends where its first function returns. */
static void test_begun(void)
{
    struct stack_edge start = call(0, 1, 0x505), e = call(0, 1, 0x405);
    struct stack_context *first, *second;
    struct stack_parked next = { NULL };
    struct setup x;

    setup(&x);
    first = x.cpu->ctx;
    e.to = 0x7000;
    stack_push(x.st, first, STACK_FRAME_CALL, &e);
    e.back = 0x415;
    stack_push(x.st, first, STACK_FRAME_CALL, &e);
    x.st->counting = true;
    stack_park(x.st, x.cpu, &start, NULL);
    second = x.cpu->ctx;
    g_assert_cmpuint(first->number, ==, 0);
    g_assert_cmpuint(second->number, ==, 1);
    g_assert_true(second->whole);
    g_assert_cmpuint(second->node->calls, ==, 1);
    stack_push(x.st, second, STACK_FRAME_CALL, &e);
    /* What was on top of it can have been left. */
    g_assert_cmpuint(find_parked(&x, 0x405, &next), ==, 1);
    g_assert_true(next.context == first && next.frame == 0);
    e = ret(0x405, 0);
    second->over = true;
    stack_park(x.st, x.cpu, &e, &next);
    g_assert_true(x.cpu->ctx == first && !first->n);
    g_assert_cmpuint(x.st->all->len, ==, 1);
    teardown(&x);
}

/* Stacks that a program switches between by itself */
static void test_parked(void)
{
    struct stack_edge e = call(0, 1, 0x405), to = ret(0x700, 2);
    struct stack_parked next = { NULL };
    struct stack_context *first;
    struct setup x;

    setup(&x);
    first = x.cpu->ctx;
    first->sure = true;
    stack_push(x.st, first, STACK_FRAME_CALL, &e);
    stack_park(x.st, x.cpu, &to, NULL);
    g_assert_true(first->parked && x.cpu->ctx->sure);
    g_assert_cmpuint(find_parked(&x, 0x404, &next), ==, 0);
    g_assert_cmpuint(find_parked(&x, 0x405, &next), ==, 1);
    g_assert_true(next.context == first && next.frame == 0);
    x.cpu->process = &two;
    g_assert_cmpuint(find_parked(&x, 0x405, &next), ==, 0);
    x.cpu->process = &one;
    e = ret(0x405, 0);
    stack_park(x.st, x.cpu, &e, &next);
    g_assert_true(x.cpu->ctx == first && !first->parked);
    /* The other one had no frames. */
    g_assert_cmpuint(x.st->all->len, ==, 1);
    teardown(&x);
}

static void test_process(void)
{
    const struct process user = { .cr3 = 0x4000, .owner = &user };
    const struct process kernel = { .cr3 = 0x5000, .owner = &kernel };
    const struct process thread = { .cr3 = 0x1000, .owner = &one, .tid = 2 };
    const struct process borrower = {
        .cr3 = 0x1000, .owner = &one, .kernel = true,
    };

    g_assert_true(stack_same_process(&one, &one));
    g_assert_true(stack_same_process(&user, &kernel));
    g_assert_false(stack_same_process(&one, &two));
    g_assert_false(stack_same_process(&user, &two));
    g_assert_true(stack_same_process(&one, &thread));
    g_assert_false(stack_same_process(&one, &borrower));
    g_assert_true(stack_same_process(&borrower, &borrower));
}

/* Contexts are bounded: the one that was left first makes room. */
static void test_many(void)
{
    struct stack_edge e = call(0, 1, KERNEL + 0x105);
    struct setup x;
    unsigned i;

    setup(&x);
    for (i = 0; i < 10000; i++) {
        stack_push(x.st, x.cpu->ctx, STACK_FRAME_CALL, &e);
        stack_suspend(x.st, x.cpu, 0);
        stack_run_fresh(x.st, x.cpu, &e);
    }
    g_assert_cmpuint(x.st->all->len, ==, 4096);
    g_assert_cmpuint(x.counts.deep, ==, 10001 - 4096);
    teardown(&x);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/stack-context/frames", test_frames);
    g_test_add_func("/stack-context/switches", test_switches);
    g_test_add_func("/stack-context/parked", test_parked);
    g_test_add_func("/stack-context/begun", test_begun);
    g_test_add_func("/stack-context/deep", test_deep);
    g_test_add_func("/stack-context/process", test_process);
    g_test_add_func("/stack-context/many", test_many);
    g_test_add_func("/stack-context/many-frames", test_many_frames);
    return g_test_run();
}
