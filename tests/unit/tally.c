/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/tally.h, against a model that adds up random traces one
 * item after the other: any number of threads, limits, damage, read errors
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "analyze/tally.h"
#include "random-trace.h"
#include "trace-samples.h"

#define ROUNDS  (g_test_slow() ? 12u : 3u)

static const struct fold_limits no_limits = { 65536, 1u << 20 };
static const unsigned threads[] = { 1, 2, 5, 40 };

static void describe_moment(GString *text, const struct tally_moment *m)
{
    g_string_append_printf(text, " at %" G_GUINT64_FORMAT " on %u: %"
                           G_GUINT64_FORMAT, m->time, m->vcpu, m->index);
}

/* A tally as text */
static char *describe(const struct tally *t)
{
    g_autofree struct edge *top = g_new(struct edge, 1u << 16);
    GString *text = g_string_new(NULL);
    unsigned i, k;

    g_string_append_printf(text, "%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT
                           " %" G_GUINT64_FORMAT " %d %" G_GUINT64_FORMAT "\n",
                           t->sums.records, t->sums.others, t->sums.lost,
                           t->sums.lost_unknown, t->sums.damage);
    for (i = 0; i < t->spaces->len; i++) {
        struct space *s = t->spaces->pdata[i];
        size_t n = edges_top(s->group.edges, top, 1u << 16);

        g_string_append_printf(text, "%" G_GINT64_MODIFIER "x %"
                               G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, s->key.cr3,
                               s->records, s->spans);
        describe_moment(text, &s->first);
        describe_moment(text, &s->last);
        for (k = 0; k < BTRAIL_MAX_VCPUS; k++) {
            if (s->vcpus[k]) {
                g_string_append_printf(text, " vCPU %u", k);
            }
        }
        g_string_append_printf(text, "\n others %" G_GUINT64_FORMAT,
                               edges_others(s->group.edges));
        for (k = 0; k < n; k++) {
            g_string_append_printf(text, "\n %" G_GINT64_MODIFIER "x %"
                                   G_GINT64_MODIFIER "x %" G_GUINT64_FORMAT,
                                   top[k].from, top[k].to, top[k].count);
        }
        g_string_append_c(text, '\n');
    }
    return g_string_free(text, FALSE);
}

static char *tally(const struct random_trace *t, unsigned n,
                   const struct fold_limits *limits)
{
    struct btrail_trace *trace;
    struct tally sum;
    char *text;

    g_assert_cmpint(btrail_trace_open(&trace, t->path), ==, 0);
    g_assert_cmpint(tally_trace(&sum, trace, NULL, n, limits), ==, 0);
    text = describe(&sum);
    tally_clear(&sum);
    btrail_trace_close(trace);
    return text;
}

/*
 * The model: what was written, added up one item after the other
 */

static struct space *model_space(struct tally *t, size_t *budget,
                                 uint64_t root)
{
    struct space *s;
    unsigned i;

    for (i = 0; i < t->spaces->len; i++) {
        s = t->spaces->pdata[i];
        if (s->key.cr3 == root) {
            return s;
        }
    }
    s = g_new0(struct space, 1);
    s->key.cr3 = root;
    s->group.edges = edges_new(budget);
    g_ptr_array_add(t->spaces, s);
    return s;
}

static bool before(const struct tally_moment *a, const struct tally_moment *b)
{
    return a->time < b->time ||
           (a->time == b->time && (a->index < b->index ||
                                   (a->index == b->index &&
                                    a->vcpu < b->vcpu)));
}

static void model_stream(struct tally *t, size_t *budget,
                         const struct random_stream *stream)
{
    uint64_t cr3 = g_array_index(stream->cr3s, uint64_t, 0), time = 0;
    uint64_t last = UINT64_MAX;
    guint i;

    for (i = 0; i < stream->items->len; i++) {
        const struct random_item *item =
            &g_array_index(stream->items, struct random_item, i);
        const struct btrail_event *e = &item->event;
        struct tally_moment now = { time, stream->vcpu, item->index };
        struct space *s;

        switch (e->type) {
        case 0:
            s = model_space(t, budget, btrail_cr3_root(cr3));
            if (!s->records || before(&now, &s->first)) {
                s->first = now;
            }
            if (!s->records || before(&s->last, &now)) {
                s->last = now;
            }
            t->sums.records++;
            s->records++;
            s->spans += s->key.cr3 != last;
            s->vcpus[stream->vcpu] = true;
            last = s->key.cr3;
            edges_count(s->group.edges, &item->record, 1);
            break;
        case BTRAIL_EVENT_CR3:
            cr3 = e->data[0];
            break;
        case BTRAIL_EVENT_TIME:
            time = e->data[0];
            break;
        case BTRAIL_EVENT_GAP:
            if (e->data[0] == BTRAIL_LOST_UNKNOWN) {
                t->sums.lost_unknown = true;
            } else {
                t->sums.lost += e->data[0];
            }
            break;
        }
    }
}

