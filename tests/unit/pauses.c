/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/pauses.h: each nanosecond of random pauses is paused or not,
 * of a vCPU, of the guest, and of any vCPU
 */
#include <glib.h>
#include <stdio.h>

#include "analyze/pauses.h"
#include "trace-samples.h"

enum { VCPUS = 3, START = 1000, MOST = 400 };

#define OVERFLOW    BTRAIL_PAUSE_OVERFLOW
#define STOP        BTRAIL_PAUSE_VM_STOP

static void add(GArray *events, uint16_t type, uint16_t reason, uint64_t data)
{
    const struct btrail_event e = {
        .type = type, .reason = reason, .data = { data },
    };

    g_array_append_val(events, e);
}

static struct btrail_trace *write_all(char *path, GArray *const *vcpus,
                                      unsigned n)
{
    const struct btrail_record record = { 1, 2, 0 };
    struct btrail_writer *w;
    struct btrail_trace *trace;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (unsigned i = 0; i < n; i++) {
        const struct btrail_slab slab = {
            0, 0x1000, &record, 1, (void *)vcpus[i]->data, vcpus[i]->len,
        };

        g_assert_cmpint(btrail_writer_append(w, i, &slab), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    return trace;
}

/* Is it paused then? */
struct truth {
    bool waits[VCPUS][MOST];
    bool stopped[MOST];
};

static bool is_paused(const struct truth *t, unsigned vcpu, unsigned i)
{
    return t->waits[vcpu][i] || t->stopped[i];
}

static unsigned how_many(const struct truth *t, unsigned i)
{
    unsigned n = 0;

    for (unsigned v = 0; v < VCPUS; v++) {
        n += is_paused(t, v, i);
    }
    return n;
}

static void choose(bool *paused)
{
    for (unsigned i = g_test_rand_int_range(1, 30); i < MOST;) {
        unsigned end = i + g_test_rand_int_range(1, 30);

        for (; i < MOST && i < end; i++) {
            paused[i] = true;
        }
        i += g_test_rand_int_range(1, 60);
    }
}

static void add_changes(GArray *events, const bool *paused, uint16_t reason,
                        unsigned i)
{
    bool was = i && paused[i - 1], is = i < MOST && paused[i];

    if (was != is) {
        add(events, is ? BTRAIL_EVENT_PAUSE : BTRAIL_EVENT_RESUME, reason,
            START + i);
    }
}

static uint64_t count(const struct truth *t, int vcpu, unsigned least,
                      uint64_t begin, uint64_t end)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < MOST; i++) {
        n += START + i >= begin && START + i < end &&
             (vcpu < 0 ? how_many(t, i) >= least : is_paused(t, vcpu, i));
    }
    return n;
}

static void test_random(void)
{
    char *path = sample_path();

    for (unsigned round = 0; round < 200; round++) {
        g_autofree struct truth *t = g_new0(struct truth, 1);
        GArray *events[VCPUS];
        struct btrail_trace *trace;
        const struct pauses_guest guest = { .vcpus = VCPUS };
        struct pauses *p;
        uint64_t all = 0;

        choose(t->stopped);
        for (unsigned v = 0; v < VCPUS; v++) {
            choose(t->waits[v]);
            events[v] = g_array_new(FALSE, FALSE, sizeof(struct btrail_event));
            add(events[v], BTRAIL_EVENT_TIME, 0, START);
            for (unsigned i = 0; i <= MOST; i++) {
                add_changes(events[v], t->waits[v], OVERFLOW, i);
                add_changes(events[v], t->stopped, STOP, i);
            }
        }
        trace = write_all(path, events, VCPUS);
        g_assert_cmpint(pauses_read(&p, trace, &guest), ==, 0);
        g_assert_cmpuint(pauses_unknown(p), ==, 0);
        for (unsigned k = 0; k < 30; k++) {
            uint64_t begin = START + g_test_rand_int_range(-10, MOST);
            uint64_t end = begin + g_test_rand_int_range(0, MOST);

            for (unsigned v = 0; v < VCPUS; v++) {
                g_assert_cmpuint(pauses_vcpu(p, v, begin, end), ==,
                                 count(t, v, 0, begin, end));
                g_assert_cmpuint(pauses_vcpu_alone(p, v, begin, end), ==,
                                 count(t, v, 0, begin, end) -
                                 count(t, -1, VCPUS, begin, end));
            }
            g_assert_cmpuint(pauses_any(p, begin, end), ==,
                             count(t, -1, 1, begin, end));
            g_assert_cmpuint(pauses_whole_guest(p, begin, end), ==,
                             count(t, -1, VCPUS, begin, end));
        }
        for (unsigned v = 0; v < VCPUS; v++) {
            g_assert_cmpuint(pauses_of_vcpu(p, v).ns, ==,
                             count(t, v, 0, 0, UINT64_MAX));
            all += pauses_of_vcpu(p, v).ns;
            g_array_unref(events[v]);
        }
        g_assert_cmpuint(pauses_of_all(p).ns, ==, all);
        pauses_free(p);
        btrail_trace_close(trace);
        g_assert_cmpint(remove(path), ==, 0);
    }
    sample_remove(path);
}

