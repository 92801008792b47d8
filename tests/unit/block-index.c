/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which parts of a trace an instruction may have run in, compared with a search
 * through all of its records
 */

#include <string.h>

#include "gdb/block-index.h"
#include "trace-samples.h"

#define SLAB    500u
#define SLABS   40u
#define N       (SLAB * SLABS)
#define PART    700u            /* not a multiple of a slab */
#define PARTS   ((N + PART - 1) / PART)
#define BASE    UINT64_C(0xffffffff81000000)
/* Each part of the trace runs code of its own, and some that all run. */
#define AREA    4096u

static struct btrail_record records[N];

static void make_records(void)
{
    uint64_t to = BASE;

    for (unsigned i = 0; i < N; i++) {
        unsigned area = g_test_rand_int_range(0, 10) ? 1 + i / PART : 0;

        records[i].from = to + g_test_rand_int_range(0, 200);
        to = BASE + area * AREA + g_test_rand_int_range(0, AREA - 256);
        records[i].to = to;
        records[i].flags = (i + UINT64_C(1)) << BTRAIL_RECORD_ICOUNT_SHIFT;
    }
}

static char *write_trace(unsigned lost, bool counted)
{
    char *path = sample_path();
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==,
                    0);
    for (unsigned i = 0; i < SLABS; i++) {
        struct btrail_event events[2] = { { 0 } };
        struct btrail_slab slab = {
            .first_index = i * SLAB + (i < SLABS / 2 ? 0 : lost),
            .records = &records[i * SLAB],
            .n_records = SLAB, .events = events,
        };

        if (lost && i == SLABS / 2) {
            events[slab.n_events++] = (struct btrail_event) {
                .index = slab.first_index, .type = BTRAIL_EVENT_GAP,
                .reason = BTRAIL_GAP_OVERFLOW, .data = { lost },
            };
        }
        events[slab.n_events++] = (struct btrail_event) {
            .index = slab.first_index, .type = BTRAIL_EVENT_TIME,
            .data = { i + 1, i, counted ? i * SLAB + 1 : BTRAIL_NO_ICOUNT },
        };
        g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    return path;
}

/* Is there a block with the address that ends with one of these records? */
static bool ran(uint64_t address, uint64_t begin, uint64_t end)
{
    for (uint64_t i = MAX(begin, 1); i < end; i++) {
        if (records[i - 1].to <= address && address <= records[i].from) {
            return true;
        }
    }
    return false;
}

/* Parts without the address are left out, and no others. */
static unsigned check_parts(const struct block_index *x, uint64_t address)
{
    uint64_t before = N, begin, end;
    unsigned parts = 0;

    while (block_index_last(x, &address, 1, before, &begin, &end)) {
        g_assert_cmpuint(begin, <, end);
        g_assert_cmpuint(end, <=, before);
        g_assert_cmpuint(begin % PART, ==, 0);
        g_assert_false(ran(address, end, before));
        before = begin;
        parts++;
    }
    g_assert_false(ran(address, 0, before));
    return parts;
}

static void test_parts(void)
{
    g_autofree char *path = write_trace(0, true);
    struct btrail_trace *trace;
    struct block_index *x;
    unsigned parts = 0;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    x = block_index_new(trace, 0, N, PART);
    /* While it is made, nothing is left out that may be there. */
    check_parts(x, BASE + AREA * PARTS / 2);
    block_index_wait(x);
    for (unsigned i = 0; i < 200; i++) {
        parts += check_parts(x, BASE + AREA + g_test_rand_int_range(
                                 0, PARTS * AREA));
    }
    /* One part, or two since a block may reach into the next one's code */
    g_assert_cmpuint(parts, <, 3 * 200);
    g_assert_cmpuint(check_parts(x, BASE + 2000), >, PARTS / 2);
    /* A filter takes one of some thousand parts for one that may have it. */
    g_assert_cmpuint(check_parts(x, BASE - AREA), <=, 1);
    block_index_free(x);
    btrail_trace_close(trace);
    sample_remove(g_steal_pointer(&path));
}

/* What a trace does not say may be anything. */
static void test_gap(void)
{
    const unsigned lost = 3 * PART;
    g_autofree char *path = write_trace(lost, true);
    const uint64_t address = BASE - AREA;
    struct btrail_trace *trace;
    uint64_t begin, end;
    struct block_index *x;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    x = block_index_new(trace, 0, N + lost, PART);
    block_index_wait(x);
    g_assert_true(block_index_last(x, &address, 1, N + lost, &begin, &end));
    g_assert_cmpuint(begin, <=, N / 2 + lost);
    g_assert_cmpuint(end, >, N / 2 + lost);
    block_index_free(x);
    btrail_trace_close(trace);
    sample_remove(g_steal_pointer(&path));
}

static void test_without_counts(void)
{
    g_autofree char *path = write_trace(0, false);
    const uint64_t address = BASE - AREA;
    struct btrail_trace *trace;
    uint64_t begin, end;
    struct block_index *x;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    x = block_index_new(trace, 0, N, PART);
    block_index_wait(x);
    g_assert_true(block_index_last(x, &address, 1, N, &begin, &end));
    g_assert_cmpuint(end, ==, N);
    block_index_free(x);
    btrail_trace_close(trace);
    sample_remove(g_steal_pointer(&path));
}

/* One that is freed while its thread reads */
static void test_free(void)
{
    g_autofree char *path = write_trace(0, true);
    struct btrail_trace *trace;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    for (unsigned i = 0; i < 50; i++) {
        block_index_free(block_index_new(trace, 0, N, PART));
    }
    block_index_free(NULL);
    btrail_trace_close(trace);
    sample_remove(g_steal_pointer(&path));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    make_records();
    g_test_add_func("/parts", test_parts);
    g_test_add_func("/gap", test_gap);
    g_test_add_func("/without-counts", test_without_counts);
    g_test_add_func("/free", test_free);
    return g_test_run();
}
