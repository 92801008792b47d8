/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of symbolize/stack-exit.h: where a stack continues after the kernel,
 * after signal handlers and after interrupts
 */
#include <glib.h>

#include "stack-scene.h"
#include "symbolize/stack-exit.h"

#define USER    UINT64_C(0x400000)
#define KERNEL  UINT64_C(0xffffffff81000000)

enum { MAIN, HANDLER, OTHER, ENTRY, INNER, IRQ, N };

static struct module user_module = { .name = "m" };
static struct module kernel_module = { .name = "k", .kernel = true };
static struct function functions[N];
static struct stack_moves *moves;
static struct stack_cpu *cpu;
static struct stack_context *c;

static void begin(unsigned first)
{
    for (unsigned i = 0; i < N; i++) {
        functions[i] = (struct function) {
            .name = "f", .known = true,
            .module = i < ENTRY ? &user_module : &kernel_module,
        };
    }
    moves = stack_scene_new(&functions[first]);
    moves->contexts.record = 1;
    cpu = &moves->contexts.cpus[0];
    c = cpu->ctx;
}

static struct stack_edge edge(uint64_t from, uint64_t to, unsigned function,
                              enum stack_edge_kind kind, bool start)
{
    moves->contexts.record++;
    return (struct stack_edge) {
        .from = from, .to = to, .from_fn = c->node->function,
        .to_fn = &functions[function], .kind = kind, .start = start,
    };
}

/* A call in the kernel, or a system call, which returns to @back */
static void push(enum stack_frame_kind kind, unsigned function, uint64_t back)
{
    struct stack_edge e = edge(back - 2, KERNEL + 0x1000 * function, function,
                               STACK_EDGE_CALL, true);

    e.back = back;
    stack_push(&moves->contexts, c, kind, &e);
}

static void leave(uint64_t to, unsigned function, bool start)
{
    struct stack_edge e = edge(KERNEL + 0x10, to, function, STACK_EDGE_EXIT,
                               start);

    stack_exit(moves, cpu, &e);
    c = cpu->ctx;
}

static void require(unsigned function, unsigned n, int entry)
{
    g_assert_true(c->node->function == &functions[function]);
    g_assert_cmpuint(c->n, ==, n);
    g_assert_cmpint(c->entry, ==, entry);
}

/* Back to where the kernel was entered, also to restart a system call */
static void test_return(void)
{
    for (unsigned restarts = 0; restarts < 2; restarts++) {
        begin(MAIN);
        push(STACK_FRAME_CALL, OTHER, USER + 0x50);
        push(STACK_FRAME_ENTRY, ENTRY, USER + 0x102);
        require(ENTRY, 2, 1);
        push(STACK_FRAME_CALL, INNER, KERNEL + 0x205);
        leave(USER + 0x102 - 2 * restarts, OTHER, false);
        require(OTHER, 1, -1);
        g_assert_cmpuint(moves->counts.signals, ==, 0);
        stack_scene_free(moves);
    }
}

/* Handlers, of which the second one begins when the first one has returned */
static void test_signals(void)
{
    begin(MAIN);
    push(STACK_FRAME_ENTRY, ENTRY, USER + 0x102);
    leave(USER + 0x1000, HANDLER, true);
    require(HANDLER, 1, -1);
    g_assert_cmpuint(moves->counts.signals, ==, 1);
    g_assert_cmpint(c->frames[0].kind, ==, STACK_FRAME_SIGNAL);
    g_assert_cmpuint(moves->contexts.handler, ==, moves->contexts.record);
    /* A system call of the handler itself */
    push(STACK_FRAME_ENTRY, ENTRY, USER + 0x1020);
    leave(USER + 0x1020, HANDLER, false);
    require(HANDLER, 1, -1);
    /* A signal within it */
    push(STACK_FRAME_ENTRY, ENTRY, USER + 0x1030);
    leave(USER + 0x2000, OTHER, true);
    require(OTHER, 2, -1);
    g_assert_cmpuint(moves->counts.signals, ==, 2);
    /* Both are left by sigreturn(). */
    push(STACK_FRAME_ENTRY, ENTRY, USER + 0x2040);
    leave(USER + 0x1030, HANDLER, false);
    require(HANDLER, 1, -1);
    push(STACK_FRAME_ENTRY, ENTRY, USER + 0x1040);
    leave(USER + 0x102, MAIN, false);
    require(MAIN, 0, -1);
    g_assert_cmpuint(moves->counts.signals, ==, 2);
    stack_scene_free(moves);
}

/* A handler that has what it interrupted continue elsewhere in its function */
static void test_changed(void)
{
    begin(MAIN);
    push(STACK_FRAME_ENTRY, ENTRY, USER + 0x102);
    leave(USER + 0x1000, HANDLER, true);
    push(STACK_FRAME_ENTRY, ENTRY, USER + 0x1040);
    leave(USER + 0x300, MAIN, false);
    require(MAIN, 0, -1);
    stack_scene_free(moves);
}

/* Nobody has seen how the kernel was entered: nothing is known of callers. */
static void test_unseen(void)
{
    begin(ENTRY);
    push(STACK_FRAME_CALL, INNER, KERNEL + 0x205);
    leave(USER + 0x500, OTHER, false);
    require(OTHER, 0, -1);
    g_assert_true(c->sure);
    stack_scene_free(moves);
}

/* Interrupts and calls above each other, which a plain list has as well */
static void test_interrupts(void)
{
    struct {
        bool interrupt;
        uint64_t back;
        unsigned function;
    } truth[30];
    unsigned n = 0, function = ENTRY;

    begin(ENTRY);
    for (unsigned i = 0; i < 50000; i++) {
        unsigned what = g_test_rand_int_range(0, 10);
        int k = (int)n - 1;

        while (k >= 0 && !truth[k].interrupt) {
            k--;
        }
        if (what < 6 && n < G_N_ELEMENTS(truth)) {
            uint64_t back = KERNEL + 0x100000 + 16 * (i % 0x10000);

            truth[n].interrupt = what < 3;
            truth[n].back = back;
            truth[n++].function = function;
            function = what < 3 ? IRQ : INNER;
            push(what < 3 ? STACK_FRAME_INTERRUPT : STACK_FRAME_CALL,
                 function, back);
        } else if (k >= 0) {
            /* An exception that is fixed up continues elsewhere. */
            bool fixed = what == 9;
            uint64_t to = fixed ? KERNEL + 0x900000 : truth[k].back;
            unsigned into = fixed ? INNER : truth[k].function;
            struct stack_edge e = edge(KERNEL, to, into, STACK_EDGE_IRET,
                                       false);

            stack_iret(moves, cpu, &e);
            function = into;
            n = k;
        }
        g_assert_cmpuint(c->n, ==, n);
        g_assert_true(c->node->function == &functions[function]);
        for (unsigned f = 0; f < n; f++) {
            g_assert_true(c->frames[f].caller->function ==
                          &functions[truth[f].function]);
        }
    }
    stack_scene_free(moves);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/stack-exit/return", test_return);
    g_test_add_func("/stack-exit/signals", test_signals);
    g_test_add_func("/stack-exit/changed", test_changed);
    g_test_add_func("/stack-exit/unseen", test_unseen);
    g_test_add_func("/stack-exit/interrupts", test_interrupts);
    return g_test_run();
}
