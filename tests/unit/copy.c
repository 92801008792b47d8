/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Copying chunks: what is left out or missing, and which events say so.  A
 * cursor reads the copy, and what it finds is written down in one line.
 */

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "backtrail/words.h"
#include "lib/agent/bytes.h"
#include "lib/internal/copy.h"
#include "trace-samples.h"

#define VCPU    2
#define RECORDS 10              /* of a chunk */

/**
 * struct piece - a chunk of a file that is copied
 * @silent: it has neither a TIME nor a CR3 event
 * @empty:  it has no records
 * @pause:  it has a PAUSE event
 * @end:    it has an END event
 *
 * Chunk i has records 10 * i and on, at time i + 1 and with CR3 0x1000 * (i +
 * 1), or as before if it is silent.
 */
struct piece {
    bool silent;
    bool empty;
    bool pause;
    bool end;
};

/* A file that is copied, open, and its chunks of vCPU 2 */
struct source {
    char *path;
    struct btrail_file *file;
    GArray *chunks;
};

/* Where chunks are copied to */
struct target {
    char *path;
    struct btrail_store *store;
};

static GArray *chunks_of(const struct btrail_file *f)
{
    unsigned place;
    struct btrail_trace_stream *s = btrail_find_stream(f->streams, VCPU,
                                                       &place);

    g_assert_nonnull(s);
    return s->chunks;
}

