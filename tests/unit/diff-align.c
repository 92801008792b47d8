/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/diff-align.h: what it says of programs that were changed at
 * random is compared with their longest common subsequence
 */
#include <glib.h>
#include <string.h>

#include "analyze/diff-align.h"

enum { FUNCTIONS = 12, ONLY = 10, SITES = 6, MOST = 700, MAX_DEPTH = 20 };

static struct module module = { .name = "program" };
static struct function functions[FUNCTIONS];
static struct diff_edges *edges;
static struct diff_scratch *scratch;

static uint32_t number(enum stack_edge_kind kind, unsigned f, uint64_t from,
                       unsigned g, uint64_t to)
{
    const struct stack_edge e = {
        .from = 0x1000 * f + from, .to = 0x1000 * g + to, .kind = kind,
        .back = kind == STACK_EDGE_CALL ? 0x1000 * f + from + 5 : 0,
        .start = !to,
    };
    const struct place at = { &functions[f], from, from };
    const struct place target = { &functions[g], to, to };

    return diff_edges_number(edges, &e, &at, &target, false);
}

static void put(GArray *s, uint32_t edge)
{
    g_array_append_val(s, edge);
}

/* What a function does, and all that it calls */
static void run(GArray *s, GRand *chance, unsigned f, unsigned depth)
{
    for (unsigned site = 1; site < SITES && s->len < MOST; site++) {
        unsigned g = g_rand_int_range(chance, 0, ONLY);

        if (g_rand_int_range(chance, 0, 3) && depth < MAX_DEPTH) {
            put(s, number(STACK_EDGE_CALL, f, 16 * site, g, 0));
            run(s, chance, g, depth + 1);
            put(s, number(STACK_EDGE_RET, g, 0xf0, f, 16 * site + 5));
        } else {
            put(s, number(STACK_EDGE_JUMP, f, 16 * site + 8, f,
                          16 * site + 12));
        }
    }
}

static GArray *make(guint32 seed)
{
    g_autoptr(GRand) chance = g_rand_new_with_seed(seed);
    GArray *s = g_array_new(FALSE, FALSE, sizeof(uint32_t));

    while (s->len < MOST) {
        run(s, chance, 0, 0);
    }
    return s;
}

static uint32_t at(const GArray *s, unsigned i)
{
    return g_array_index(s, uint32_t, i);
}

/* Adds a call of a function that is called nowhere else. */
static void add_call(GArray *s, unsigned where, unsigned f)
{
    /* In the function that the edge there begins in */
    const struct diff_edge *e = diff_edges_get(edges, at(s, where));
    unsigned caller = (unsigned)g_ascii_strtoull(e->from_fn->name + 1, NULL,
                                                 10);
    const uint32_t more[] = {
        number(STACK_EDGE_CALL, caller, 0x200 + where, f, 0),
        number(STACK_EDGE_JUMP, f, 0x300 + where, f, 0x400 + where),
        number(STACK_EDGE_RET, f, 0xf0, caller, 0x205 + where),
    };

    g_array_insert_vals(s, where, more, G_N_ELEMENTS(more));
}

static unsigned common(const GArray *x, const GArray *y)
{
    unsigned width = y->len + 1;
    g_autofree uint16_t *most = g_new0(uint16_t,
                                       (size_t)(x->len + 1) * width);

    for (unsigned i = 1; i <= x->len; i++) {
        for (unsigned j = 1; j <= y->len; j++) {
            most[i * width + j] = at(x, i - 1) == at(y, j - 1) ?
                                  most[(i - 1) * width + j - 1] + 1 :
                                  MAX(most[(i - 1) * width + j],
                                      most[i * width + j - 1]);
        }
    }
    return most[x->len * width + y->len];
}

struct seen {
    GArray *differences;        /* of struct diff_difference */
    GArray *depths;             /* of unsigned: of the stack at each */
};

static void on_difference(void *opaque, struct diff_align *a,
                          const struct diff_difference *d)
{
    struct seen *seen = opaque;

    g_array_append_vals(seen->differences, d, 1);
    g_array_append_val(seen->depths, a->stack->len);
}

static void feed(struct diff_align *a, unsigned side, const GArray *s,
                 unsigned *done, unsigned most)
{
    const struct diff_run run = { 0, *done, side };
    unsigned n = MIN(most, s->len - *done);

    if (n) {
        diff_sequence_add(&a->sequence[side], diff_block_new(
            (const uint32_t *)s->data + *done, n, &run, 1));
    }
    *done += n;
    a->sequence[side].whole = *done == s->len;
}

