/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The functions that took most of the time: of random ranges of a trace,
 * against sums of the time of each record
 */

#include <string.h>
#include <unistd.h>

#include "analyze/hot-functions.h"
#include "symbolize/symbolizer.h"
#include "trace-samples.h"

#define VCPUS       2u
#define PAGES       5u
#define SLABS       60u
#define MOST        40
#define START       5000000u
#define KERNEL      UINT64_C(0xffffffff81000000)

/* Of each record of a vCPU, its page, its time, and when it began */
struct made {
    unsigned page[VCPUS][SLABS * MOST];
    uint64_t ns[VCPUS][SLABS * MOST];
    uint64_t time[VCPUS][SLABS * MOST];
    unsigned n[VCPUS];
};

static void put_slab(struct btrail_writer *w, GRand *rand, struct made *m,
                     unsigned vcpu, uint64_t *clock)
{
    struct btrail_record records[MOST];
    unsigned n = g_rand_int_range(rand, 1, MOST);
    uint64_t each = g_rand_int_range(rand, 1, 40) * 1000;
    struct btrail_event events[2] = {
        { .index = m->n[vcpu], .type = BTRAIL_EVENT_TIME,
          .data = { *clock, 0, BTRAIL_NO_ICOUNT } },
        { .index = m->n[vcpu], .type = BTRAIL_EVENT_TASK,
          .data = { UINT64_C(9) << 32 | 9, 'x' } },
    };
    struct btrail_slab slab = {
        .first_index = m->n[vcpu], .cr3 = 0x5000, .records = records,
        .n_records = n, .events = events, .n_events = 2,
    };

    for (unsigned i = 0; i < n; i++) {
        unsigned page = g_rand_int_range(rand, 0, PAGES);
        unsigned at = m->n[vcpu] + i;

        /* The code before a branch is where it comes from. */
        records[i] = (struct btrail_record) {
            KERNEL + page * 0x1000 + 8, KERNEL + at % PAGES * 0x1000, 0,
        };
        m->page[vcpu][at] = page;
        m->ns[vcpu][at] = each;
        m->time[vcpu][at] = *clock + i * each;
    }
    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
    m->n[vcpu] += n;
    *clock += n * each;
}

static struct btrail_trace *make(GRand *rand, struct made *m)
{
    char *path = sample_path();
    struct btrail_trace *trace;
    struct btrail_writer *w;

    memset(m, 0, sizeof(*m));
    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
        uint64_t clock = START;

        for (unsigned i = 0; i < SLABS; i++) {
            put_slab(w, rand, m, vcpu, &clock);
        }
        put_slab(w, rand, m, vcpu, &clock);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    sample_remove(path);
    return trace;
}

static struct symbolizer *open_names(const struct btrail_trace *trace)
{
    g_autofree char *path = NULL;
    g_autoptr(GString) text = g_string_new(NULL);
    struct symbolizer *s;
    int fd = g_file_open_tmp("backtrail-XXXXXX", &path, NULL);

    g_assert_cmpint(fd, >=, 0);
    for (unsigned i = 0; i <= PAGES; i++) {
        g_string_append_printf(text, "%" G_GINT64_MODIFIER "x t page%u\n",
                               KERNEL + i * 0x1000, i);
    }
    g_assert_true(g_file_set_contents(path, text->str, -1, NULL));
    s = symbolizer_new(&(struct symbolizer_options) { .map = path }, trace,
                       NULL);
    g_assert_nonnull(s);
    unlink(path);
    close(fd);
    return s;
}

/* Random ranges that do not overlap, of some groups */
static GArray *make_ranges(GRand *rand, const struct made *m, unsigned groups)
{
    GArray *ranges = g_array_new(FALSE, FALSE, sizeof(struct hot_range));

    for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
        unsigned at = 0;

        for (;;) {
            struct hot_range r = {
                .vcpu = vcpu, .group = g_rand_int_range(rand, 0, groups),
                .begin = at + g_rand_int_range(rand, 0, 200),
            };

            r.end = r.begin + g_rand_int_range(rand, 0, 200);
            if (r.end > m->n[vcpu] - MOST) {
                break;
            }
            r.time = m->time[vcpu][r.begin];
            g_array_append_val(ranges, r);
            at = r.end;
        }
    }
    return ranges;
}

