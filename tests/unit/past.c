/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the guest of a replay has been, from a trace: compared with a search
 * through all of its records
 */

#include <string.h>

#include "find/past.h"
#include "trace-samples.h"

#define SLAB    100u
#define SLABS   40u
#define N       (SLAB * SLABS)
#define FIRST   7u              /* count of the first record */

static struct btrail_record records[N];
static uint64_t counts[N];

/* Blocks of 1 to 9 instructions, each 4 bytes long */
static void make_records(void)
{
    uint64_t count = FIRST, to = 0x1000;

    for (unsigned i = 0; i < N; i++) {
        unsigned instructions = g_test_rand_int_range(1, 10);

        count += i ? instructions : 0;
        counts[i] = count;
        records[i].from = to + (instructions - 1) * 4;
        to = 0x1000 + g_test_rand_int_range(0, 200) * 4;
        records[i].to = to;
        records[i].flags = count << BTRAIL_RECORD_ICOUNT_SHIFT;
    }
}

static char *write_trace(unsigned lost, bool counted)
{
    const struct sample_slabs slabs = {
        .records = records,
        .n_records = SLAB,
        .n = SLABS,
        .lost = lost,
        .counted = counted,
        .in_chunk = 8,
    };
    char *path = sample_path();

    sample_write_slabs(path, &slabs);
    return path;
}

static struct past *open_history(const char *path,
                                 struct btrail_trace **trace)
{
    g_assert_cmpint(btrail_trace_open(trace, path), ==, 0);
    return past_new(*trace);
}

/* The instruction that ran with this count: its block and its place in it */
static uint64_t pc_at(uint64_t icount, unsigned *block)
{
    unsigned i = 0;

    while (i < N && counts[i] <= icount) {
        i++;
    }
    g_assert_cmpuint(i, >, 0);
    *block = i;
    return records[i - 1].to + (icount - counts[i - 1]) * 4;
}

static void test_at(void)
{
    g_autofree char *path = write_trace(0, true);
    struct btrail_trace *trace;
    struct past *h = open_history(path, &trace);
    struct past_place place;

    g_assert_nonnull(h);
    g_assert_false(past_at(h, 0, FIRST - 1, &place));
    for (unsigned i = 0; i < N - 1; i += g_test_rand_int_range(1, 50)) {
        for (uint64_t c = counts[i]; c < counts[i + 1]; c++) {
            g_assert_true(past_at(h, 0, c, &place));
            g_assert_cmpuint(place.index, ==, i);
            g_assert_cmpuint(place.count, ==, counts[i]);
            g_assert_cmpuint(place.time.tsc, ==, i / SLAB);
        }
    }
    g_assert_true(past_at(h, 0, UINT64_MAX - 1, &place));
    g_assert_cmpuint(place.index, ==, N - 1);
    past_free(h);
    btrail_trace_close(trace);
    sample_remove(g_steal_pointer(&path));
}

/* Executed one by one backwards, until one of them is met */
static bool find(const uint64_t *addresses, unsigned n, uint64_t icount,
                 uint64_t *at, uint64_t *pc)
{
    unsigned block;

    while (icount-- > FIRST) {
        *pc = pc_at(icount, &block);
        for (unsigned i = 0; i < n; i++) {
            if (addresses[i] == *pc) {
                *at = icount;
                return true;
            }
        }
    }
    return false;
}

static void test_visits(void)
{
    g_autofree char *path = write_trace(0, true);
    struct btrail_trace *trace;
    struct past *h = open_history(path, &trace);
    unsigned found = 0, none = 0;

    for (unsigned round = 0; round < 200; round++) {
        unsigned n = g_test_rand_int_range(1, 4), block;
        /* In some rounds after the last record */
        uint64_t icount = g_test_rand_int_range(
            round % 4 ? FIRST + 1 : counts[N - 1] + 1, counts[N - 1] + 10);
        uint64_t addresses[3], pc = pc_at(icount, &block), want, want_pc;
        struct past_visit v;
        enum past_answer answer;

        for (unsigned i = 0; i < n; i++) {
            addresses[i] = 0x1000 + g_test_rand_int_range(-60, 260) * 4;
        }
        answer = past_last_visit(h, 0, addresses, n, icount, pc, NULL, &v);
        if (find(addresses, n, icount, &want, &want_pc)) {
            g_assert_cmpint(answer, ==, PAST_FOUND);
            g_assert_cmphex(v.at, ==, want_pc);
            g_assert_cmpuint(v.start + (v.at - v.to) / 4, ==, want);
            g_assert_cmpuint(v.end, >, want);
            found++;
        } else {
            g_assert_cmpint(answer, ==, PAST_NONE);
            none++;
        }
    }
    g_assert_cmpuint(found, >, 100);
    g_assert_cmpuint(none, >, 0);
    past_free(h);
    btrail_trace_close(trace);
    sample_remove(g_steal_pointer(&path));
}