/* Makes a file of @n chunks, the first of which is number @first. */
static void make(struct source *s, unsigned first, uint16_t begin,
                 const struct piece *pieces, unsigned n)
{
    const struct btrail_writer_options options = {
        .flags = BTRAIL_WRITER_REPLACE, .begin = begin,
    };
    uint64_t index = RECORDS * first, cr3 = 0, time = 0;
    struct btrail_writer *w;

    s->path = sample_path();
    g_assert_cmpint(btrail_writer_open_with(&w, s->path, &options), ==, 0);
    for (unsigned i = 0; i < n; i++) {
        struct btrail_record records[RECORDS];
        struct btrail_event events[3];
        struct btrail_slab slab = {
            .first_index = index, .records = records, .events = events,
            .n_records = pieces[i].empty ? 0 : RECORDS,
        };

        for (unsigned k = 0; k < RECORDS; k++) {
            records[k] = (struct btrail_record) {
                .from = 0x1000 + index + k, .to = 0x2000 + index + k,
            };
        }
        if (!pieces[i].silent) {
            cr3 = 0x1000 * (first + i + 1);
            time = first + i + 1;
            events[slab.n_events++] = (struct btrail_event) {
                .index = index, .type = BTRAIL_EVENT_TIME,
                .data = { time, 0, BTRAIL_NO_ICOUNT },
            };
        }
        slab.cr3 = cr3;
        index += slab.n_records;
        if (pieces[i].pause) {
            events[slab.n_events++] = (struct btrail_event) {
                .index = index, .type = BTRAIL_EVENT_PAUSE,
                .reason = BTRAIL_PAUSE_OVERFLOW, .data = { time },
            };
        }
        if (pieces[i].end) {
            events[slab.n_events++] = (struct btrail_event) {
                .index = index, .type = BTRAIL_EVENT_END,
                .reason = BTRAIL_END_STOPPED, .data = { time },
            };
        }
        g_assert_cmpint(btrail_writer_append(w, VCPU, &slab), ==, 0);
        g_assert_cmpint(btrail_writer_flush(w), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_file_open(&s->file, open(s->path, O_RDONLY),
                                     false), ==, 0);
    s->chunks = chunks_of(s->file);
    g_assert_cmpuint(s->chunks->len, ==, n);
}

static void clear(struct source *s)
{
    btrail_file_close(s->file);
    sample_remove(s->path);
}

static void damage(const struct source *s, const struct btrail_index_entry *e)
{
    int fd = open(s->path, O_RDWR);
    uint64_t at = e->offset + BTRAIL_CHUNK_HEADER_SIZE + e->size / 2;
    uint8_t byte;

    g_assert_cmpint(pread(fd, &byte, 1, at), ==, 1);
    byte = ~byte;
    g_assert_cmpint(pwrite(fd, &byte, 1, at), ==, 1);
    close(fd);
}

static void open_target(struct target *t, uint16_t begin)
{
    struct btrail_store_options options = { .begin = begin };

    t->path = sample_path();
    options.path = t->path;
    options.replace = true;
    g_assert_cmpint(btrail_store_open(&t->store, &options), ==, 0);
}

/*
 * What a cursor finds in the copy: records as FIRST+COUNT, and events.  Damage
 * that it has found itself is in parentheses; what the header explains looks
 * like an event.
 */
static char *read_target(struct target *t)
{
    GString *text = g_string_new(NULL);
    struct btrail_cursor *cursor;
    struct btrail_trace *trace;
    struct btrail_batch b;
    int ret;

    g_assert_cmpint(btrail_store_close(t->store, NULL), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, t->path), ==, 0);
    g_assert_cmpint(btrail_cursor_open(&cursor, trace, VCPU, 0), ==, 0);
    while (!(ret = btrail_cursor_next(cursor, &b))) {
        const struct btrail_event *e = b.event;
        const char *reason = e ? btrail_reason_name(e->type, e->reason) : NULL;
        bool unknown = e && e->data[0] == BTRAIL_LOST_UNKNOWN;

        g_string_append(text, text->len ? " " : "");
        if (b.count) {
            g_assert_cmpuint(b.records[0].from, ==, 0x1000 + b.index);
            g_string_append_printf(text, "%d+%d", (int)b.index,
                                   (int)b.count);
        } else if (e->type == BTRAIL_EVENT_GAP) {
            g_string_append_printf(text, "%sgap:%s:%d%s",
                                   b.synthetic ? "(" : "", reason,
                                   unknown ? -1 : (int)e->data[0],
                                   b.synthetic ? ")" : "");
        } else if (e->type == BTRAIL_EVENT_TIME) {
            g_string_append_printf(text, "time:%d", (int)e->data[0]);
        } else if (e->type == BTRAIL_EVENT_CR3) {
            g_string_append_printf(text, "cr3:%x", (int)e->data[0]);
        } else if (e->type == BTRAIL_EVENT_PAUSE) {
            g_string_append(text, "pause");
        } else {
            g_assert_cmpint(e->type, ==, BTRAIL_EVENT_END);
            g_string_append_printf(text, "end:%s:%d", reason,
                                   (int)e->data[0]);
        }
    }
    g_assert_cmpint(ret, ==, -BTRAIL_ERR_END);
    btrail_cursor_close(cursor);
    btrail_trace_close(trace);
    sample_remove(t->path);
    return g_string_free(text, FALSE);
}

#define assert_target(t, expected)                      \
    do {                                                \
        g_autofree char *found = read_target(t);        \
                                                        \
        g_assert_cmpstr(found, ==, expected);           \
    } while (0)

static void copy_chunk(struct btrail_copy *c, const struct source *s,
                       unsigned i)
{
    g_assert_cmpint(btrail_copy_data(c, s->file, btrail_entry(s->chunks, i),
                                     !i), ==, 0);
}

static void end(struct btrail_copy *c, bool cut, bool unknown)
{
    g_assert_cmpint(btrail_copy_end(c, cut, unknown), ==, 0);
}

static void check_sum(const struct btrail_copy *c,
                      struct btrail_merge_result expected)
{
    const struct btrail_merge_result *sum = btrail_copy_sum(c);

    g_assert_cmpuint(sum->chunks, ==, expected.chunks);
    g_assert_cmpuint(sum->records, ==, expected.records);
    g_assert_cmpuint(sum->bad_chunks, ==, expected.bad_chunks);
    g_assert_cmpuint(sum->gaps, ==, expected.gaps);
    g_assert_cmpuint(sum->lost, ==, expected.lost);
    g_assert_true(sum->lost_unknown == expected.lost_unknown);
    g_assert_cmpuint(sum->ends, ==, expected.ends);
}