static void test_random(void)
{
    enum { GROUPS = 3 };
    GRand *rand = g_rand_new_with_seed(1);

    for (unsigned round = 0; round < 50; round++) {
        g_autofree struct made *m = g_new(struct made, 1);
        struct btrail_trace *trace = make(rand, m);
        struct symbolizer *names = open_names(trace);
        g_autoptr(GArray) ranges = make_ranges(rand, m, GROUPS);
        uint64_t wanted[GROUPS][PAGES] = { { 0 } };
        GArray *found[GROUPS];
        bool sampled;

        for (guint i = 0; i < ranges->len; i++) {
            const struct hot_range *r = &g_array_index(ranges, struct hot_range,
                                                       i);

            for (uint64_t k = r->begin; k < r->end; k++) {
                wanted[r->group][m->page[r->vcpu][k]] += m->ns[r->vcpu][k];
            }
        }
        g_assert_cmpint(hot_functions_read(trace, names, ranges, GROUPS,
                                           1000000, 0, found, &sampled), ==, 0);
        g_assert_false(sampled);
        for (unsigned g = 0; g < GROUPS; g++) {
            uint64_t last = UINT64_MAX;
            unsigned n = 0;

            for (guint i = 0; i < found[g]->len; i++) {
                const struct hot_function *f = &g_array_index(
                    found[g], struct hot_function, i);
                unsigned page = f->function->name[4] - '0';

                g_assert_cmpuint(page, <, PAGES);
                g_assert_cmpuint(f->ns, ==, wanted[g][page]);
                g_assert_cmpuint(f->ns, <=, last);
                last = f->ns;
            }
            for (unsigned i = 0; i < PAGES; i++) {
                n += wanted[g][i] > 0;
            }
            g_assert_cmpuint(found[g]->len, ==, n);
            g_array_unref(found[g]);
        }
        symbolizer_free(names);
        btrail_trace_close(trace);
    }
    g_rand_free(rand);
}

/* Nothing is found of nothing. */
static void test_none(void)
{
    GRand *rand = g_rand_new_with_seed(2);
    g_autofree struct made *m = g_new(struct made, 1);
    struct btrail_trace *trace = make(rand, m);
    struct symbolizer *names = open_names(trace);
    g_autoptr(GArray) ranges = g_array_new(FALSE, FALSE,
                                           sizeof(struct hot_range));
    GArray *found[1];
    bool sampled;

    g_assert_cmpint(hot_functions_read(trace, names, ranges, 1, 0, 0, found,
                                       &sampled), ==, 0);
    g_assert_cmpuint(found[0]->len, ==, 0);
    g_array_unref(found[0]);
    symbolizer_free(names);
    btrail_trace_close(trace);
    g_rand_free(rand);
}

/* Of too many records some are read, and stand for the others. */
static void test_sampled(void)
{
    enum { SLAB = 1 << 16, N = 64 };
    g_autofree struct btrail_record *records = g_new0(struct btrail_record,
                                                      SLAB);
    char *path = sample_path();
    struct hot_range range = { .end = (uint64_t)SLAB * N, .time = START };
    g_autoptr(GArray) ranges = g_array_new(FALSE, FALSE, sizeof(range));
    struct btrail_trace *trace;
    struct symbolizer *names;
    struct btrail_writer *w;
    uint64_t all[2] = { 0 };
    GArray *found[1];
    bool sampled;

    for (unsigned i = 0; i < SLAB; i++) {
        uint64_t page = KERNEL + (i % 4 == 0) * 0x1000;

        records[i] = (struct btrail_record) { page + 8, page, 0 };
    }
    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (unsigned i = 0; i <= N; i++) {
        struct btrail_event event = {
            .index = (uint64_t)SLAB * i, .type = BTRAIL_EVENT_TIME,
            .data = { START + i * UINT64_C(1000000), 0, BTRAIL_NO_ICOUNT },
        };
        struct btrail_slab slab = {
            .first_index = event.index, .cr3 = 0x5000, .records = records,
            .n_records = i < N ? SLAB : 1, .events = &event, .n_events = 1,
        };

        g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    sample_remove(path);
    names = open_names(trace);
    g_array_append_val(ranges, range);
    g_assert_cmpint(hot_functions_read(trace, names, ranges, 1, 1000000,
                                       SLAB * 8, found, &sampled), ==, 0);
    g_assert_true(sampled);
    g_assert_cmpuint(found[0]->len, ==, 2);
    for (unsigned i = 0; i < 2; i++) {
        const struct hot_function *f = &g_array_index(
            found[0], struct hot_function, i);

        g_assert_cmpstr(f->function->name, ==, i ? "page1" : "page0");
        all[i] = f->ns;
    }
    g_assert_cmpuint(all[0], >, 2 * all[1]);
    g_assert_cmpuint(all[0] + all[1], >, N * UINT64_C(1000000) * 9 / 10);
    g_assert_cmpuint(all[0] + all[1], <, N * UINT64_C(1000000) * 13 / 10);
    g_array_unref(found[0]);
    symbolizer_free(names);
    btrail_trace_close(trace);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/hot-functions/random", test_random);
    g_test_add_func("/hot-functions/none", test_none);
    g_test_add_func("/hot-functions/sampled", test_sampled);
    return g_test_run();
}
