/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/fold.h: all records are in the sum, however many threads
 * count them; limits end an exact count and no other
 */
#include "analyze/fold.h"
#include "trace-samples.h"

#define CHUNKS  40

struct vcpu_group {
    struct fold_group group;
    unsigned vcpu;
    uint64_t records;
};

static guint hash_vcpu(gconstpointer p)
{
    return ((const struct vcpu_group *)p)->vcpu;
}

static gboolean equal_vcpus(gconstpointer a, gconstpointer b)
{
    return hash_vcpu(a) == hash_vcpu(b);
}

static void merge_vcpus(struct fold_group *to, const struct fold_group *from)
{
    ((struct vcpu_group *)to)->records +=
        ((const struct vcpu_group *)from)->records;
}

static int take(void *opaque, const struct btrail_piece *piece,
                const struct btrail_batch *b)
{
    struct fold *f = opaque;
    struct fold_part *part = fold_take(f, piece, b);
    struct vcpu_group key = { .vcpu = piece->vcpu };
    struct fold_group *group;
    size_t done, n;

    for (done = 0; part && done < b->count; done += n) {
        n = fold_count(f, part, &key.group, b->records + done,
                       b->count - done, &group);
        if (part->full) {
            return FOLD_FULL;
        }
        if (group) {
            ((struct vcpu_group *)group)->records += n;
        }
    }
    return 0;
}

/* Counts the sample's two vCPUs; returns what is in groups and in edges. */
static int count(const struct btrail_trace *trace, bool exact,
                 struct fold_limits limits, unsigned threads,
                 struct fold_sums *sums, uint64_t *grouped, uint64_t *edges)
{
    const struct fold_kind kind = {
        sizeof(struct vcpu_group), offsetof(struct vcpu_group, records),
        hash_vcpu, equal_vcpus, merge_vcpus, NULL, exact,
    };
    GHashTableIter iter;
    gpointer group;
    struct fold f;
    int ret;

    fold_init(&f, &kind, &limits);
    ret = fold_trace(&f, trace, threads, false, take, &f);
    *sums = f.sum.sums;
    *grouped = *edges = 0;
    g_hash_table_iter_init(&iter, f.sum.groups);
    while (g_hash_table_iter_next(&iter, &group, NULL)) {
        const struct vcpu_group *g = group;
        const struct edge *e = NULL;

        *grouped += g->records;
        while ((e = edges_next(g->group.edges, e))) {
            *edges += e->count;
        }
    }
    fold_reset(&f);
    g_assert_cmpuint(f.sum.sums.records, ==, 0);
    fold_clear(&f);
    return ret;
}

static void test_count(void)
{
    const uint64_t all = 2 * CHUNKS * SAMPLE_CHUNK_RECORDS;
    const struct fold_limits enough = { 2, 1u << 20 }, few = { 2, 500 };
    char *path = sample_path();
    struct btrail_trace *trace;
    uint64_t grouped, edges;
    struct fold_sums sums;
    unsigned threads;

    sample_write(path, CHUNKS);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    for (threads = 1; threads < 5; threads++) {
        g_assert_cmpint(count(trace, true, enough, threads, &sums, &grouped,
                              &edges), ==, 0);
        g_assert_cmpuint(sums.records, ==, all);
        g_assert_cmpuint(sums.lost, ==, 2 * SAMPLE_LOST);
        g_assert_cmpuint(grouped, ==, all);
        g_assert_cmpuint(edges, ==, all);
        g_assert_cmpint(count(trace, false, few, threads, &sums, &grouped,
                              &edges), ==, 0);
        g_assert_cmpuint(grouped, ==, all);
        g_assert_cmpuint(edges, ==, 500);
        g_assert_cmpint(count(trace, true, few, threads, &sums, &grouped,
                              &edges), ==, threads > 1 ? FOLD_FULL : 0);
        g_assert_cmpint(count(trace, false, (struct fold_limits) { 1, 9 }, 1,
                              &sums, &grouped, &edges), ==, 0);
        g_assert_cmpuint(sums.others, ==, all / 2);
    }
    btrail_trace_close(trace);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/fold/count", test_count);
    return g_test_run();
}