#define C0  "time:1 0+10"
#define C1  "cr3:2000 time:2 10+10"
#define C2  "cr3:3000 time:3 20+10"
#define C3  "cr3:4000 time:4 30+10"

static const struct piece three[] = { { 0 }, { 0 }, { .end = true } };

/* The bytes of a chunk */
static GBytes *chunk_bytes(const char *path, const struct btrail_index_entry *e)
{
    g_autofree char *content = NULL;
    size_t size;

    g_assert_true(g_file_get_contents(path, &content, &size, NULL));
    g_assert_cmpuint(e->offset + BTRAIL_CHUNK_HEADER_SIZE + e->size, <=,
                     size);
    return g_bytes_new(content + e->offset + BTRAIL_CHUNK_HEADER_SIZE,
                       e->size);
}

/* Chunks are copied as they are, and nothing is added. */
static void test_whole(void)
{
    struct btrail_copy *c;
    struct btrail_file *file;
    struct source s;
    struct target t;
    GArray *chunks;

    make(&s, 0, 0, three, 3);
    open_target(&t, 0);
    c = btrail_copy_new(t.store, 0, true);
    g_assert_false(btrail_copy_is_open(c));
    for (unsigned i = 0; i < 3; i++) {
        copy_chunk(c, &s, i);
        g_assert_true(btrail_copy_is_open(c) == (i < 2));
    }
    end(c, true, true);
    check_sum(c, (struct btrail_merge_result) { .chunks = 3, .records = 30 });
    btrail_copy_free(c);
    g_assert_cmpint(btrail_file_open(&file, open(t.path, O_RDONLY), false),
                    ==, 0);
    chunks = chunks_of(file);
    for (unsigned i = 0; i < 3; i++) {
        g_autoptr(GBytes) from = chunk_bytes(s.path,
                                             btrail_entry(s.chunks, i));
        g_autoptr(GBytes) to = chunk_bytes(t.path, btrail_entry(chunks, i));

        g_assert_true(g_bytes_equal(from, to));
    }
    btrail_file_close(file);
    assert_target(&t, C0 " " C1 " " C2 " end:stopped:3");
    clear(&s);
}

/* Without a store, it is only found out what could be copied. */
static void test_nowhere(void)
{
    struct btrail_copy *c = btrail_copy_new(NULL, 0, true);
    struct source s;
    struct target t;

    make(&s, 0, 0, three, 3);
    damage(&s, btrail_entry(s.chunks, 1));
    copy_chunk(c, &s, 0);
    copy_chunk(c, &s, 1);
    check_sum(c, (struct btrail_merge_result) {
        .chunks = 1, .records = 10, .bad_chunks = 1,
    });
    /* What comes now has a place to go to. */
    open_target(&t, 0);
    btrail_copy_to(c, t.store);
    copy_chunk(c, &s, 2);
    end(c, false, false);
    check_sum(c, (struct btrail_merge_result) {
        .chunks = 2, .records = 20, .bad_chunks = 1, .gaps = 1, .lost = 10,
    });
    btrail_copy_free(c);
    /* The first chunk is not here, and the second one nowhere. */
    assert_target(&t, "(gap:corrupt:10) gap:corrupt:10 cr3:2000 time:2 "
                  C2 " end:stopped:3");
    clear(&s);
}

/* A chunk is left out: the next one is as if nothing were missing. */
static void test_bad(void)
{
    static const struct piece silent[] = { { 0 }, { 0 }, { .silent = true } };

    for (unsigned i = 0; i < 3; i++) {
        struct btrail_copy *c;
        struct source s;
        struct target t;

        make(&s, 0, 0, silent, 3);
        open_target(&t, 0);
        c = btrail_copy_new(t.store, 0, false);
        copy_chunk(c, &s, 0);
        if (i == 0) {
            damage(&s, btrail_entry(s.chunks, 1));
            copy_chunk(c, &s, 1);
        } else if (i == 1) {
            /* It is sound, and somebody else knows better. */
            btrail_copy_bad_data(c, s.file, btrail_entry(s.chunks, 1), false);
        }
        copy_chunk(c, &s, 2);
        end(c, false, false);
        check_sum(c, (struct btrail_merge_result) {
            .chunks = 2, .records = 20, .bad_chunks = i < 2, .gaps = 1,
            .lost = 10,
        });
        btrail_copy_free(c);
        assert_target(&t, C0 " gap:corrupt:10 cr3:2000 time:2 20+10");
        clear(&s);
    }
}

