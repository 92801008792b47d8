/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of find/clock-order.h: records that are found for a key, compared with
 * the keys of all records
 */

#include "find/clock-order.h"
#include "trace-samples.h"

enum { CHUNKS = 6, SLAB = 50, SLABS = 20, N = SLAB * SLABS };

struct keys {
    struct clock_order *order;
    unsigned vcpu;
    GArray *moments;
    GArray *all;                /* of uint64_t */
};

static void take(void *opaque, const struct btrail_batch *b)
{
    struct keys *k = opaque;

    for (size_t i = 0; !b->event && i < b->count; i++) {
        const struct moment at = moment_after(k->vcpu, b, i);
        uint64_t key = clock_order_key(k->order, &at);

        g_array_append_val(k->moments, at);
        g_array_append_val(k->all, key);
    }
}

static struct keys read_keys(struct btrail_trace *trace, unsigned vcpu)
{
    struct keys k = {
        clock_order_new(trace, 1000000), vcpu,
        g_array_new(FALSE, FALSE, sizeof(struct moment)),
        g_array_new(FALSE, FALSE, sizeof(uint64_t)),
    };
    struct sample_end end;

    g_assert_true(sample_walk(trace, vcpu, take, &k, &end));
    g_assert_cmpuint(k.all->len, >, 0);
    return k;
}

static void free_keys(struct keys *k)
{
    clock_order_free(k->order);
    g_array_unref(k->moments);
    g_array_unref(k->all);
}

/* Is this the first record whose key is not below @key?  It can be missing. */
static void check(const struct keys *k, uint64_t key, uint64_t index)
{
    for (guint i = 0; i < k->all->len; i++) {
        const struct moment *at = &g_array_index(k->moments, struct moment, i);

        if (at->index < index) {
            g_assert_cmpuint(g_array_index(k->all, uint64_t, i), <, key);
        } else if (at->index == index) {
            g_assert_cmpuint(g_array_index(k->all, uint64_t, i), >=, key);
        }
    }
}

/* Has record @i begun where the one before is over, or at a clock? */
static void check_begun(const struct keys *k, guint i, uint64_t begun)
{
    const struct moment *at = &g_array_index(k->moments, struct moment, i);
    const struct moment *before = i ? at - 1 : NULL;

    if (before && before->time.host == at->time.host) {
        g_assert_cmpuint(begun, ==, g_array_index(k->all, uint64_t, i - 1));
    } else {
        g_assert_cmpuint(begun, >=, at->time.host);
        g_assert_cmpuint(begun, <=, g_array_index(k->all, uint64_t, i));
    }
}

static void test_times(void)
{
    char *path = sample_path();
    struct btrail_trace *trace;
    struct clock_order *order;
    struct keys first, other;

    sample_write(path, CHUNKS);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    first = read_keys(trace, 0);
    other = read_keys(trace, 3);
    order = clock_order_new(trace, 1000000);
    for (guint i = 0; i < first.all->len; i++) {
        const struct moment *at = &g_array_index(first.moments, struct moment,
                                                 i);
        uint64_t key = g_array_index(first.all, uint64_t, i);

        g_assert_false(at->exact);
        g_assert_cmpuint(clock_order_time(order, at), ==, key);
        g_assert_cmpuint(clock_order_latest(order, at), >=, key);
        check_begun(&first, i, clock_order_begun(order, at));
        check(&other, key, clock_order_at(order, 3, at));
        check(&other, key + 1, clock_order_index(order, 3, false, key + 1));
        /* Backwards, too */
        check(&first, key - 1000, clock_order_index(order, 0, false,
                                                    key - 1000));
        g_assert_cmpuint(clock_order_at(order, 0, at), ==, at->index);
    }
    check(&first, 0, clock_order_index(order, 0, false, 0));
    clock_order_free(order);
    free_keys(&first);
    free_keys(&other);
    btrail_trace_close(trace);
    sample_remove(path);
}

/*
 * A moment has the same time, wherever reading begins: near it, and from the
 * begin of the trace on.  The trace has pauses and missing records.
 */
