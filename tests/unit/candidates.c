/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which pieces of a stream can have a moment, in a trace whose chunks each run
 * code of their own
 */

#include "find/candidates.h"
#include "trace-samples.h"

#define CHUNK   100u
#define CHUNKS  10u
#define N       (CHUNK * CHUNKS)
#define BASE    UINT64_C(0xffffffff81000000)
#define AREA    UINT64_C(4096)

static struct btrail_trace *trace;

static void open_trace(void)
{
    struct btrail_record records[CHUNK];
    char *path = sample_path();
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (unsigned c = 0; c < CHUNKS; c++) {
        const struct btrail_slab slab = {
            .first_index = c * CHUNK, .records = records, .n_records = CHUNK,
        };

        /* The last record goes to where the next chunk begins. */
        for (unsigned i = 0; i < CHUNK; i++) {
            records[i].from = BASE + c * AREA;
            records[i].to = BASE + (c + (i == CHUNK - 1)) * AREA;
            records[i].flags = 0;
        }
        g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
        g_assert_cmpint(btrail_writer_flush(w), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    sample_remove(path);
}

/* The pieces are [pairs[0], pairs[1]) and so on, on both ways. */
static void check(const struct candidates *p, const uint64_t *pairs, unsigned n)
{
    struct piece piece = { 0, 0 };

    for (unsigned i = 0; i < n; i++) {
        g_assert_true(candidates_next(p, piece.end, &piece));
        g_assert_cmpuint(piece.begin, ==, pairs[2 * i]);
        g_assert_cmpuint(piece.end, ==, pairs[2 * i + 1]);
    }
    g_assert_false(candidates_next(p, piece.end, &piece));
    piece.begin = UINT64_MAX;
    for (unsigned i = n; i; i--) {
        g_assert_true(candidates_previous(p, piece.begin, &piece));
        g_assert_cmpuint(piece.begin, ==, pairs[2 * i - 2]);
        g_assert_cmpuint(piece.end, ==, pairs[2 * i - 1]);
    }
    g_assert_false(candidates_previous(p, piece.begin, &piece));
}

static struct candidates of_area(GArray *addresses, unsigned area)
{
    const uint64_t address = BASE + area * AREA;

    g_array_set_size(addresses, 0);
    g_array_append_val(addresses, address);
    return (struct candidates) {
        .trace = trace, .addresses = addresses, .end = UINT64_MAX,
    };
}

static void test_chunks(void)
{
    g_autoptr(GArray) addresses = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    struct candidates p = of_area(addresses, 3);

    /* The record before the code is the last one of the chunk before. */
    check(&p, (uint64_t[]) { 299, 399, N - 1, N }, 2);
    p.blocks = true;
    check(&p, (uint64_t[]) { 299, 399 }, 1);
    p.begin = 310;
    p.end = 320;
    check(&p, (uint64_t[]) { 310, 320 }, 1);
    p.begin = 399;
    p.end = 500;
    check(&p, NULL, 0);
    p = of_area(addresses, 0);
    check(&p, (uint64_t[]) { 0, 99, N - 1, N }, 2);
    /* Where the last record goes is in no footprint. */
    p = of_area(addresses, CHUNKS);
    check(&p, (uint64_t[]) { N - 1, N }, 1);
    p.vcpu = 1;
    check(&p, NULL, 0);
    g_array_set_size(addresses, 0);
    p.vcpu = 0;
    check(&p, NULL, 0);
}

static void test_others(void)
{
    static const struct piece list[] = {
        { 10, 20 }, { 290, 310 }, { 350, 420 }, { 998, 1000 },
    };
    g_autoptr(GArray) others = g_array_new(FALSE, FALSE, sizeof(struct piece));
    g_autoptr(GArray) addresses = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    struct candidates p = of_area(addresses, 3);
    bool found[N] = { false }, back[N] = { false };
    struct piece piece = { 0, 0 };

    g_array_append_vals(others, list, G_N_ELEMENTS(list));
    p.others = others;
    while (candidates_next(&p, piece.end, &piece)) {
        for (uint64_t i = piece.begin; i < piece.end; i++) {
            g_assert_false(found[i]);
            found[i] = true;
        }
    }
    piece.begin = UINT64_MAX;
    while (candidates_previous(&p, piece.begin, &piece)) {
        for (uint64_t i = piece.begin; i < piece.end; i++) {
            g_assert_false(back[i]);
            back[i] = true;
        }
    }
    for (unsigned i = 0; i < N; i++) {
        bool want = (i >= 299 && i < 399) || i == N - 1;

        for (unsigned k = 0; k < G_N_ELEMENTS(list); k++) {
            want |= i >= list[k].begin && i < list[k].end;
        }
        g_assert_true(found[i] == want);
        g_assert_true(back[i] == want);
    }
}

/* Any record can be it. */
static void test_any(void)
{
    struct candidates p = { .trace = trace, .end = UINT64_MAX };
    uint64_t all = 0;
    struct piece piece = { 0, 0 };

    while (candidates_next(&p, piece.end, &piece)) {
        g_assert_cmpuint(piece.begin, ==, all);
        all = piece.end;
    }
    g_assert_cmpuint(all, ==, N);
}

int main(int argc, char **argv)
{
    int status;

    g_test_init(&argc, &argv, NULL);
    open_trace();
    g_test_add_func("/chunks", test_chunks);
    g_test_add_func("/others", test_others);
    g_test_add_func("/any", test_any);
    status = g_test_run();
    btrail_trace_close(trace);
    return status;
}