static void test_bad_first(void)
{
    struct btrail_copy *c;
    struct source s;
    struct target t;

    make(&s, 0, 0, three, 3);
    damage(&s, btrail_entry(s.chunks, 0));
    damage(&s, btrail_entry(s.chunks, 1));
    open_target(&t, 0);
    c = btrail_copy_new(t.store, 0, false);
    for (unsigned i = 0; i < 3; i++) {
        copy_chunk(c, &s, i);
    }
    end(c, true, false);
    /* Two that follow each other are one gap. */
    check_sum(c, (struct btrail_merge_result) {
        .chunks = 1, .records = 10, .bad_chunks = 2, .gaps = 1, .lost = 20,
    });
    btrail_copy_free(c);
    assert_target(&t, "gap:corrupt:20 cr3:2000 time:2 " C2 " end:stopped:3");
    clear(&s);
}

/* What was added once is not added again. */
static void test_bad_twice(void)
{
    static const struct piece pieces[7] = { { 0 } };
    struct btrail_copy *c;
    struct source s;
    struct target t;

    make(&s, 0, 0, pieces, 7);
    damage(&s, btrail_entry(s.chunks, 1));
    damage(&s, btrail_entry(s.chunks, 4));
    open_target(&t, 0);
    c = btrail_copy_new(t.store, 0, false);
    for (unsigned i = 0; i < 7; i++) {
        copy_chunk(c, &s, i);
    }
    end(c, false, false);
    check_sum(c, (struct btrail_merge_result) {
        .chunks = 5, .records = 50, .bad_chunks = 2, .gaps = 2, .lost = 20,
    });
    btrail_copy_free(c);
    assert_target(&t, C0 " gap:corrupt:10 cr3:2000 time:2 " C2 " " C3
                  " gap:corrupt:10 cr3:5000 time:5 cr3:6000 time:6 50+10"
                  " cr3:7000 time:7 60+10");
    clear(&s);
}

/* Nothing but an event is damaged, and nothing has changed since. */
static void test_bad_pause(void)
{
    static const struct piece pieces[] = {
        { 0 }, { .silent = true, .empty = true, .pause = true },
        { .silent = true },
    };

    for (unsigned n = 2; n <= 3; n++) {
        struct btrail_copy *c;
        struct source s;
        struct target t;

        make(&s, 0, 0, pieces, n);
        damage(&s, btrail_entry(s.chunks, 1));
        open_target(&t, 0);
        c = btrail_copy_new(t.store, 0, false);
        for (unsigned i = 0; i < n; i++) {
            copy_chunk(c, &s, i);
        }
        end(c, false, false);
        check_sum(c, (struct btrail_merge_result) {
            .chunks = n - 1, .records = 10 * (n - 1), .bad_chunks = 1,
            .gaps = 1,
        });
        btrail_copy_free(c);
        assert_target(&t, n == 2 ? C0 " gap:corrupt:0" :
                      C0 " gap:corrupt:0 10+10");
        clear(&s);
    }
}

/* Where no record is missing, events may be. */
static void test_bad_events(void)
{
    static const struct piece pieces[] = {
        { 0 }, { .empty = true }, { .silent = true },
    };

    for (unsigned bad = 0; bad < 2; bad++) {
        struct btrail_copy *c;
        struct source s;
        struct target t;

        make(&s, 0, 0, pieces, 3);
        open_target(&t, 0);
        c = btrail_copy_new(t.store, 0, false);
        copy_chunk(c, &s, 0);
        if (bad) {
            damage(&s, btrail_entry(s.chunks, 1));
            copy_chunk(c, &s, 1);
        }
        copy_chunk(c, &s, 2);
        end(c, false, false);
        check_sum(c, (struct btrail_merge_result) {
            .chunks = 2, .records = 20, .bad_chunks = bad, .gaps = 1,
        });
        btrail_copy_free(c);
        assert_target(&t, C0 " gap:corrupt:0 cr3:2000 time:2 10+10");
        clear(&s);
    }
}

