/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/diff-sequence.h: edges and their records are those of an
 * array, wherever blocks begin and whatever was dropped
 */
#include <glib.h>

#include "analyze/diff-sequence.h"

enum { EDGES = 20000, MOST = 300, VCPUS = 3 };

struct item {
    uint32_t edge;
    unsigned vcpu;
    uint64_t index;
};

static struct item items[EDGES];

/* Records follow one another, except for some. */
static void make_items(void)
{
    uint64_t next[VCPUS] = { 0 };
    unsigned vcpu = 0;

    for (unsigned i = 0; i < EDGES; i++) {
        if (!g_test_rand_int_range(0, 20)) {
            vcpu = g_test_rand_int_range(0, VCPUS);
            next[vcpu] += g_test_rand_int_range(1, 100);
        }
        items[i] = (struct item) { g_test_rand_int(), vcpu, next[vcpu]++ };
    }
}

static struct diff_block *make_block(unsigned begin, unsigned n)
{
    uint32_t edges[MOST];
    struct diff_run runs[MOST];
    unsigned k = 0;

    for (unsigned i = 0; i < n; i++) {
        const struct item *item = &items[begin + i];

        edges[i] = item->edge;
        if (!i || item->vcpu != item[-1].vcpu ||
            item->index != item[-1].index + 1) {
            runs[k++] = (struct diff_run) { i, item->index, item->vcpu };
        }
    }
    return diff_block_new(edges, n, runs, k);
}

static void check(struct diff_sequence *s, unsigned at, unsigned end)
{
    unsigned vcpu;
    uint64_t index;
    size_t n;
    const uint32_t *e = diff_sequence_at(s, at, &n);

    if (at >= end) {
        g_assert_cmpuint(n, ==, 0);
        g_assert_false(diff_sequence_record(s, at, &vcpu, &index));
        return;
    }
    g_assert_cmpuint(n, >, 0);
    g_assert_cmpuint(at + n, <=, end);
    for (size_t i = 0; i < n; i++) {
        g_assert_cmpuint(e[i], ==, items[at + i].edge);
    }
    g_assert_true(diff_sequence_record(s, at, &vcpu, &index));
    g_assert_cmpuint(vcpu, ==, items[at].vcpu);
    g_assert_cmpuint(index, ==, items[at].index);
}

static void test_random(void)
{
    unsigned end = 0, begin = 0;
    uint64_t dropped = 0;
    struct diff_sequence s;

    make_items();
    diff_sequence_init(&s);
    check(&s, 0, 0);
    while (end < EDGES) {
        unsigned n = g_test_rand_int_range(1, MOST + 1);

        n = MIN(n, EDGES - end);
        diff_sequence_add(&s, make_block(end, n));
        end += n;
        g_assert_cmpuint(s.end, ==, end);
        for (unsigned i = 0; i < 20; i++) {
            check(&s, g_test_rand_int_range(begin, end + 10), end);
        }
        if (!g_test_rand_int_range(0, 4)) {
            begin = g_test_rand_int_range(begin, end);
            dropped += diff_sequence_drop(&s, begin);
            g_assert_cmpuint(dropped, <=, begin);
            g_assert_cmpuint(dropped + MOST, >, begin);
        }
    }
    dropped += diff_sequence_drop(&s, UINT64_MAX);
    g_assert_cmpuint(dropped, ==, EDGES);
    diff_sequence_clear(&s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/diff-sequence/random", test_random);
    return g_test_run();
}
