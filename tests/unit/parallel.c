/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Decoding with several threads gives what cursors give, in order where that is
 * requested, whatever the number of threads, also of damaged traces.
 */

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "random-trace.h"
#include "trace-samples.h"

#define ROUNDS  10

/* What has come, piece by piece */
struct taken {
    const struct random_trace *t;
    unsigned threads;
    bool ordered;
    GThread *thread;            /* that of the caller */
    GString **pieces;
    bool *ended, *bad;
    unsigned last;              /* piece, if they are ordered */
    int busy[BTRAIL_MAX_THREADS];
    unsigned calls;
    unsigned stop_after;        /* calls; 0: never */
};

static struct random_stream *stream(const struct random_trace *t, unsigned i)
{
    return &g_array_index(t->streams, struct random_stream, i);
}

/* Pieces of all streams before this one */
static unsigned base(const struct random_trace *t, unsigned i)
{
    return i ? base(t, i - 1) + stream(t, i - 1)->damaged->len : 0;
}

static void describe(GString *text, const struct btrail_batch *b)
{
    size_t i;

    if (b->event) {
        g_string_append_printf(text, "e%u @%" G_GUINT64_FORMAT " before %"
                               G_GUINT64_FORMAT " %" G_GUINT64_FORMAT "\n",
                               b->event->type, b->event->index, b->index,
                               b->event->data[0]);
    }
    for (i = 0; i < b->count; i++) {
        g_string_append_printf(text, "%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT
                               " %" G_GINT64_MODIFIER "x %" G_GUINT64_FORMAT
                               "\n", b->index + i,
                               b->records ? b->records[i].from : 0, b->cr3,
                               b->time.host);
    }
}

static int take(void *opaque, const struct btrail_piece *p,
                const struct btrail_batch *b)
{
    struct taken *taken = opaque;
    unsigned i = base(taken->t, p->vcpu / 3) + p->number;
    unsigned calls = __atomic_add_fetch(&taken->calls, 1, __ATOMIC_SEQ_CST);

    /* Neither worker nor piece is here twice at the same time. */
    g_assert_cmpuint(p->worker, <, taken->threads);
    g_assert_cmpint(g_atomic_int_add(&taken->busy[p->worker], 1), ==, 0);
    g_assert_false(taken->ended[i]);
    if (taken->ordered) {
        g_assert_true(g_thread_self() == taken->thread);
        g_assert_cmpuint(i, ==, taken->last);
        taken->last += !b;
    }
    if (b) {
        g_assert_false(p->bad);
        describe(taken->pieces[i], b);
    } else {
        taken->ended[i] = true;
        taken->bad[i] = p->bad;
    }
    g_atomic_int_add(&taken->busy[p->worker], -1);
    return taken->stop_after && calls >= taken->stop_after ? 7 : 0;
}

static void taken_init(struct taken *taken, const struct random_trace *t,
                       unsigned flags, unsigned threads)
{
    unsigned n = base(t, t->streams->len), i;

    *taken = (struct taken) {
        .t = t,
        .threads = threads,
        .ordered = flags & BTRAIL_PARALLEL_ORDERED,
        .thread = g_thread_self(),
        .pieces = g_new0(GString *, n + 1),
        .ended = g_new0(bool, n + 1),
        .bad = g_new0(bool, n + 1),
    };
    for (i = 0; i < n; i++) {
        taken->pieces[i] = g_string_new(NULL);
    }
}

static void taken_clear(struct taken *taken)
{
    unsigned i;

    for (i = 0; i < base(taken->t, taken->t->streams->len); i++) {
        g_string_free(taken->pieces[i], TRUE);
    }
    g_free(taken->pieces);
    g_free(taken->ended);
    g_free(taken->bad);
}

/* What a cursor returns of a stream */
static char *read_stream(struct btrail_trace *trace, unsigned vcpu,
                         unsigned flags)
{
    GString *text = g_string_new(NULL);
    struct btrail_cursor *cursor;
    struct btrail_batch b;

    g_assert_cmpint(btrail_cursor_open(&cursor, trace, vcpu, flags), ==, 0);
    while (!btrail_cursor_next(cursor, &b)) {
        describe(text, &b);
    }
    btrail_cursor_close(cursor);
    return g_string_free(text, FALSE);
}