/* The END event was in what is left out. */
static void test_bad_last(void)
{
    for (unsigned cut = 0; cut < 2; cut++) {
        struct btrail_copy *c;
        struct source s;
        struct target t;

        make(&s, 0, 0, three, 3);
        damage(&s, btrail_entry(s.chunks, 2));
        open_target(&t, 0);
        c = btrail_copy_new(t.store, 0, false);
        for (unsigned i = 0; i < 3; i++) {
            copy_chunk(c, &s, i);
        }
        end(c, cut, false);
        g_assert_true(btrail_copy_is_open(c) == !cut);
        check_sum(c, (struct btrail_merge_result) {
            .chunks = 2, .records = 20, .bad_chunks = 1, .gaps = 1,
            .lost = 10, .ends = cut,
        });
        btrail_copy_free(c);
        assert_target(&t, cut ? C0 " " C1 " gap:corrupt:10 end:cut:2" :
                      C0 " " C1 " gap:corrupt:10");
        clear(&s);
    }
}

/* It was cut off, and nobody knows where it would have ended. */
static void test_cut(void)
{
    for (unsigned cut = 0; cut < 2; cut++) {
        struct btrail_copy *c;
        struct source s;
        struct target t;

        make(&s, 0, 0, three, 2);
        open_target(&t, 0);
        c = btrail_copy_new(t.store, 0, false);
        copy_chunk(c, &s, 0);
        copy_chunk(c, &s, 1);
        end(c, cut, true);
        check_sum(c, (struct btrail_merge_result) {
            .chunks = 2, .records = 20, .gaps = cut, .lost_unknown = cut,
            .ends = cut,
        });
        btrail_copy_free(c);
        assert_target(&t, cut ? C0 " " C1 " gap:corrupt:-1 end:cut:2" :
                      C0 " " C1);
        clear(&s);
    }
}

/**
 * struct joint - two files, of which the second says why something is missing
 * @first:  has this many chunks
 * @bad:    the last chunk of the first file is damaged
 * @second: begins with this chunk, and has one more if it is
 * @bad_second: damaged
 * @reason: in the header of the second file
 * @begin:  in that of the copy
 * @from:   the first file begins with this chunk, and says why as the second
 * @empty:  its last chunk has only a PAUSE event
 */
struct joint {
    unsigned first;
    bool bad;
    unsigned second;
    bool bad_second;
    uint16_t reason, begin;
    const char *found;
    struct btrail_merge_result sum;
    unsigned from;
    bool empty;
};

