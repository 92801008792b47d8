/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where code ran, compared with a search through all records: forwards,
 * backwards, with threads, and within limits
 */

#include <string.h>

#include "find/visits.h"
#include "trace-samples.h"

#define VCPUS   3u
#define SLAB    300u
#define SLABS   60u
#define N       (SLAB * SLABS)
#define BASE    UINT64_C(0xffffffff81000000)
#define AREA    4096u
/* Records that are missing before this slab of vCPU 1 */
#define HOLE    20u
#define LOST    1000u

/* Time from the clock of a slab to that of the next one */
#define TICK    1000u

/*
 * A record, as it is in the trace
 * @time: of the clock before it
 * @end:  when it is over, in SLABths of a nanosecond
 */
struct known {
    struct btrail_record record;
    unsigned vcpu;
    uint64_t index;
    uint64_t time;
    uint64_t end;
    bool follows;               /* nothing is missing before it */
};

static struct known all[VCPUS][N];

/* Each slab is a chunk, and runs code of its own, and some that all run. */
static void make_records(void)
{
    for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
        uint64_t to = BASE;

        for (unsigned i = 0; i < N; i++) {
            struct known *k = &all[vcpu][i];
            bool lost = vcpu == 1 && i >= HOLE * SLAB;
            unsigned area = g_test_rand_int_range(0, 50) ? 1 + i / SLAB : 0;

            k->record.from = to + 4 * g_test_rand_int_range(0, 20);
            to = BASE + area * AREA + 4 * g_test_rand_int_range(0, 1000);
            k->record.to = to;
            k->index = i + (lost ? LOST : 0);
            k->vcpu = vcpu;
            /* Records share the time, so those of all vCPUs alternate. */
            k->time = 1000000 + i / SLAB * TICK + vcpu;
            k->end = k->time * SLAB + (i % SLAB + 1) * TICK;
            k->follows = i && !(vcpu == 1 && i == HOLE * SLAB);
        }
    }
}

static void write_slab(struct btrail_writer *w, unsigned vcpu, unsigned slab)
{
    const struct known *first = &all[vcpu][slab * SLAB];
    struct btrail_record records[SLAB];
    const bool lost = vcpu == 1 && slab == HOLE;
    const struct btrail_event events[2] = {
        { .type = BTRAIL_EVENT_GAP, .reason = BTRAIL_GAP_OVERFLOW,
          .index = first->index, .data = { LOST } },
        { .type = BTRAIL_EVENT_TIME, .index = first->index,
          .data = { first->time, 0, BTRAIL_NO_ICOUNT } },
    };
    const struct btrail_slab s = {
        .first_index = first->index,
        .records = records, .n_records = SLAB,
        .events = events + !lost, .n_events = 1 + lost,
    };

    for (unsigned i = 0; i < SLAB; i++) {
        records[i] = first[i].record;
    }
    g_assert_cmpint(btrail_writer_append(w, vcpu, &s), ==, 0);
    g_assert_cmpint(btrail_writer_flush(w), ==, 0);
}

static char *write_trace(void)
{
    char *path = sample_path();
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (unsigned slab = 0; slab < SLABS; slab++) {
        for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
            write_slab(w, vcpu, slab);
        }
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    return path;
}

/* Does the moment after record @i count? */
static bool matches(const struct find_target *s, unsigned vcpu, unsigned i)
{
    const struct known *k = &all[vcpu][i];

    for (unsigned a = 0; a < s->addresses->len; a++) {
        uint64_t address = g_array_index(s->addresses, uint64_t, a);

        if (s->blocks ? i + 1 < N && k[1].follows && k->record.to <= address &&
                            address <= k[1].record.from :
                        k->record.to == address) {
            return true;
        }
    }
    return false;
}

static int compare_ends(gconstpointer a, gconstpointer b)
{
    const struct known *x = a, *y = b;

    return (x->end > y->end) - (x->end < y->end);
}

/* What there is to find, in order */
static GArray *search_all(const struct find_target *s, const uint64_t *begin,
                          const uint64_t *end)
{
    GArray *found = g_array_new(FALSE, FALSE, sizeof(struct known));

    for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
        for (unsigned i = 0; i < N; i++) {
            const struct known *k = &all[vcpu][i];

            if (k->index >= begin[vcpu] && k->index < end[vcpu] &&
                matches(s, vcpu, i)) {
                g_array_append_val(found, *k);
            }
        }
    }
    g_array_sort(found, compare_ends);
    return found;
}

static void check(const struct visit *visit, const struct known *k)
{
    g_assert_cmpuint(visit->at.index, ==, k->index);
    g_assert_cmpuint(visit->at.time.host, ==, k->time);
    g_assert_cmpuint(visit->at.vcpu, ==, k->vcpu);
    g_assert_cmpmem(&visit->record, sizeof(visit->record), &k->record,
                    sizeof(k->record));
}

struct sum {
    gint n;
    gint indices;
};

static void add(void *opaque, unsigned worker, const struct visit *visit)
{
    struct sum *sum = opaque;

    g_assert_cmpuint(worker, <, 3);
    g_atomic_int_inc(&sum->n);
    g_atomic_int_add(&sum->indices, visit->at.index);
}

static struct visits *limited(const struct btrail_trace *trace,
                              const struct find_target *s,
                              const uint64_t *begin,
                              const uint64_t *end)
{
    struct visits *v = visits_new(trace, NULL, s, NULL);

    for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
        visits_limit(v, vcpu, begin[vcpu], end[vcpu]);
    }
    return v;
}