/* The pieces together are what cursors return. */
static void check(const struct random_trace *t, unsigned flags,
                  unsigned threads)
{
    struct btrail_trace *trace;
    struct taken taken;
    unsigned i, k;

    taken_init(&taken, t, flags, threads);
    g_assert_cmpint(btrail_trace_open(&trace, t->path), ==, 0);
    g_assert_cmpint(btrail_parallel_decode(trace, NULL, 0, flags, threads,
                                           take, &taken), ==, 0);
    for (i = 0; i < t->streams->len; i++) {
        g_autofree char *want =
            read_stream(trace, 3 * i, flags & BTRAIL_PARALLEL_CHECK_ONLY ?
                        BTRAIL_CURSOR_COUNTS_ONLY :
                        flags & ~BTRAIL_PARALLEL_ORDERED);
        g_autoptr(GString) got = g_string_new(NULL);

        for (k = base(t, i); k < base(t, i + 1); k++) {
            g_assert_true(taken.ended[k]);
            g_assert_false(taken.bad[k]);
            g_string_append_len(got, taken.pieces[k]->str,
                                taken.pieces[k]->len);
        }
        g_assert_cmpstr(got->str, ==, want);
    }
    btrail_trace_close(trace);
    taken_clear(&taken);
}

static void test_all(void)
{
    static const unsigned threads[] = { 1, 2, 3, 9 };
    static const unsigned flags[] = {
        0, BTRAIL_CURSOR_EVENTS_ONLY, BTRAIL_CURSOR_COUNTS_ONLY,
        BTRAIL_PARALLEL_CHECK_ONLY,
    };
    unsigned i, j, k;

    for (i = 0; i < ROUNDS; i++) {
        struct random_trace *t = random_trace_new(1 + i % 3, 60);

        for (j = 0; j < G_N_ELEMENTS(threads); j++) {
            for (k = 0; k < G_N_ELEMENTS(flags); k++) {
                check(t, flags[k], threads[j]);
                check(t, flags[k] | BTRAIL_PARALLEL_ORDERED, threads[j]);
            }
        }
        random_trace_free(t);
    }
}

static int compare(void *opaque, const struct btrail_piece *p,
                   const struct btrail_batch *b)
{
    const struct btrail_record **next = opaque;

    if (b && b->count) {
        g_assert_cmpmem(b->records, b->count * sizeof(*b->records), *next,
                        b->count * sizeof(*b->records));
        *next += b->count;
    }
    return 0;
}