static void test_elsewhere(void)
{
    static const struct joint joints[] = {
        { 1, false, 3, false, BTRAIL_GAP_ELSEWHERE, 0,
          C0 " gap:elsewhere:20 cr3:4000 time:4 30+10",
          { .chunks = 2, .records = 20, .gaps = 1, .lost = 20 } },
        /* There is nothing before, and the copy does not say why. */
        { 0, false, 3, false, BTRAIL_GAP_ELSEWHERE, 0,
          "gap:elsewhere:30 cr3:4000 time:4 30+10",
          { .chunks = 1, .records = 10, .gaps = 1, .lost = 30 } },
        /* The header of the copy says it. */
        { 0, false, 3, false, BTRAIL_GAP_ELSEWHERE, BTRAIL_GAP_ELSEWHERE,
          "gap:elsewhere:30 time:4 30+10",
          { .chunks = 1, .records = 10 } },
        /* It says something else. */
        { 0, false, 3, false, BTRAIL_GAP_AGENT_LOST, BTRAIL_GAP_ELSEWHERE,
          "gap:agent-lost:30 cr3:4000 time:4 30+10",
          { .chunks = 1, .records = 10, .gaps = 1, .lost = 30 } },
        /* Readers trust no header that says this. */
        { 0, false, 3, false, BTRAIL_GAP_CORRUPT, BTRAIL_GAP_CORRUPT,
          "gap:corrupt:30 cr3:4000 time:4 30+10",
          { .chunks = 1, .records = 10, .gaps = 1, .lost = 30 } },
        /* Some is damaged, and then some is elsewhere. */
        { 2, true, 3, false, BTRAIL_GAP_ELSEWHERE, 0,
          C0 " gap:corrupt:10 gap:elsewhere:10 cr3:4000 time:4 30+10",
          { .chunks = 2, .records = 20, .bad_chunks = 1, .gaps = 2,
            .lost = 20 } },
        /* Nothing is elsewhere. */
        { 2, true, 2, false, BTRAIL_GAP_ELSEWHERE, 0,
          C0 " gap:corrupt:10 cr3:3000 time:3 20+10",
          { .chunks = 2, .records = 20, .bad_chunks = 1, .gaps = 1,
            .lost = 10 } },
        /* Some is elsewhere, and then some is damaged. */
        { 1, false, 2, true, BTRAIL_GAP_ELSEWHERE, 0,
          C0 " gap:elsewhere:10 gap:corrupt:10 cr3:3000 time:3 " C3,
          { .chunks = 2, .records = 20, .bad_chunks = 1, .gaps = 2,
            .lost = 20 } },
        { 0, false, 2, true, BTRAIL_GAP_ELSEWHERE, BTRAIL_GAP_ELSEWHERE,
          "gap:elsewhere:20 gap:corrupt:10 cr3:3000 time:3 " C3,
          { .chunks = 1, .records = 10, .bad_chunks = 1, .gaps = 1,
            .lost = 10 } },
        /* The second file has what is damaged in the first one, but events. */
        { 2, true, 1, false, BTRAIL_GAP_ELSEWHERE, 0,
          C0 " gap:corrupt:0 cr3:2000 time:2 10+10",
          { .chunks = 2, .records = 20, .bad_chunks = 1, .gaps = 1 } },
        /* The header of the copy is about what is before the first record. */
        { 1, false, 3, false, BTRAIL_GAP_ELSEWHERE, BTRAIL_GAP_ELSEWHERE,
          "gap:elsewhere:10 time:2 10+10 gap:elsewhere:10 cr3:4000 time:4"
          " 30+10",
          { .chunks = 2, .records = 20, .gaps = 1, .lost = 10 }, .from = 1 },
        { 1, true, 3, false, BTRAIL_GAP_ELSEWHERE, BTRAIL_GAP_ELSEWHERE,
          "gap:elsewhere:10 gap:corrupt:10 gap:elsewhere:10 cr3:4000 time:4"
          " 30+10",
          { .chunks = 1, .records = 10, .bad_chunks = 1, .gaps = 2,
            .lost = 20 }, .from = 1 },
        { 1, true, 3, false, BTRAIL_GAP_ELSEWHERE, BTRAIL_GAP_ELSEWHERE,
          "gap:elsewhere:10 gap:elsewhere:20 gap:corrupt:0 cr3:4000 time:4"
          " 30+10",
          { .chunks = 1, .records = 10, .bad_chunks = 1, .gaps = 2,
            .lost = 20 }, .from = 1, .empty = true },
    };
    static const struct piece pause[] = {
        { .silent = true, .empty = true, .pause = true },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(joints); i++) {
        const struct joint *j = &joints[i];
        struct source first, second;
        struct btrail_copy *c;
        struct target t;

        open_target(&t, j->begin);
        c = btrail_copy_new(t.store, j->begin, false);
        if (j->first) {
            make(&first, j->from, j->from ? j->reason : 0,
                 j->empty ? pause : three, j->first);
            if (j->bad) {
                damage(&first, btrail_entry(first.chunks, j->first - 1));
            }
            for (unsigned k = 0; k < j->first; k++) {
                copy_chunk(c, &first, k);
            }
            clear(&first);
        }
        make(&second, j->second, j->reason, three, 1 + j->bad_second);
        if (j->bad_second) {
            damage(&second, btrail_entry(second.chunks, 0));
        }
        for (unsigned k = 0; k <= j->bad_second; k++) {
            copy_chunk(c, &second, k);
        }
        clear(&second);
        end(c, false, false);
        check_sum(c, j->sum);
        btrail_copy_free(c);
        assert_target(&t, j->found);
    }
}

