/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of symbolize/runs.h: runs and events of traces with task switches
 */
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "backtrail/transport.h"
#include "symbolize/runs.h"

#define KERNEL      UINT64_C(0xffffffff81000000)
#define CODE        (KERNEL + 0x5000)
#define USER        UINT64_C(0x401000)

static const struct runs_symbols symbols = {
    .switch_to = KERNEL + 0x100, .lazy = KERNEL + 0x200,
    .switch_mm = KERNEL + 0x300, .idle = {
        { KERNEL + 0x400, KERNEL + 0x500 }, { KERNEL + 0x600, KERNEL + 0x610 },
    },
    .birth = KERNEL + 0x700, .clone = KERNEL + 0x800, .exit = KERNEL + 0x900,
    .start = { KERNEL + 0xa00, KERNEL + 0xb00 },
};

static char *path;

/* What is written of one vCPU, and what kind each record is of */
struct stream {
    struct btrail_writer *writer;
    unsigned vcpu;
    uint64_t cr3;
    uint64_t index;
    uint64_t begin;             /* of what is not written yet */
    GArray *records;
    GArray *kinds;
};

static void stream_init(struct stream *s, struct btrail_writer *w,
                        unsigned vcpu)
{
    memset(s, 0, sizeof(*s));
    s->writer = w;
    s->vcpu = vcpu;
    s->cr3 = 0x1000;
    s->records = g_array_new(FALSE, FALSE, sizeof(struct btrail_record));
    s->kinds = g_array_new(FALSE, FALSE, sizeof(enum run_kind));
}

static void stream_clear(struct stream *s)
{
    g_array_unref(s->records);
    g_array_unref(s->kinds);
}

/* Make a chunk of what there is; @lost records are missing before it. */
static void flush(struct stream *s, uint64_t lost)
{
    struct btrail_event events[2] = {
        { .index = s->begin, .type = BTRAIL_EVENT_TIME,
          .data = { 1000 + s->begin, 0, BTRAIL_NO_ICOUNT } },
    };
    struct btrail_slab slab = {
        .first_index = s->begin, .cr3 = s->cr3,
        .records = (const struct btrail_record *)s->records->data,
        .n_records = s->records->len, .events = events, .n_events = 1,
    };

    if (lost) {
        events[1] = events[0];
        events[0] = (struct btrail_event) {
            .index = s->begin, .type = BTRAIL_EVENT_GAP,
            .reason = BTRAIL_GAP_OVERFLOW, .data = { lost },
        };
        slab.n_events = 2;
    }
    g_assert_cmpint(btrail_writer_append(s->writer, s->vcpu, &slab), ==, 0);
    g_array_set_size(s->records, 0);
    s->begin = s->index;
}

static void put(struct stream *s, uint64_t from, uint64_t to,
                enum run_kind kind)
{
    struct btrail_record r = { from, to, 0 };

    g_array_append_val(s->records, r);
    g_array_append_val(s->kinds, kind);
    s->index++;
}

static void check(const struct runs *r, const struct stream *s)
{
    uint64_t i;

    for (i = 0; i < s->index; i++) {
        struct run run = runs_find(r, s->vcpu, i);

        g_assert_cmpuint(run.kind, ==,
                         g_array_index(s->kinds, enum run_kind, i));
        g_assert_cmpuint(run.first, <=, i);
        g_assert_cmpuint(run.end, >, i);
    }
}

static struct runs *find_until(struct btrail_writer *w, const uint64_t *until,
                               unsigned threads)
{
    struct btrail_trace *trace;
    struct runs *r;

    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    r = runs_new(trace, until, &symbols, threads);
    g_assert_nonnull(r);
    btrail_trace_close(trace);
    return r;
}

static struct runs *find(struct btrail_writer *w, unsigned threads)
{
    return find_until(w, NULL, threads);
}

static struct btrail_writer *begin(void)
{
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==,
                    0);
    return w;
}