/* Outside of the differences both sides are the same. */
static void check(const GArray *x, const GArray *y, const struct seen *seen,
                  uint64_t same)
{
    uint64_t i = 0, j = 0, n = 0;

    for (unsigned k = 0; k <= seen->differences->len; k++) {
        const struct diff_difference *d = k < seen->differences->len ?
            &g_array_index(seen->differences, struct diff_difference, k) :
            NULL;

        for (; d ? i < d->at[0] : i < x->len; i++, j++, n++) {
            g_assert_cmpuint(j, <, y->len);
            g_assert_cmpuint(at(x, i), ==, at(y, j));
        }
        if (d) {
            g_assert_cmpuint(j, ==, d->at[1]);
            g_assert_true(i == x->len || j == y->len || at(x, i) != at(y, j));
            /* It is told before the rest is known. */
            i = d->end == DIFF_TOGETHER ? i + d->n[0] : x->len;
            j = d->end == DIFF_TOGETHER ? j + d->n[1] : y->len;
        }
    }
    g_assert_cmpuint(i, ==, x->len);
    g_assert_cmpuint(j, ==, y->len);
    g_assert_cmpuint(n, ==, same);
}

/* Aligns two sequences that come in blocks of at most @most edges. */
static uint64_t align(const GArray *x, const GArray *y, unsigned most,
                      struct seen *seen)
{
    unsigned done[DIFF_SIDES] = { 0 };
    uint64_t dropped[DIFF_SIDES];
    struct diff_align a;

    seen->differences = g_array_new(FALSE, FALSE,
                                    sizeof(struct diff_difference));
    seen->depths = g_array_new(FALSE, FALSE, sizeof(unsigned));
    diff_align_init(&a, edges, scratch, on_difference, seen);
    for (unsigned i = 0; !a.done; i++) {
        feed(&a, 0, x, &done[0], g_test_rand_int_range(0, most + 1));
        feed(&a, 1, y, &done[1], g_test_rand_int_range(0, most + 1));
        diff_align_run(&a, dropped);
        g_assert_cmpuint(i, <, 100000);
    }
    diff_align_clear(&a);
    check(x, y, seen, a.same);
    return a.same;
}

static void seen_clear(struct seen *seen)
{
    g_array_unref(seen->differences);
    g_array_unref(seen->depths);
}

static void test_same(void)
{
    for (unsigned round = 0; round < 20; round++) {
        g_autoptr(GArray) x = make(g_test_rand_int());
        struct seen seen;

        g_assert_cmpuint(align(x, x, 1 + 50 * round, &seen), ==, x->len);
        g_assert_cmpuint(seen.differences->len, ==, 0);
        seen_clear(&seen);
    }
}

/* A call that one side has in addition is all that differs. */
static void test_call(void)
{
    for (unsigned round = 0; round < 100; round++) {
        g_autoptr(GArray) x = make(g_test_rand_int());
        g_autoptr(GArray) y = g_array_copy(x);
        struct seen seen;

        add_call(y, g_test_rand_int_range(20, x->len - 20), ONLY);
        g_assert_cmpuint(common(x, y), ==, x->len);
        if (round % 2) {
            g_assert_cmpuint(align(x, y, MOST, &seen), ==, x->len);
        } else {
            g_assert_cmpuint(align(y, x, MOST / 4, &seen), ==, x->len);
        }
        g_assert_cmpuint(seen.differences->len, ==, 1);
        seen_clear(&seen);
    }
}

/* Functions that call others: as much is the same as there can be, nearly. */
static void test_branches(void)
{
    uint64_t most = 0, found = 0;

    for (unsigned round = 0; round < 60; round++) {
        g_autoptr(GArray) x = make(g_test_rand_int());
        g_autoptr(GArray) y = g_array_copy(x);
        struct seen seen;

        for (unsigned i = x->len - 40; i > 60;
             i -= g_test_rand_int_range(20, 60)) {
            if (g_test_rand_bit()) {
                add_call(y, i, ONLY);
            } else if (!(at(y, i) & DIFF_EDGE_STACK)) {
                g_array_remove_index(y, i);
            }
        }
        most += common(x, y);
        found += align(x, y, MOST, &seen);
        for (unsigned i = 0; i < seen.differences->len; i++) {
            g_assert_cmpint(g_array_index(seen.differences,
                                          struct diff_difference, i).end, ==,
                            DIFF_TOGETHER);
        }
        seen_clear(&seen);
    }
    g_assert_cmpuint(found, <=, most);
    g_assert_cmpuint(found, >=, most - most / 50);
}