/* All ways find what a search through all records does. */
static unsigned compare(const struct btrail_trace *trace,
                        const struct find_target *s, const uint64_t *begin,
                        const uint64_t *end)
{
    g_autoptr(GArray) want = search_all(s, begin, end);
    struct sum sum = { 0 };
    struct visit visit;
    GError *error = NULL;
    struct visits *v = limited(trace, s, begin, end);

    for (unsigned i = 0; i < want->len; i++) {
        g_assert_true(visits_next(v, &visit, &error));
        check(&visit, &g_array_index(want, struct known, i));
        sum.indices -= visit.at.index;
    }
    g_assert_false(visits_next(v, &visit, &error));
    g_assert_no_error(error);
    g_assert_cmpuint(visits_damage(v), ==, 0);
    visits_free(v);

    v = limited(trace, s, begin, end);
    for (unsigned i = want->len; i; i--) {
        g_assert_true(visits_previous(v, &visit, &error));
        check(&visit, &g_array_index(want, struct known, i - 1));
    }
    g_assert_false(visits_previous(v, &visit, &error));
    visits_free(v);

    v = limited(trace, s, begin, end);
    g_assert_true(visits_each(v, 3, add, &sum, &error));
    g_assert_cmpint(sum.n, ==, want->len);
    g_assert_cmpint(sum.indices, ==, 0);
    visits_free(v);
    return want->len;
}

/* An address that some record goes to, or one near it */
static uint64_t some_address(unsigned near)
{
    const struct known *k = &all[g_test_rand_int_range(0, VCPUS)]
                                [g_test_rand_int_range(0, N)];

    return k->record.to + (near ? 4 * g_test_rand_int_range(0, near) : 0);
}

static struct find_target *some_code(bool blocks)
{
    unsigned n = g_test_rand_int_range(1, 4);
    GArray *addresses = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    struct find_target *s;

    for (unsigned i = 0; i < n; i++) {
        uint64_t address = some_address(blocks ? 10 : 0);

        g_array_append_val(addresses, address);
    }
    s = find_target_addresses(addresses);
    s->blocks = blocks;
    return s;
}

static void test_found(gconstpointer data)
{
    const bool blocks = GPOINTER_TO_INT(data);
    g_autofree char *path = write_trace();
    struct btrail_trace *trace;
    unsigned found = 0;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    for (unsigned i = 0; i < 60; i++) {
        struct find_target *s = some_code(blocks);
        uint64_t begin[VCPUS] = { 0 };
        uint64_t end[VCPUS] = { UINT64_MAX, UINT64_MAX, UINT64_MAX };

        found += compare(trace, s, begin, end);
        for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
            begin[vcpu] = g_test_rand_int_range(0, N + LOST);
            end[vcpu] = g_test_rand_int_range(0, N + 2 * LOST);
        }
        compare(trace, s, begin, end);
        find_target_free(s);
    }
    g_assert_cmpuint(found, >, 60);
    btrail_trace_close(trace);
    sample_remove(g_steal_pointer(&path));
}

/* The last record of a stream: where it goes is known, what runs there is
 * not */
static void test_last(void)
{
    g_autofree char *path = write_trace();
    const uint64_t begin[VCPUS] = { 0 };
    const uint64_t end[VCPUS] = { UINT64_MAX, UINT64_MAX, UINT64_MAX };
    struct btrail_trace *trace;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
        GArray *addresses = g_array_new(FALSE, FALSE, sizeof(uint64_t));
        struct find_target *s;

        g_array_append_val(addresses, all[vcpu][N - 1].record.to);
        s = find_target_addresses(addresses);
        g_assert_cmpuint(compare(trace, s, begin, end), >, 0);
        s->blocks = true;
        compare(trace, s, begin, end);
        find_target_free(s);
    }
    btrail_trace_close(trace);
    sample_remove(g_steal_pointer(&path));
}

/* More visits in a piece than are kept on the way back */
static void test_many(void)
{
    const unsigned n = 20000;
    g_autofree struct btrail_record *records = g_new(struct btrail_record, n);
    const struct btrail_slab slab = { .records = records, .n_records = n };
    GArray *addresses = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    const uint64_t address = BASE;
    g_autofree char *path = sample_path();
    struct btrail_trace *trace;
    struct btrail_writer *w;
    struct find_target *s;
    struct visits *v;
    struct visit visit;

    for (unsigned i = 0; i < n; i++) {
        records[i] = (struct btrail_record) { BASE + 4, BASE, 0 };
    }
    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_array_append_val(addresses, address);
    s = find_target_addresses(addresses);
    v = visits_new(trace, NULL, s, NULL);
    for (unsigned i = n; i; i--) {
        g_assert_true(visits_previous(v, &visit, NULL));
        g_assert_cmpuint(visit.at.index, ==, i - 1);
    }
    g_assert_false(visits_previous(v, &visit, NULL));
    visits_free(v);
    find_target_free(s);
    btrail_trace_close(trace);
    sample_remove(g_steal_pointer(&path));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    make_records();
    g_test_add_data_func("/targets", GINT_TO_POINTER(false), test_found);
    g_test_add_data_func("/blocks", GINT_TO_POINTER(true), test_found);
    g_test_add_func("/last", test_last);
    g_test_add_func("/many", test_many);
    return g_test_run();
}