static gint most_records(gconstpointer a, gconstpointer b)
{
    const struct space *x = *(const struct space *const *)a;
    const struct space *y = *(const struct space *const *)b;

    return x->records != y->records ? (x->records < y->records ? 1 : -1) :
           x->key.cr3 < y->key.cr3 ? -1 : 1;
}

static char *model(const struct random_trace *t)
{
    struct tally sum = { .spaces = g_ptr_array_new() };
    size_t budget = SIZE_MAX;
    char *text;
    guint i;

    for (i = 0; i < t->streams->len; i++) {
        model_stream(&sum, &budget,
                     &g_array_index(t->streams, struct random_stream, i));
    }
    g_ptr_array_sort(sum.spaces, most_records);
    text = describe(&sum);
    for (i = 0; i < sum.spaces->len; i++) {
        struct space *s = sum.spaces->pdata[i];

        edges_free(s->group.edges);
        g_free(s);
    }
    tally_clear(&sum);
    return text;
}

static void test_all(void)
{
    unsigned i, k;

    for (i = 0; i < ROUNDS; i++) {
        struct random_trace *t = random_trace_new(1 + i % 3, 80);
        g_autofree char *want = model(t);

        for (k = 0; k < G_N_ELEMENTS(threads); k++) {
            g_autofree char *got = tally(t, threads[k], &no_limits);

            g_assert_cmpstr(got, ==, want);
        }
        random_trace_free(t);
    }
}

static uint64_t count_edges(const char *description)
{
    const char *p;
    uint64_t n = 0;

    for (p = description; (p = strstr(p, "\n ")); p++) {
        n += !g_str_has_prefix(p + 2, "others");
    }
    return n;
}

/*
 * What is left out for lack of room does not depend on the number of threads.
 * Nothing is left out where there is just enough room.
 */
static void test_limits(void)
{
    unsigned i, k, j;

    for (i = 0; i < ROUNDS; i++) {
        struct random_trace *t = random_trace_new(1 + i % 3, 80);
        g_autofree char *all = model(t);
        struct btrail_trace *trace;
        struct tally sum;
        size_t spaces, edges = count_edges(all);

        g_assert_cmpint(btrail_trace_open(&trace, t->path), ==, 0);
        g_assert_cmpint(tally_trace(&sum, trace, NULL, 1, &no_limits), ==, 0);
        spaces = sum.spaces->len;
        tally_clear(&sum);
        btrail_trace_close(trace);
        g_assert_cmpuint(spaces, >, 1);
        g_assert_cmpuint(edges, >, 2);

        for (j = 0; j < 5; j++) {
            const struct fold_limits limits[] = {
                { spaces, edges }, { spaces - 1, edges }, { spaces, edges - 1 },
                { 1, 1 }, { 0, edges / 2 },
            };
            g_autofree char *first = NULL;

            for (k = 0; k < G_N_ELEMENTS(threads); k++) {
                g_autofree char *got = tally(t, threads[k], &limits[j]);

                if (!k) {
                    first = g_strdup(got);
                }
                g_assert_cmpstr(got, ==, first);
                g_assert_cmpint(!strcmp(got, all), ==, !j);
            }
        }
        random_trace_free(t);
    }
}

/* The count of damage does not depend on the number of threads either. */
static void test_damage(void)
{
    unsigned i, k, v;

    for (i = 0; i < ROUNDS; i++) {
        struct random_trace *t = random_trace_new(2, 40);
        g_autofree char *first = NULL;

        for (v = 0; v < 2; v++) {
            struct random_stream *s =
                &g_array_index(t->streams, struct random_stream, v);

            for (k = 0; k < s->damaged->len; k++) {
                if (!k || !g_test_rand_int_range(0, 3)) {
                    random_trace_damage(t, v, k);
                }
            }
        }
        for (k = 0; k < G_N_ELEMENTS(threads); k++) {
            g_autofree char *got = tally(t, threads[k], &no_limits);

            if (!k) {
                first = g_strdup(got);
            }
            g_assert_cmpstr(got, ==, first);
            g_assert_false(g_str_has_suffix(strtok(got, "\n"), " 0"));
        }
        random_trace_free(t);
    }
}