/* One task after the other, in chunks that end anywhere */
static void tasks(struct stream *s, unsigned n)
{
    enum run_kind kind = RUN_UNKNOWN;
    unsigned i, k;

    for (i = 0; i < n; i++) {
        enum run_kind next = g_test_rand_int_range(RUN_USER, RUN_IDLE + 1);
        unsigned length = g_test_rand_int_range(0, 20);
        unsigned user = g_test_rand_int_range(0, 20);

        for (k = 0; k < length; k++) {
            if (kind == RUN_IDLE && k == length / 2) {
                put(s, CODE, symbols.idle[i & 1].start + 4, kind);
            } else if (kind == RUN_USER && k == user) {
                put(s, CODE, USER, kind);
                put(s, USER, USER + 4, kind);
                put(s, USER, CODE, kind);
            } else {
                put(s, CODE, CODE + k, kind);
            }
            if (g_test_rand_int_range(0, 10) == 0) {
                flush(s, 0);
            }
        }
        if (kind == RUN_IDLE && !length) {
            put(s, CODE, symbols.idle[0].end - 1, kind);
        }
        /* As a task ends, or the kernel takes somebody's page tables */
        if (g_test_rand_bit()) {
            put(s, CODE, g_test_rand_bit() ? symbols.lazy : symbols.switch_mm,
                kind);
        }
        put(s, CODE, next == RUN_USER ? symbols.switch_mm : symbols.lazy,
            kind);
        if (g_test_rand_int_range(0, 5) == 0) {
            flush(s, 0);
        }
        put(s, CODE, symbols.switch_to, kind);
        kind = next;
    }
}

static void test_random(void)
{
    struct btrail_writer *w = begin();
    struct stream streams[2];
    struct runs *r;
    unsigned i;

    for (i = 0; i < 2; i++) {
        stream_init(&streams[i], w, 3 * i);
        tasks(&streams[i], 3000);
        flush(&streams[i], 0);
    }
    r = find(w, 3);
    for (i = 0; i < 2; i++) {
        check(r, &streams[i]);
        stream_clear(&streams[i]);
    }
    g_assert_cmpuint(runs_find(r, 1, 5).kind, ==, RUN_UNKNOWN);
    g_assert_cmpuint(runs_find(r, 5000, 5).kind, ==, RUN_UNKNOWN);
    runs_free(r);
    runs_free(NULL);
}

/* Events name the tasks of one stream from a switch on, those of one always. */
static void test_until(void)
{
    uint64_t until[BTRAIL_MAX_VCPUS] = { [0] = UINT64_MAX };
    struct btrail_writer *w = begin();
    struct stream streams[3];
    enum run_kind unknown = RUN_UNKNOWN;
    struct runs *r;
    unsigned i;

    for (i = 0; i < 3; i++) {
        stream_init(&streams[i], w, i);
        tasks(&streams[i], 200);
        if (i == 1) {
            until[i] = streams[i].index;
            tasks(&streams[i], 200);
        }
        flush(&streams[i], 0);
        for (uint64_t k = until[i]; k < streams[i].index; k++) {
            g_array_index(streams[i].kinds, enum run_kind, k) = unknown;
        }
    }
    r = find_until(w, until, 2);
    for (i = 0; i < 3; i++) {
        check(r, &streams[i]);
        stream_clear(&streams[i]);
    }
    runs_free(r);
}