/* Only a file's first chunk of a stream is where its header says why. */
static void test_not_first(void)
{
    struct btrail_copy *c;
    struct source s;
    struct target t;

    make(&s, 3, BTRAIL_GAP_ELSEWHERE, three, 1);
    open_target(&t, 0);
    c = btrail_copy_new(t.store, 0, false);
    g_assert_cmpint(btrail_copy_data(c, s.file, btrail_entry(s.chunks, 0),
                                     false), ==, 0);
    end(c, false, false);
    btrail_copy_free(c);
    assert_target(&t, "gap:corrupt:30 cr3:4000 time:4 30+10");
    clear(&s);
    /* A header that says nothing is no reason either. */
    make(&s, 0, 0, three, 2);
    open_target(&t, 0);
    c = btrail_copy_new(t.store, 0, false);
    g_assert_cmpint(btrail_copy_data(c, s.file, btrail_entry(s.chunks, 1),
                                     true), ==, 0);
    end(c, false, false);
    btrail_copy_free(c);
    assert_target(&t, "gap:corrupt:10 cr3:1000 time:1 " C1);
    clear(&s);
}

/*
 * Spoils a section of a chunk: in its payload there are a header of 88 bytes,
 * no address spaces, a table with two sizes for each of thirteen sections, and
 * these.
 */
static void spoil(uint8_t *payload, size_t len, unsigned section)
{
    size_t at = 88 + 13 * 8, size;

    g_assert_cmpuint(btrail_get32(payload + 80), ==, 0);
    for (unsigned i = 0; i < section; i++) {
        at += btrail_get32(payload + 88 + 8 * i + 4);
    }
    size = btrail_get32(payload + 88 + 8 * section + 4);
    g_assert_cmpuint(size, >, 0);
    g_assert_cmpuint(at + size, <=, len);
    memset(payload + at, 0xff, size);
}

/* What only its records show is found by those who decode them. */
static void test_decode(void)
{
    /* Of misses, which is not compressed, and of lengths, which is */
    static const unsigned sections[] = { 0, 4 };

    for (unsigned i = 0; i < G_N_ELEMENTS(sections); i++) {
        struct btrail_unpacker *unpacker = btrail_unpacker_new();
        struct btrail_buf payload = { 0 };
        struct btrail_block_header header;
        struct source s;
        struct target t;

        make(&s, 0, 0, three, 1);
        g_assert_cmpint(btrail_file_load_chunk(
                            s.file, btrail_entry(s.chunks, 0), &payload,
                            unpacker, false, &header), ==, 0);
        clear(&s);
        spoil(payload.data, payload.len, sections[i]);
        /* The checksum of what is written is right all the same. */
        open_target(&t, 0);
        g_assert_cmpint(btrail_store_data(t.store, payload.data, payload.len,
                                          &header), ==, 0);
        g_assert_cmpint(btrail_store_close(t.store, NULL), ==, 0);
        btrail_buf_free(&payload);
        btrail_unpacker_free(unpacker);
        s.path = t.path;
        g_assert_cmpint(btrail_file_open(&s.file, open(s.path, O_RDONLY),
                                         false), ==, 0);
        s.chunks = chunks_of(s.file);
        for (unsigned decode = 0; decode < 2; decode++) {
            struct btrail_copy *c = btrail_copy_new(NULL, 0, decode);

            copy_chunk(c, &s, 0);
            check_sum(c, (struct btrail_merge_result) {
                .chunks = !decode, .records = decode ? 0 : RECORDS,
                .bad_chunks = decode,
            });
            btrail_copy_free(c);
        }
        clear(&s);
    }
}