/* Pauses are a list in order, apart from each other, of all that is summed up. */
static void check_list(const struct pauses *p, unsigned vcpu)
{
    uint64_t sum = 0, last = 0, begin, end;

    for (size_t i = 0; pauses_get(p, vcpu, i, &begin, &end); i++) {
        g_assert_cmpuint(begin, >=, last);
        g_assert_cmpuint(end, >, begin);
        sum += end - begin;
        last = end;
    }
    g_assert_cmpuint(sum, >, 0);
    g_assert_cmpuint(sum, ==, vcpu == PAUSES_GUEST ?
                     pauses_whole_guest(p, 0, UINT64_MAX) :
                     pauses_vcpu(p, vcpu, 0, UINT64_MAX));
}

/* Not all vCPUs are in the trace: only a stop is one of the whole guest. */
static void test_some_vcpus(void)
{
    char *path = sample_path();
    GArray *events = g_array_new(FALSE, FALSE, sizeof(struct btrail_event));
    struct btrail_trace *trace;
    struct pauses *p;

    add(events, BTRAIL_EVENT_PAUSE, OVERFLOW, 100);
    add(events, BTRAIL_EVENT_PAUSE, STOP, 110);
    add(events, BTRAIL_EVENT_RESUME, STOP, 130);
    add(events, BTRAIL_EVENT_RESUME, OVERFLOW, 150);
    trace = write_all(path, &events, 1);
    for (unsigned vcpus = 0; vcpus < 3; vcpus++) {
        const struct pauses_guest guest = { .vcpus = vcpus };

        g_assert_cmpint(pauses_read(&p, trace, &guest), ==, 0);
        g_assert_cmpuint(pauses_whole_guest(p, 0, 1000), ==,
                         vcpus == 1 ? 50 : 20);
        g_assert_cmpuint(pauses_any(p, 0, 1000), ==, 50);
        g_assert_cmpuint(pauses_of_all(p).n, ==, 1);
        g_assert_cmpuint(pauses_of_all(p).ns, ==, 50);
        g_assert_cmpuint(pauses_vcpu(p, BTRAIL_MAX_VCPUS, 0, 1000), ==, 0);
    check_list(p, 0);
    check_list(p, PAUSES_GUEST);
        pauses_free(p);
    }
    pauses_free(NULL);
    btrail_trace_close(trace);
    g_array_unref(events);
    sample_remove(path);
}

/* A vCPU that makes no records does not run, if the trace has all. */
static void test_waits(void)
{
    enum { MS = 1000000 };
    char *path = sample_path();
    GArray *events[2];
    struct btrail_trace *trace;

    for (unsigned i = 0; i < 2; i++) {
        events[i] = g_array_new(FALSE, FALSE, sizeof(struct btrail_event));
    }
    add(events[0], BTRAIL_EVENT_TIME, 0, 100 * MS);
    add(events[0], BTRAIL_EVENT_PAUSE, OVERFLOW, 110 * MS);
    add(events[0], BTRAIL_EVENT_RESUME, OVERFLOW, 150 * MS);
    add(events[1], BTRAIL_EVENT_TIME, 0, 100 * MS);
    add(events[1], BTRAIL_EVENT_TIME, 0, 130 * MS);
    trace = write_all(path, events, 2);
    for (unsigned i = 0; i < 6; i++) {
        const struct pauses_guest guest = { 1 + i / 2, MS, i % 2 };
        struct pauses *p;

        g_assert_cmpint(pauses_read(&p, trace, &guest), ==, 0);
        g_assert_cmpuint(pauses_whole_guest(p, 0, 200 * MS), ==,
                         i == 3 ? 20 * MS : 0);
        g_assert_cmpuint(pauses_any(p, 0, 200 * MS), ==, 40 * MS);
        pauses_free(p);
    }
    btrail_trace_close(trace);
    g_array_unref(events[0]);
    g_array_unref(events[1]);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/pauses/random", test_random);
    g_test_add_func("/pauses/some-vcpus", test_some_vcpus);
    g_test_add_func("/pauses/waits", test_waits);
    return g_test_run();
}