static void test_near(void)
{
    char *path = sample_path();
    struct btrail_trace *trace;
    unsigned vcpus[] = { 0, 3 };

    sample_write(path, CHUNKS);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    for (unsigned v = 0; v < G_N_ELEMENTS(vcpus); v++) {
        struct clock_order *first = clock_order_new(trace, 1000000);
        struct keys keys = read_keys(trace, vcpus[v]);

        for (guint i = 0; i < keys.all->len; i += 1 + i % 13) {
            struct clock_order *near = clock_order_new(trace, 1000000);
            struct moment at = g_array_index(keys.moments, struct moment, i);
            uint64_t time = clock_order_time(near, &at);
            uint64_t begun = clock_order_begun(near, &at);
            uint64_t latest = clock_order_latest(near, &at);

            g_assert_cmpuint(time, ==, g_array_index(keys.all, uint64_t, i));
            check(&keys, time, clock_order_index(near, vcpus[v], false, time));
            check(&keys, time + 1, clock_order_index(near, vcpus[v], false,
                                                     time + 1));
            at.time.host = 0;
            g_assert_cmpuint(clock_order_time(first, &at), ==, time);
            g_assert_cmpuint(clock_order_begun(first, &at), ==, begun);
            g_assert_cmpuint(clock_order_latest(first, &at), ==, latest);
            clock_order_free(near);
        }
        clock_order_free(first);
        free_keys(&keys);
    }
    btrail_trace_close(trace);
    sample_remove(path);
}

/*
 * A task that begins after its vCPU has waited begins at the clock that says
 * so, and not where the last record before it was over.
 */
static void test_waited(void)
{
    const struct btrail_record records[] = {
        { 0x1000, 0x2000, 0 }, { 0x1000, 0x2000, 0 },
    };
    const uint64_t times[] = { 1000000, 900000000 };
    char *path = sample_path();
    struct btrail_trace *trace;
    struct clock_order *order;
    struct btrail_writer *w;
    struct moment at = {
        .index = 1, .icount = BTRAIL_NO_ICOUNT, .time.host = times[1],
    };

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(times); i++) {
        const struct btrail_event event = {
            .type = BTRAIL_EVENT_TIME, .index = 2 * i,
            .data = { times[i], 0, BTRAIL_NO_ICOUNT },
        };
        const struct btrail_slab slab = {
            .first_index = 2 * i, .records = records, .n_records = 2,
            .events = &event, .n_events = 1,
        };

        g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    order = clock_order_new(trace, 1000000);
    g_assert_cmpuint(clock_order_time(order, &at), ==, times[1]);
    at.time.host = times[0];
    g_assert_cmpuint(clock_order_time(order, &at), <, times[1]);
    /* What is asked for once is kept. */
    clock_order_stamp(order, &at);
    g_assert_cmpuint(at.clock, ==, clock_order_time(order, &at));
    g_assert_cmpuint(at.clock, >, times[0]);
    clock_order_free(order);
    btrail_trace_close(trace);
    sample_remove(path);
}

static void test_counts(void)
{
    struct btrail_record records[N];
    const struct sample_slabs slabs = {
        .records = records, .n_records = SLAB, .n = SLABS, .counted = true,
        .in_chunk = 4,
    };
    char *path = sample_path();
    struct btrail_trace *trace;
    struct clock_order *order;
    uint64_t count = 7;
    struct keys keys;

    for (unsigned i = 0; i < N; i++) {
        records[i] = (struct btrail_record) {
            0x1000, 0x2000, count << BTRAIL_RECORD_ICOUNT_SHIFT,
        };
        count += g_test_rand_int_range(1, 10);
    }
    sample_write_slabs(path, &slabs);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    keys = read_keys(trace, 0);
    order = clock_order_new(trace, 1000000);
    for (uint64_t key = 0; key < count + 5; key += 1 + key % 7) {
        check(&keys, key, clock_order_index(order, 0, true, key));
    }
    clock_order_free(order);
    free_keys(&keys);
    btrail_trace_close(trace);
    sample_remove(path);
}

/* A trace without counts has no record of any. */
static void test_no_counts(void)
{
    char *path = sample_path();
    struct btrail_trace *trace;
    struct clock_order *order;

    sample_write(path, 2);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    order = clock_order_new(trace, 0);
    g_assert_cmpuint(clock_order_index(order, 0, true, 5), ==, UINT64_MAX);
    clock_order_free(order);
    btrail_trace_close(trace);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/times", test_times);
    g_test_add_func("/near", test_near);
    g_test_add_func("/waited", test_waited);
    g_test_add_func("/counts", test_counts);
    g_test_add_func("/no-counts", test_no_counts);
    return g_test_run();
}
