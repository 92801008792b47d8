/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of symbolize/stack-return.h: random calls, returns and jumps, whose
 * stack a plain list of functions has as well
 */
#include <glib.h>

#include "stack-scene.h"

#define N           6
#define MOST        40
#define STEPS       200000
#define CODE        UINT64_C(0x400000)
#define SIZE        UINT64_C(0x100000)

static struct module module = { .name = "m" };
static struct function functions[N];

/* Which function is where in the stack, and where the one above returns to */
struct truth {
    unsigned function[MOST];
    uint64_t back[MOST];
    unsigned n;
    uint64_t returns;
    uint64_t nested;
    uint64_t jumps_out;
};

static struct stack_moves *moves;
static struct stack_cpu *cpu;

static void begin(void)
{
    for (unsigned i = 0; i < N; i++) {
        functions[i] = (struct function) {
            .name = "f", .module = &module, .known = true,
        };
    }
    moves = stack_scene_new(&functions[0]);
    cpu = &moves->contexts.cpus[0];
}

static uint64_t start_of(unsigned function)
{
    return CODE + function * SIZE;
}

static void require(const struct truth *t)
{
    const struct stack_context *c = cpu->ctx;

    g_assert_cmpuint(c->n, ==, t->n - 1);
    g_assert_true(c->node->function == &functions[t->function[t->n - 1]]);
    for (unsigned k = 0; k < c->n; k++) {
        g_assert_true(c->frames[k].caller->function ==
                      &functions[t->function[k]]);
        g_assert_cmphex(c->frames[k].back, ==, t->back[k]);
    }
    g_assert_cmpuint(moves->counts.returns, ==, t->returns);
    g_assert_cmpuint(moves->counts.nested, ==, t->nested);
    g_assert_cmpuint(moves->counts.jumps_out, ==, t->jumps_out);
    g_assert_cmpuint(moves->counts.unknown, ==, 0);
    g_assert_cmpuint(moves->parked->len, ==, 0);
}

static struct stack_edge edge(const struct truth *t, unsigned to,
                              uint64_t address, enum stack_edge_kind kind)
{
    unsigned from = t->function[t->n - 1];

    return (struct stack_edge) {
        .from = start_of(from) + 0x800, .to = address, .kind = kind,
        .from_fn = &functions[from], .to_fn = &functions[to],
        .start = address == start_of(to),
    };
}

/* An address within a function that no other call returns to */
static uint64_t new_address(unsigned function)
{
    static uint64_t next;

    return start_of(function) + 0x1000 + (next += 8) % (SIZE - 0x2000);
}

static void call(struct truth *t, unsigned to)
{
    struct stack_edge e = edge(t, to, start_of(to), STACK_EDGE_CALL);

    if (t->n < MOST) {
        e.back = new_address(t->function[t->n - 1]);
        t->back[t->n - 1] = e.back;
        t->function[t->n++] = to;
        stack_push(&moves->contexts, cpu->ctx, STACK_FRAME_CALL, &e);
    }
}

/* To the frame @k; the others did not return. */
static void return_to(struct truth *t, unsigned k)
{
    struct stack_edge e = edge(t, t->function[k], t->back[k], STACK_EDGE_RET);

    t->returns++;
    t->nested += t->n - 2 - k;
    t->n = k + 1;
    stack_return(moves, cpu, &e);
}

/* From one function to another at the same place: the caller stays. */
static void replace(struct truth *t, unsigned how)
{
    unsigned to = g_test_rand_int_range(0, N);
    struct stack_edge e = edge(t, to, start_of(to), STACK_EDGE_JUMP);

    t->function[t->n - 1] = to;
    if (how == 0) {
        stack_jump(moves, cpu, &e, false);
    } else if (how == 1) {
        stack_jump(moves, cpu, &e, true);
    } else {
        /* A retpoline returns to where it jumps to. */
        cpu->ctx->replaced = true;
        e.kind = STACK_EDGE_RET;
        stack_return(moves, cpu, &e);
        g_assert_false(cpu->ctx->replaced);
    }
}

/* As longjmp() does: into the last caller that is this function */
static void jump_out(struct truth *t, unsigned to)
{
    struct stack_edge e = edge(t, to, start_of(to) + 0x900,
                               STACK_EDGE_JUMP_FAR);
    int k = (int)t->n - 2;

    while (k >= 0 && t->function[k] != to) {
        k--;
    }
    if (to == t->function[t->n - 1] || k < 0) {
        return;
    }
    t->jumps_out++;
    t->nested += t->n - 1 - k;
    t->n = k + 1;
    stack_jump(moves, cpu, &e, true);
}

static void test_random(void)
{
    struct truth t = { .n = 1 };

    begin();
    for (unsigned i = 0; i < STEPS; i++) {
        unsigned what = g_test_rand_int_range(0, 100);

        moves->contexts.record++;
        if (what < 45) {
            call(&t, g_test_rand_int_range(0, N));
        } else if (what < 80 && t.n > 1) {
            return_to(&t, t.n - 2);
        } else if (what < 85 && t.n > 1) {
            return_to(&t, g_test_rand_int_range(0, t.n - 1));
        } else if (what < 95) {
            replace(&t, what % 3);
        } else {
            jump_out(&t, g_test_rand_int_range(0, N));
        }
        require(&t);
    }
    g_assert_cmpuint(t.jumps_out, >, 100);
    g_assert_cmpuint(t.nested, >, 100);
    stack_scene_free(moves);
}

/*
 * A return that nothing has called, in code of the program: another stack
 * continues, of which nothing is known, and that is said.
 */
static void test_unknown(void)
{
    struct truth t = { .n = 1 };
    struct stack_edge e;

    begin();
    for (unsigned to = 1; to < 4; to++) {
        call(&t, to);
    }
    e = edge(&t, 5, start_of(5) + 0x777, STACK_EDGE_RET);
    moves->contexts.record = 17;
    stack_return(moves, cpu, &e);
    g_assert_cmpuint(moves->counts.unknown, ==, 1);
    g_assert_cmpuint(moves->contexts.strayed, ==, 17);
    g_assert_cmpuint(cpu->ctx->n, ==, 0);
    g_assert_true(cpu->ctx->node->function == &functions[5]);
    stack_scene_free(moves);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/stack-return/random", test_random);
    g_test_add_func("/stack-return/unknown", test_unknown);
    return g_test_run();
}
