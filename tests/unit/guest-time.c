/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of guest-time.c: nanoseconds of ticks, and the clocks around a record
 */

#include "find/guest-time.h"
#include "trace-samples.h"

static void test_ns(void)
{
    const uint64_t ghz = UINT64_C(1000000000);

    g_assert_cmpuint(guest_time_ns(0, ghz), ==, 0);
    g_assert_cmpuint(guest_time_ns(1234567890123, ghz), ==, 1234567890123);
    g_assert_cmpuint(guest_time_ns(UINT64_MAX / 2, ghz), ==, UINT64_MAX / 2);
    /* At 2.5 GHz */
    g_assert_cmpuint(guest_time_ns(2499999999, 2500000000), ==, 999999999);
    g_assert_cmpuint(guest_time_ns(2500000000, 2500000000), ==, ghz);
    g_assert_cmpuint(guest_time_ns(UINT64_MAX, 15000000000), ==,
                     1229782938247303441);
    /* At 1 MHz, the most ticks are more than can be said. */
    g_assert_cmpuint(guest_time_ns(UINT64_MAX, 1000000), ==, UINT64_MAX);
}

/* Records 0 to 5, with clocks before 0, 2 and 4 */
static void test_of(void)
{
    const struct btrail_record records[6] = { { 0x1000, 0x2000, 0 } };
    struct btrail_event events[3];
    const struct btrail_slab slab = {
        .records = records, .n_records = 6, .events = events, .n_events = 3,
    };
    char *path = sample_path();
    struct btrail_trace *trace;
    struct btrail_writer *w;
    uint64_t from, to;

    for (unsigned i = 0; i < 3; i++) {
        events[i] = (struct btrail_event) {
            .type = BTRAIL_EVENT_TIME, .index = 2 * i,
            .data = { 1000 + i, 700 + 100 * i, 50 * i },
        };
    }
    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    for (unsigned i = 0; i < 6; i++) {
        g_assert_true(guest_time_of(trace, 0, i, 1000000000, &from, &to));
        g_assert_cmpuint(from, ==, 700 + i / 2 * 100);
        g_assert_cmpuint(to, ==, i < 4 ? 800 + i / 2 * 100 : UINT64_MAX);
    }
    g_assert_false(guest_time_of(trace, 0, 6, 1000000000, &from, &to));
    g_assert_false(guest_time_of(trace, 0, UINT64_MAX, 1000000000, &from,
                                 &to));
    g_assert_false(guest_time_of(trace, 1, 0, 1000000000, &from, &to));
    btrail_trace_close(trace);
    sample_remove(path);
}

/* Two vCPUs that take turns: one time goes by on both, also while they are
 * idle; the second slab is of vCPU 1, and clocks can go back. */
static void test_clock(void)
{
    static const struct {
        unsigned vcpu;
        uint64_t host;
        uint64_t tsc;
    } clocks[] = {
        { 0, 1000, 700 }, { 1, 2000, 5700 }, { 0, 3000, 5000 },
        { 1, 3500, 6700 },
    };
    static const uint64_t times[][2] = {
        { 0, 700 }, { 1000, 700 }, { 1001, 705 }, { 1500, 3200 },
        { 2000, 5700 }, { 2999, 5700 }, { 3250, 6200 }, { 3500, 6700 },
        { UINT64_MAX, 6700 },
    };
    const struct btrail_record record = { 0x1000, 0x2000, 0 };
    char *path = sample_path();
    struct replay_clock *clock;
    struct btrail_trace *trace;
    struct btrail_writer *w;
    uint64_t next[2] = { 0 };

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(clocks); i++) {
        const unsigned vcpu = clocks[i].vcpu;
        const struct btrail_event event = {
            .type = BTRAIL_EVENT_TIME, .index = next[vcpu],
            .data = { clocks[i].host, clocks[i].tsc, 7 * i },
        };
        const struct btrail_slab slab = {
            .first_index = next[vcpu]++, .records = &record, .n_records = 1,
            .events = &event, .n_events = 1,
        };

        g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(replay_clock_read(&clock, trace), ==, 0);
    g_assert_nonnull(clock);
    for (unsigned i = 0; i < G_N_ELEMENTS(times); i++) {
        g_assert_cmpuint(replay_clock_ns(clock, times[i][0]), ==, times[i][1]);
        g_assert_cmpuint(replay_clock_between(clock, 1500, times[i][0]), ==,
                         times[i][0] < 1500 ? 0 : times[i][1] - 3200);
    }
    replay_clock_free(clock);
    btrail_trace_close(trace);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/guest-time/ns", test_ns);
    g_test_add_func("/guest-time/of", test_of);
    g_test_add_func("/guest-time/clock", test_clock);
    return g_test_run();
}