/* Which visits count: by address and by when that was */
static bool counts_at(uint64_t address, uint64_t index, unsigned every)
{
    return every && index / 10 % every == address / 4 % every;
}

static bool is_wanted(void *opaque, unsigned vcpu,
                      const struct past_place *place, uint64_t address)
{
    g_assert_cmpuint(vcpu, ==, 0);
    g_assert_cmpuint(place->index, <, N);
    g_assert_cmpuint(place->time.tsc, ==, place->index / SLAB);
    return counts_at(address, place->index, *(const unsigned *)opaque);
}

/* The last block with one that counts, and the last address in it */
static bool find_wanted(GHashTable *addresses, uint64_t icount, unsigned every,
                        uint64_t *start, uint64_t *last)
{
    unsigned block, end = 0;
    uint64_t before = 0;

    while (icount-- > FIRST) {
        uint64_t pc = pc_at(icount, &block);

        if (end && block != end) {
            end = 0;
        }
        if (!g_hash_table_contains(addresses, GSIZE_TO_POINTER(pc))) {
            continue;
        }
        before = end ? before : pc;
        end = block;
        if (counts_at(pc, MIN(block, N - 1), every)) {
            *start = counts[block - 1];
            *last = before;
            return true;
        }
    }
    return false;
}

/* Those that do not count are passed over, however many they are. */
static void test_filter(void)
{
    g_autofree char *path = write_trace(0, true);
    struct btrail_trace *trace;
    struct past *h = open_history(path, &trace);
    unsigned found = 0, none = 0;

    for (unsigned round = 0; round < 120; round++) {
        static const unsigned rules[] = { 0, 1, 3, 50, 399 };
        unsigned every = rules[round % G_N_ELEMENTS(rules)], block;
        unsigned n = round % 2 ? 300 : g_test_rand_int_range(1, 4);
        const struct past_filter filter = { is_wanted, &every };
        uint64_t icount = g_test_rand_int_range(FIRST + 1, counts[N - 1] + 10);
        uint64_t addresses[300], pc = pc_at(icount, &block), start, last;
        g_autoptr(GHashTable) all = g_hash_table_new(NULL, NULL);
        enum past_answer answer;
        struct past_visit v;

        for (unsigned i = 0; i < n; i++) {
            addresses[i] = 0x1000 +
                (n == 300 ? (int)i - 60 : g_test_rand_int_range(-60, 260)) * 4;
            g_hash_table_add(all, GSIZE_TO_POINTER(addresses[i]));
        }
        answer = past_last_visit(h, 0, addresses, n, icount, pc, &filter, &v);
        if (find_wanted(all, icount, every, &start, &last)) {
            g_assert_cmpint(answer, ==, PAST_FOUND);
            g_assert_cmpuint(v.start, ==, start);
            g_assert_cmphex(v.at, ==, last);
            found++;
        } else {
            g_assert_cmpint(answer, ==, PAST_NONE);
            none++;
        }
    }
    g_assert_cmpuint(found, >, 20);
    g_assert_cmpuint(none, >, 20);
    past_free(h);
    btrail_trace_close(trace);
    sample_remove(g_steal_pointer(&path));
}

/* What the trace lacks, it does not claim to know. */
static void test_lost(void)
{
    g_autofree char *path = write_trace(5, true);
    struct btrail_trace *trace;
    struct past *h = open_history(path, &trace);
    const uint64_t nowhere = 0x10;
    struct past_visit v;

    g_assert_cmpint(past_last_visit(h, 0, &nowhere, 1, counts[N - 2], 0,
                                    NULL, &v), ==, PAST_UNKNOWN);
    past_free(h);
    btrail_trace_close(trace);
    sample_remove(g_steal_pointer(&path));
    /* Before the begin of its block: it has branched after the last record. */
    path = write_trace(0, true);
    h = open_history(path, &trace);
    g_assert_cmpint(past_last_visit(h, 0, &nowhere, 1, counts[N - 1] + 3,
                                    records[N - 1].to - 4, NULL, &v), ==,
                    PAST_UNKNOWN);
    g_assert_cmpint(past_last_visit(h, 0, &nowhere, 1, counts[N - 1] + 3,
                                    records[N - 1].to + 12, NULL, &v), ==,
                    PAST_NONE);
    past_free(h);
    btrail_trace_close(trace);
    sample_remove(g_steal_pointer(&path));
    path = write_trace(0, false);
    g_assert_null(open_history(path, &trace));
    btrail_trace_close(trace);
    sample_remove(g_steal_pointer(&path));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    make_records();
    g_test_add_func("/history/at", test_at);
    g_test_add_func("/history/visits", test_visits);
    g_test_add_func("/history/filter", test_filter);
    g_test_add_func("/history/lost", test_lost);
    return g_test_run();
}