/* More than one chunk of the full size, so that threads meet. */
static void test_large(void)
{
    static const unsigned threads[] = { 1, 4 };
    g_autofree struct btrail_record *records =
        g_new(struct btrail_record, 5u << 20);
    char *path = sample_path();
    struct btrail_writer *w;
    struct btrail_slab slab = { .records = records, .n_records = 5u << 20 };
    struct btrail_trace *trace;
    unsigned i;
    size_t k;

    for (k = 0; k < slab.n_records; k++) {
        records[k] = (struct btrail_record) { k / 3, k % 1000, 0 };
    }
    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_append(w, 1, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    for (i = 0; i < G_N_ELEMENTS(threads); i++) {
        const struct btrail_record *next = records;

        g_assert_cmpint(btrail_parallel_decode(trace, NULL, 0,
                                               BTRAIL_PARALLEL_ORDERED,
                                               threads[i], compare, &next),
                        ==, 0);
        g_assert_true(next == records + slab.n_records);
    }
    btrail_trace_close(trace);
    sample_remove(path);
}

/*
 * Every record of sound chunks comes, damaged ones are said to be, and GAP
 * events account for all that is missing.
 */
static void test_damaged(void)
{
    unsigned i, j, k, v;

    for (i = 0; i < ROUNDS; i++) {
        struct random_trace *t = random_trace_new(2, 40);
        struct btrail_trace *trace;

        for (v = 0; v < 2; v++) {
            for (k = 0; k < stream(t, v)->damaged->len; k++) {
                if (!g_test_rand_int_range(0, 3)) {
                    random_trace_damage(t, v, k);
                }
            }
        }
        g_assert_cmpint(btrail_trace_open(&trace, t->path), ==, 0);
        for (j = 0; j < 4; j++) {
            unsigned flags = (j & 1 ? BTRAIL_PARALLEL_ORDERED : 0) |
                             (j & 2 ? BTRAIL_PARALLEL_CHECK_ONLY : 0);
            struct taken taken;

            taken_init(&taken, t, flags, 3);
            g_assert_cmpint(btrail_parallel_decode(trace, NULL, 0, flags, 3,
                                                   take, &taken), ==, 0);
            for (v = 0; v < 2; v++) {
                const struct random_stream *s = stream(t, v);
                g_autofree char *whole = read_stream(trace, s->vcpu, 0);

                for (k = 0; k < s->damaged->len; k++) {
                    const char *text = taken.pieces[base(t, v) + k]->str;
                    bool bad = g_array_index(s->damaged, bool, k);

                    g_assert_true(taken.ended[base(t, v) + k]);
                    g_assert_cmpint(taken.bad[base(t, v) + k], ==, bad);
                    if (bad) {
                        /* One GAP event, or none if it had no records */
                        g_assert_true(!*text ||
                                      (g_str_has_prefix(text, "e3 ") &&
                                       strchr(text, '\n')[1] == '\0'));
                    } else if (!(j & 2)) {
                        g_assert_nonnull(strstr(whole, text));
                    }
                }
            }
            taken_clear(&taken);
        }
        btrail_trace_close(trace);
        random_trace_free(t);
    }
}

/* The function ends it, and is not called any more once it has ended. */
static void test_stop(void)
{
    struct random_trace *t = random_trace_new(2, 60);
    struct btrail_trace *trace;
    unsigned i, j;

    g_assert_cmpint(btrail_trace_open(&trace, t->path), ==, 0);
    for (j = 0; j < 2; j++) {
        unsigned flags = j ? BTRAIL_PARALLEL_ORDERED : 0;

        for (i = 1; i < 60; i++) {
            struct taken taken;
            unsigned calls;

            taken_init(&taken, t, flags, 4);
            taken.stop_after = i;
            g_assert_cmpint(btrail_parallel_decode(trace, NULL, 0, flags, 4,
                                                   take, &taken), ==, 7);
            calls = taken.calls;
            g_assert_cmpuint(calls, >=, i);
            /* Each of the others may have been in it. */
            g_assert_cmpuint(calls, <=, j ? i : i + 3);
            taken_clear(&taken);
        }
    }
    btrail_trace_close(trace);
    random_trace_free(t);
}

/* A file that can be opened and then not be read */
static void test_io_error(void)
{
    struct random_trace *t = random_trace_new(2, 20);
    unsigned i;

    for (i = 0; i < 2; i++) {
        int fd = open(t->path, O_RDONLY), useless = open("/dev/null", O_WRONLY);
        unsigned flags = i ? BTRAIL_PARALLEL_ORDERED : 0;
        struct btrail_trace *trace;
        struct taken taken;

        g_assert_cmpint(btrail_trace_open_fd(&trace, fd), ==, 0);
        g_assert_cmpint(dup2(useless, fd), ==, fd);
        taken_init(&taken, t, flags, 2);
        errno = 0;
        g_assert_cmpint(btrail_parallel_decode(trace, NULL, 0, flags, 2, take,
                                               &taken), ==, -BTRAIL_ERR_IO);
        g_assert_cmpint(errno, ==, EBADF);
        g_assert_cmpuint(taken.calls, ==, 0);
        taken_clear(&taken);
        btrail_trace_close(trace);
        close(useless);
    }
    random_trace_free(t);
}

static void test_some_streams(void)
{
    static const unsigned some[] = { 6, 0 };
    struct random_trace *t = random_trace_new(3, 20);
    struct btrail_trace *trace;
    struct taken taken;
    unsigned k;

    taken_init(&taken, t, 0, 2);
    g_assert_cmpint(btrail_trace_open(&trace, t->path), ==, 0);
    g_assert_cmpint(btrail_parallel_decode(trace, some, 2, 0, 2, take, &taken),
                    ==, 0);
    for (k = 0; k < base(t, 3); k++) {
        g_assert_cmpint(taken.ended[k], ==, k < base(t, 1) || k >= base(t, 2));
    }
    btrail_trace_close(trace);
    taken_clear(&taken);
    random_trace_free(t);
}

static void test_arguments(void)
{
    static const unsigned twice[] = { 3, 3 }, missing[] = { 1 };
    char *path = sample_path();
    struct btrail_trace *trace;

    sample_write(path, 1);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_parallel_decode(NULL, NULL, 0, 0, 1, take, NULL),
                    ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_parallel_decode(trace, NULL, 1, 0, 1, take, NULL),
                    ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_parallel_decode(trace, twice, 0, 0, 1, take, NULL),
                    ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_parallel_decode(trace, twice, 2, 0, 1, take, NULL),
                    ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_parallel_decode(trace, missing, 1, 0, 1, take,
                                           NULL), ==, -BTRAIL_ERR_STREAM);
    g_assert_cmpint(btrail_parallel_decode(trace, NULL, 0, 0x80, 1, take,
                                           NULL), ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_parallel_decode(trace, NULL, 0, 0, 0, take, NULL),
                    ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_parallel_decode(trace, NULL, 0, 0,
                                           BTRAIL_MAX_THREADS + 1, take,
                                           NULL), ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_parallel_decode(trace, NULL, 0, 0, 1, NULL, NULL),
                    ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpuint(btrail_parallel_threads(), >=, 1);
    g_assert_cmpuint(btrail_parallel_threads(), <=, BTRAIL_MAX_THREADS);
    btrail_trace_close(trace);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/parallel/all", test_all);
    g_test_add_func("/parallel/large", test_large);
    g_test_add_func("/parallel/damaged", test_damaged);
    g_test_add_func("/parallel/stop", test_stop);
    g_test_add_func("/parallel/io-error", test_io_error);
    g_test_add_func("/parallel/some-streams", test_some_streams);
    g_test_add_func("/parallel/arguments", test_arguments);
    return g_test_run();
}