/* Only the beginning can be read of what is searched. */
static void test_damaged(void)
{
    uint64_t until[BTRAIL_MAX_VCPUS] = { 0 };
    enum run_kind unknown = RUN_UNKNOWN;
    struct btrail_writer *w = begin();
    struct stream s;
    struct runs *r;
    uint64_t sound;
    GStatBuf before, after;
    FILE *f;

    stream_init(&s, w, 0);
    tasks(&s, 200);
    flush(&s, 0);
    g_assert_cmpint(btrail_writer_flush(w), ==, 0);
    g_assert_cmpint(g_stat(path, &before), ==, 0);
    sound = s.index;
    tasks(&s, 200);
    until[0] = s.index - 1;
    flush(&s, 0);
    g_assert_cmpint(btrail_writer_flush(w), ==, 0);
    g_assert_cmpint(g_stat(path, &after), ==, 0);
    for (uint64_t k = sound; k < s.index; k++) {
        g_array_index(s.kinds, enum run_kind, k) = unknown;
    }
    f = fopen(path, "r+");
    g_assert_nonnull(f);
    g_assert_cmpint(fseek(f, (before.st_size + after.st_size) / 2, SEEK_SET),
                    ==, 0);
    g_assert_cmpuint(fwrite("damaged", 7, 1, f), ==, 1);
    g_assert_cmpint(fclose(f), ==, 0);
    r = find_until(w, until, 1);
    check(r, &s);
    g_assert_cmpuint(runs_find(r, 0, sound - 1).kind, !=, RUN_UNKNOWN);
    runs_free(r);
    stream_clear(&s);
}

/* What tells at the beginning, and after a hole */
static void test_unknown(void)
{
    struct btrail_writer *w = begin();
    struct stream s;
    struct runs *r;
    const struct run_event *events;
    struct run run;
    size_t n;

    stream_init(&s, w, 0);
    put(&s, CODE, symbols.switch_mm, RUN_UNKNOWN);
    put(&s, CODE, CODE, RUN_UNKNOWN);
    put(&s, CODE, symbols.switch_to, RUN_UNKNOWN);
    /* A thread of the kernel that becomes a program */
    put(&s, CODE, CODE, RUN_USER);
    put(&s, CODE, symbols.lazy, RUN_USER);
    put(&s, CODE, symbols.switch_to, RUN_USER);
    put(&s, CODE, CODE, RUN_KERNEL);
    put(&s, CODE, USER, RUN_USER);
    put(&s, USER, CODE, RUN_USER);
    put(&s, CODE, symbols.lazy, RUN_USER);
    flush(&s, 0);
    /* The switch is missing. */
    s.index += 5;
    s.begin += 5;
    g_array_set_size(s.kinds, s.kinds->len + 5);
    put(&s, CODE, CODE, RUN_UNKNOWN);
    put(&s, CODE, symbols.switch_to, RUN_UNKNOWN);
    put(&s, CODE, CODE, RUN_UNKNOWN);
    put(&s, CODE, USER, RUN_USER);
    flush(&s, 5);
    r = find(w, 1);
    run = runs_find(r, 0, 4);
    g_assert_cmpuint(run.first, ==, 3);
    g_assert_cmpuint(run.end, ==, 6);
    g_assert_cmphex(run.cr3, ==, 0x1000);
    g_assert_cmpuint(run.time, ==, 1000);
    g_assert_cmpuint(runs_find(r, 0, 6).kind, ==, RUN_KERNEL);
    g_assert_cmpuint(runs_find(r, 0, 7).kind, ==, RUN_USER);
    g_assert_cmpuint(runs_find(r, 0, 9).kind, ==, RUN_USER);
    g_assert_cmpuint(runs_find(r, 0, 15).kind, ==, RUN_UNKNOWN);
    g_assert_cmpuint(runs_find(r, 0, 17).kind, ==, RUN_UNKNOWN);
    g_assert_cmpuint(runs_find(r, 0, 18).kind, ==, RUN_USER);
    g_assert_cmpuint(runs_find(r, 0, 18).first, ==, 18);
    g_assert_cmphex(runs_find(r, 0, 18).cr3, ==, 0);
    g_assert_false(runs_events(r, &events, &n));
    runs_free(r);
    stream_clear(&s);
}