static void test_io_error(void)
{
    struct random_trace *t = random_trace_new(2, 20);
    unsigned k;

    for (k = 0; k < G_N_ELEMENTS(threads); k++) {
        int fd = open(t->path, O_RDONLY), useless = open("/dev/null", O_WRONLY);
        struct btrail_trace *trace;
        struct tally sum;

        g_assert_cmpint(btrail_trace_open_fd(&trace, fd), ==, 0);
        g_assert_cmpint(dup2(useless, fd), ==, fd);
        errno = 0;
        g_assert_cmpint(tally_trace(&sum, trace, NULL, threads[k], &no_limits), ==,
                        -BTRAIL_ERR_IO);
        g_assert_cmpint(errno, ==, EBADF);
        g_assert_null(sum.spaces);
        btrail_trace_close(trace);
        close(useless);
    }
    random_trace_free(t);
}

/* One address space of three kernels, two of which leave it */
static void test_kernels(void)
{
    static const struct {
        uint16_t flags;
        uint16_t number;
    } steps[] = {
        { 0, 1 }, { BTRAIL_KERNEL_NESTED, 7 }, { 0, 1 }, { 0, 0 },
    };
    enum { EACH = 10, N = G_N_ELEMENTS(steps) };
    struct btrail_record records[N * EACH];
    struct btrail_event events[N];
    const struct btrail_slab slab = {
        .cr3 = 0x5000, .records = records, .n_records = N * EACH,
        .events = events, .n_events = N,
    };
    char *path = sample_path();
    struct btrail_writer *w;
    struct btrail_trace *trace;
    struct tally sum;
    uint64_t seen = 0;

    for (unsigned i = 0; i < N * EACH; i++) {
        records[i] = (struct btrail_record) { 0x100 + i, 0x200 + i, 0 };
    }
    for (unsigned i = 0; i < N; i++) {
        events[i] = (struct btrail_event) {
            .index = i * EACH, .type = BTRAIL_EVENT_KERNEL,
            .reason = steps[i].flags, .data = { steps[i].number },
        };
    }
    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(tally_trace(&sum, trace, NULL, 2, &no_limits), ==, 0);
    g_assert_cmpuint(sum.spaces->len, ==, 3);
    for (unsigned i = 0; i < 3; i++) {
        const struct space *s = sum.spaces->pdata[i];
        bool first = s->key.kernel == 1, nested = s->key.kernel == 7;

        g_assert_cmphex(s->key.cr3, ==, 0x5000);
        g_assert_true(first || nested || s->key.kernel == SYMBOLIZER_NO_KERNEL);
        seen += s->key.kernel;
        g_assert_cmpuint(s->records, ==, first ? 2 * EACH : EACH);
        g_assert_cmpuint(s->spans, ==, first ? 2 : 1);
        /* VMRUN, #VMEXIT; and kernel 1 is left again for none */
        for (unsigned j = 0; j < N * EACH; j++) {
            g_assert_cmpint(space_leaves(s, 0x100 + j, 0x200 + j), ==,
                            (first && (j == EACH - 1 || j == 3 * EACH - 1)) ||
                            (nested && j == 2 * EACH - 1));
        }
        g_assert_cmpint(space_leaves(s, 0x100 + EACH - 1, 0), ==, first);
        g_assert_cmpint(space_leaves(s, 0, 0x200 + 2 * EACH - 1), ==, nested);
    }
    g_assert_cmpuint(seen, ==, 1 + 7 + (uint64_t)SYMBOLIZER_NO_KERNEL);
    tally_clear(&sum);
    btrail_trace_close(trace);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/tally/all", test_all);
    g_test_add_func("/tally/limits", test_limits);
    g_test_add_func("/tally/damage", test_damage);
    g_test_add_func("/tally/io-error", test_io_error);
    g_test_add_func("/tally/kernels", test_kernels);
    return g_test_run();
}