/* A loop that goes round a million times more is one difference. */
static void test_loop(void)
{
    g_autoptr(GArray) x = make(1), y = g_array_copy(x);
    const uint32_t turn = number(STACK_EDGE_JUMP, ONLY, 0x20, ONLY, 0x10);
    struct seen seen;
    unsigned where = 300;

    add_call(y, where, ONLY);
    where++;
    for (unsigned i = 0; i < 3; i++) {
        add_call(x, 300, ONLY);
        g_array_remove_range(x, 300, 3);
    }
    add_call(x, 300, ONLY);
    for (unsigned i = 0; i < 1000000; i++) {
        g_array_append_val(y, turn);
    }
    {
        /* The turns go into the call. */
        g_autofree uint32_t *tail = g_memdup2(
            (uint32_t *)y->data + where,
            (x->len - where) * sizeof(uint32_t));
        unsigned rest = x->len - where;

        memmove((uint32_t *)y->data + where + 1000000, tail,
                rest * sizeof(uint32_t));
        for (unsigned i = 0; i < 1000000; i++) {
            ((uint32_t *)y->data)[where + i] = turn;
        }
    }
    g_array_insert_vals(x, where, (uint32_t[]) { turn, turn }, 2);
    g_assert_cmpuint(align(x, y, 100000, &seen), ==, x->len);
    g_assert_cmpuint(seen.differences->len, ==, 1);
    seen_clear(&seen);
}

/* Nothing is the same. */
static void test_nothing(void)
{
    g_autoptr(GArray) x = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_autoptr(GArray) y = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    const struct diff_difference *d;
    struct seen seen;

    for (unsigned i = 0; i < 1000; i++) {
        put(x, number(STACK_EDGE_JUMP, 1, i, 1, i + 1));
        put(y, number(STACK_EDGE_JUMP, 2, i, 2, i + 1));
    }
    g_assert_cmpuint(align(x, y, 100, &seen), ==, 0);
    g_assert_cmpuint(seen.differences->len, ==, 1);
    d = &g_array_index(seen.differences, struct diff_difference, 0);
    g_assert_cmpint(d->end, ==, DIFF_ENDED);
    seen_clear(&seen);
    g_array_set_size(y, 0);
    g_assert_cmpuint(align(x, y, 100, &seen), ==, 0);
    g_assert_cmpuint(seen.differences->len, ==, 1);
    seen_clear(&seen);
}

/* Records are missing: what is after them is found again. */
static void test_gap(void)
{
    for (unsigned round = 0; round < 20; round++) {
        g_autoptr(GArray) x = make(g_test_rand_int());
        g_autoptr(GArray) y = g_array_copy(x);
        const uint32_t gap = DIFF_EDGE_GAP;
        struct seen seen;

        g_array_remove_range(y, 200, 100);
        g_array_insert_val(y, 200, gap);
        g_assert_cmpuint(align(x, y, MOST, &seen), >=, 200);
        g_assert_cmpuint(seen.differences->len, >, 0);
        g_assert_true(g_array_index(seen.differences, struct diff_difference,
                                    0).gap);
        seen_clear(&seen);
    }
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    edges = diff_edges_new();
    scratch = diff_scratch_new();
    for (unsigned f = 0; f < FUNCTIONS; f++) {
        functions[f] = (struct function) {
            .name = g_strdup_printf("f%u", f), .module = &module,
            .known = true,
        };
    }
    g_test_add_func("/diff-align/same", test_same);
    g_test_add_func("/diff-align/call", test_call);
    g_test_add_func("/diff-align/branches", test_branches);
    g_test_add_func("/diff-align/loop", test_loop);
    g_test_add_func("/diff-align/nothing", test_nothing);
    g_test_add_func("/diff-align/gap", test_gap);
    ret = g_test_run();
    for (unsigned f = 0; f < FUNCTIONS; f++) {
        g_free((char *)functions[f].name);
    }
    diff_scratch_free(scratch);
    diff_edges_free(edges);
    return ret;
}