static void test_events(void)
{
    struct btrail_writer *w = begin();
    const struct run_event *events;
    struct stream s;
    struct runs *r;
    size_t n;

    stream_init(&s, w, 2);
    put(&s, CODE, symbols.clone, RUN_UNKNOWN);
    put(&s, CODE, symbols.switch_mm, RUN_UNKNOWN);
    put(&s, CODE, symbols.switch_to, RUN_UNKNOWN);
    put(&s, CODE, symbols.birth, RUN_USER);
    put(&s, CODE, symbols.clone, RUN_USER);
    flush(&s, 0);
    put(&s, CODE, symbols.exit, RUN_USER);
    put(&s, CODE, symbols.lazy, RUN_USER);
    put(&s, CODE, symbols.switch_to, RUN_USER);
    put(&s, CODE, symbols.birth, RUN_KERNEL);
    put(&s, CODE, symbols.exit, RUN_KERNEL);
    flush(&s, 0);
    r = find(w, 1);
    check(r, &s);
    g_assert_true(runs_events(r, &events, &n));
    g_assert_cmpuint(n, ==, 3);
    g_assert_cmpint(events[0].kind, ==, RUN_BIRTH);
    g_assert_cmpuint(events[0].vcpu, ==, 2);
    g_assert_cmpuint(events[0].index, ==, 3);
    g_assert_cmphex(events[0].cr3, ==, 0x1000);
    g_assert_cmpint(events[1].kind, ==, RUN_CLONE);
    g_assert_cmpint(events[2].kind, ==, RUN_EXIT);
    g_assert_cmpuint(events[2].index, ==, 5);
    g_assert_cmpuint(events[2].time, ==, 1005);
    runs_free(r);
    stream_clear(&s);
}

/*
 * A kernel begins with its idle task, until it switches to another one, or it
 * is not known whether it has.
 */
static void test_boot(void)
{
    struct btrail_writer *w = begin();
    struct stream s, other;
    struct runs *r;

    stream_init(&s, w, 0);
    stream_init(&other, w, 1);
    put(&s, CODE, symbols.start[0] + 0x10, RUN_UNKNOWN);
    put(&s, CODE, symbols.start[0], RUN_UNKNOWN);
    put(&s, symbols.start[0], CODE, RUN_IDLE);
    flush(&s, 0);
    put(&s, CODE, CODE, RUN_IDLE);
    put(&s, CODE, symbols.lazy, RUN_IDLE);
    put(&s, CODE, symbols.switch_to, RUN_IDLE);
    put(&s, CODE, CODE, RUN_KERNEL);
    flush(&s, 0);
    /* It boots again, */
    put(&s, CODE, symbols.start[0], RUN_KERNEL);
    put(&s, CODE, CODE, RUN_IDLE);
    flush(&s, 0);
    /* and what is lost may have been a switch. */
    s.begin = ++s.index;
    g_array_set_size(s.kinds, s.kinds->len + 1);
    g_array_index(s.kinds, enum run_kind, s.begin - 1) = RUN_UNKNOWN;
    put(&s, CODE, CODE, RUN_UNKNOWN);
    flush(&s, 1);
    /* Another CPU begins with an idle task, too. */
    put(&other, CODE, CODE, RUN_UNKNOWN);
    put(&other, CODE, symbols.start[1], RUN_UNKNOWN);
    put(&other, CODE, CODE, RUN_IDLE);
    flush(&other, 0);
    r = find(w, 2);
    check(r, &s);
    check(r, &other);
    runs_free(r);
    stream_clear(&s);
    stream_clear(&other);
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    path = g_strdup_printf("%s/backtrail-runs-%d.btrail", g_get_tmp_dir(),
                           (int)getpid());
    g_test_add_func("/runs/random", test_random);
    g_test_add_func("/runs/until", test_until);
    g_test_add_func("/runs/damaged", test_damaged);
    g_test_add_func("/runs/unknown", test_unknown);
    g_test_add_func("/runs/events", test_events);
    g_test_add_func("/runs/boot", test_boot);
    ret = g_test_run();
    g_unlink(path);
    g_free(path);
    return ret;
}