/* A stream has all its records in a file before, and ends here. */
static void test_follow(void)
{
    static const char *const ends[] = {
        "gap:elsewhere:20 end:cut:2", "gap:elsewhere:20 end:cut:0",
    };
    struct btrail_copy *c;
    struct source s;
    struct target t;

    for (unsigned bad = 0; bad < 2; bad++) {
        make(&s, 0, 0, three, 2);
        if (bad) {
            damage(&s, btrail_entry(s.chunks, 1));
        }
        open_target(&t, BTRAIL_GAP_ELSEWHERE);
        c = btrail_copy_new(t.store, BTRAIL_GAP_ELSEWHERE, false);
        g_assert_cmpint(btrail_copy_follow(c, s.file,
                                           btrail_entry(s.chunks, 1)), ==, 0);
        g_assert_true(btrail_copy_is_open(c));
        end(c, true, false);
        check_sum(c, (struct btrail_merge_result) { .ends = 1 });
        btrail_copy_free(c);
        assert_target(&t, ends[bad]);
        clear(&s);
    }
    /* It has ended there. */
    make(&s, 0, 0, three, 3);
    c = btrail_copy_new(NULL, BTRAIL_GAP_ELSEWHERE, false);
    g_assert_cmpint(btrail_copy_follow(c, s.file, btrail_entry(s.chunks, 2)),
                    ==, 0);
    g_assert_false(btrail_copy_is_open(c));
    end(c, true, true);
    check_sum(c, (struct btrail_merge_result) { 0 });
    btrail_copy_free(c);
    clear(&s);
}

static void test_sideband(void)
{
    const struct btrail_writer_options options = {
        .flags = BTRAIL_WRITER_REPLACE,
    };
    struct btrail_file *from, *to;
    struct btrail_copy *c;
    struct source s;
    struct target t;

    s.path = sample_path();
    sample_write_sideband(s.path, 3, &options);
    g_assert_cmpint(btrail_file_open(&from, open(s.path, O_RDONLY), false),
                    ==, 0);
    g_assert_cmpuint(from->sideband->len, ==, 3);
    damage(&s, btrail_entry(from->sideband, 1));
    open_target(&t, 0);
    c = btrail_copy_new(t.store, 0, false);
    for (unsigned i = 0; i < 3; i++) {
        g_assert_cmpint(btrail_copy_sideband(c, from,
                                             btrail_entry(from->sideband, i)),
                        ==, 0);
    }
    end(c, true, true);
    check_sum(c, (struct btrail_merge_result) { .bad_chunks = 1 });
    btrail_copy_free(c);
    g_assert_cmpint(btrail_store_close(t.store, NULL), ==, 0);
    g_assert_cmpint(btrail_file_open(&to, open(t.path, O_RDONLY), false), ==,
                    0);
    g_assert_cmpuint(to->sideband->len, ==, 2);
    for (unsigned i = 0; i < 2; i++) {
        g_autoptr(GBytes) was = chunk_bytes(
            s.path, btrail_entry(from->sideband, 2 * i));
        g_autoptr(GBytes) is = chunk_bytes(t.path,
                                           btrail_entry(to->sideband, i));

        g_assert_true(g_bytes_equal(was, is));
    }
    btrail_file_close(to);
    btrail_file_close(from);
    sample_remove(s.path);
    sample_remove(t.path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/copy/whole", test_whole);
    g_test_add_func("/copy/nowhere", test_nowhere);
    g_test_add_func("/copy/bad", test_bad);
    g_test_add_func("/copy/bad/first", test_bad_first);
    g_test_add_func("/copy/bad/twice", test_bad_twice);
    g_test_add_func("/copy/bad/pause", test_bad_pause);
    g_test_add_func("/copy/bad/events", test_bad_events);
    g_test_add_func("/copy/bad/last", test_bad_last);
    g_test_add_func("/copy/cut", test_cut);
    g_test_add_func("/copy/elsewhere", test_elsewhere);
    g_test_add_func("/copy/elsewhere/not-first", test_not_first);
    g_test_add_func("/copy/decode", test_decode);
    g_test_add_func("/copy/follow", test_follow);
    g_test_add_func("/copy/sideband", test_sideband);
    return g_test_run();
}
