/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Cursors: seeking to indices, times and address spaces, against a list of all
 * items, and reading only events or counts.
 */

#include <fcntl.h>
#include <unistd.h>

#include "lib/internal/scan.h"
#include "trace-samples.h"

#define CHUNKS      5
#define RECORDS     (CHUNKS * SAMPLE_CHUNK_RECORDS)
#define END_INDEX   (RECORDS + SAMPLE_LOST)

static struct btrail_trace *trace;

/* All batches from here on, as one text: what a reader sees */
static char *describe(struct btrail_cursor *cursor, uint64_t from)
{
    GString *text = g_string_new(NULL);
    struct btrail_batch b;
    int ret;

    while (!(ret = btrail_cursor_next(cursor, &b))) {
        size_t i;

        if (b.event) {
            if (MAX(b.event->index, b.index) >= from) {
                g_string_append_printf(text, "e%u@%" G_GUINT64_FORMAT "\n",
                                       b.event->type, b.event->index);
            }
            continue;
        }
        for (i = 0; i < b.count; i++) {
            if (b.index + i >= from) {
                g_string_append_printf(text, "%" G_GUINT64_FORMAT " %"
                                       G_GINT64_MODIFIER "x %"
                                       G_GINT64_MODIFIER "x %"
                                       G_GUINT64_FORMAT " %u %u%s%s\n",
                                       b.index + i, b.cr3, b.records[i].from,
                                       b.time.host, b.task.tid,
                                       b.kernel.number,
                                       b.kernel.nested ? " nested" : "",
                                       b.leaves && i + 1 == b.count ?
                                       " leaves" : "");
                g_assert_true(b.task.known == (b.task.tid != 0));
            }
        }
    }
    g_assert_cmpint(ret, ==, -BTRAIL_ERR_END);
    return g_string_free(text, FALSE);
}

/* Reading from an index on gives what reading from the start gives there. */
static void test_seek(void)
{
    struct btrail_cursor *cursor, *fresh;
    uint64_t index;

    g_assert_cmpint(btrail_cursor_open(&cursor, trace, 3, 0), ==, 0);
    for (index = 0; index <= END_INDEX + 2; index++) {
        g_autofree char *want = NULL, *got = NULL;

        g_assert_cmpint(btrail_cursor_open(&fresh, trace, 3, 0), ==, 0);
        want = describe(fresh, index);
        btrail_cursor_close(fresh);
        g_assert_cmpint(btrail_cursor_seek(cursor, index), ==, 0);
        got = describe(cursor, 0);
        g_assert_cmpstr(got, ==, want);
    }
    btrail_cursor_close(cursor);
}

/*
 * The same from wherever a cursor has got to: most seeks go on in the chunk
 * that it has read a part of.
 */
static void test_seek_on(void)
{
    struct btrail_cursor *cursor, *fresh;
    struct btrail_batch b;
    uint64_t index = 0;

    g_assert_cmpint(btrail_cursor_open(&cursor, trace, 3, 0), ==, 0);
    for (unsigned i = 0; i < 3000; i++) {
        g_autofree char *want = NULL, *got = NULL;
        unsigned read = g_test_rand_int_range(0, 6);

        index = g_test_rand_int_range(0, 10) ?
                index + g_test_rand_int_range(0, 40) :
                (uint64_t)g_test_rand_int_range(0, END_INDEX);
        g_assert_cmpint(btrail_cursor_seek(cursor, index), ==, 0);
        while (read-- && !btrail_cursor_next(cursor, &b)) {
            index = MAX(index, b.event ? b.index : b.index + b.count);
        }
        index += g_test_rand_int_range(0, 40);
        g_assert_cmpint(btrail_cursor_open(&fresh, trace, 3, 0), ==, 0);
        g_assert_cmpint(btrail_cursor_seek(fresh, index), ==, 0);
        g_assert_cmpint(btrail_cursor_seek(cursor, index), ==, 0);
        for (unsigned n = g_test_rand_int_range(0, 8); n; n--) {
            struct btrail_batch a;
            int ret = btrail_cursor_next(fresh, &a);

            g_assert_cmpint(btrail_cursor_next(cursor, &b), ==, ret);
            if (ret) {
                break;
            }
            g_assert_cmpuint(a.index, ==, b.index);
            g_assert_cmpuint(a.count, ==, b.count);
            g_assert_cmpuint(a.cr3, ==, b.cr3);
            g_assert_cmpuint(a.time.host, ==, b.time.host);
            g_assert_cmpuint(a.task.tid, ==, b.task.tid);
            g_assert_cmpuint(a.kernel.number, ==, b.kernel.number);
            g_assert_true(!a.event == !b.event && (!a.event || !memcmp(
                a.event, b.event, sizeof(*a.event))));
            g_assert_cmpmem(a.records, a.count * sizeof(*a.records),
                            b.records, b.count * sizeof(*b.records));
        }
        if (!(i % 64)) {
            want = describe(fresh, 0);
            got = describe(cursor, 0);
            g_assert_cmpstr(got, ==, want);
        }
        btrail_cursor_close(fresh);
    }
    btrail_cursor_close(cursor);
}

/* The kernel that runs from each record on, and whether the one before leaves
 * another */
static const struct kernel_step {
    uint16_t flags;
    uint16_t number;
    bool left;
} kernel_steps[] = {
    { 0, 1, false },
    { 0, 1, false },
    { BTRAIL_KERNEL_NESTED, 0, true },
    { BTRAIL_KERNEL_NESTED, 0, false },
    { 0, 1, true },
    { 0, 2, true },
    { 0, 0, true },
    { BTRAIL_KERNEL_UNKNOWN, 0, false },
    { 0, 2, false },
    { BTRAIL_KERNEL_UNKNOWN, 0, false },
    { BTRAIL_KERNEL_NESTED, 3, true },
    { BTRAIL_KERNEL_UNKNOWN, 0, true },
};

static void test_leaves(void)
{
    enum { N = G_N_ELEMENTS(kernel_steps) };
    struct btrail_record records[2 * N];
    struct btrail_event events[3 * N];
    struct btrail_slab slab = {
        .records = records, .n_records = 2 * N, .events = events,
    };
    char *path = sample_path();
    struct btrail_writer *w;
    struct btrail_trace *t;
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    bool leaves[2 * N + 1] = { false };
    uint64_t done = 0;

    for (unsigned i = 0; i < 2 * N; i++) {
        const struct kernel_step *step = &kernel_steps[i / 2];

        records[i] = (struct btrail_record) { i, i, 0 };
        if (i % 2) {
            continue;
        }
        /* A nested guest has a CR3 of its own, and there may be a time. */
        for (unsigned j = 0; j < 3; j++) {
            events[slab.n_events++] = (struct btrail_event) {
                .index = i,
                .type = j == 0 ? BTRAIL_EVENT_CR3 :
                        j == 1 ? BTRAIL_EVENT_KERNEL : BTRAIL_EVENT_TIME,
                .reason = j == 1 ? step->flags : 0,
                .data = { j == 1 ? step->number : 0x1000 * i },
            };
        }
    }
    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&t, path), ==, 0);
    g_assert_cmpint(btrail_cursor_open(&cursor, t, 0, 0), ==, 0);
    while (!btrail_cursor_next(cursor, &b)) {
        done += b.count;
        leaves[done] |= b.leaves;
        g_assert_true(b.count || !b.leaves);
    }
    g_assert_cmpuint(done, ==, 2 * N);
    for (unsigned i = 0; i <= 2 * N; i++) {
        g_assert_cmpint(leaves[i], ==,
                        i % 2 == 0 && i < 2 * N && kernel_steps[i / 2].left);
    }
    btrail_cursor_close(cursor);
    btrail_trace_close(t);
    sample_remove(path);
}

/* Tasks of nested guests have numbers that others have, too. */
static void test_nested_tasks(void)
{
    static const struct {
        struct kernel_step kernel;
        uint16_t nested;
    } steps[] = {
        { { 0, 1 }, 0 }, { { BTRAIL_KERNEL_NESTED, 2 }, 2 },
        { { BTRAIL_KERNEL_NESTED, 3 }, 3 }, { { 0, 1 }, 0 },
        { { BTRAIL_KERNEL_NESTED, 0 }, 0 }, { { BTRAIL_KERNEL_UNKNOWN, 0 }, 0 },
    };
    enum { STEPS = G_N_ELEMENTS(steps) };
    struct btrail_record records[STEPS] = { { 0 } };
    struct btrail_event events[2 * STEPS];
    struct btrail_slab slab = {
        .records = records, .n_records = STEPS, .events = events,
        .n_events = 2 * STEPS,
    };
    char *path = sample_path();
    struct btrail_writer *w;
    struct btrail_trace *t;
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    unsigned done = 0;

    for (unsigned i = 0; i < STEPS; i++) {
        events[2 * i] = (struct btrail_event) {
            .index = i, .type = BTRAIL_EVENT_KERNEL,
            .reason = steps[i].kernel.flags,
            .data = { steps[i].kernel.number },
        };
        events[2 * i + 1] = (struct btrail_event) {
            .index = i, .type = BTRAIL_EVENT_TASK, .data = { 5 },
        };
    }
    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&t, path), ==, 0);
    g_assert_cmpint(btrail_cursor_open(&cursor, t, 0, 0), ==, 0);
    while (!btrail_cursor_next(cursor, &b)) {
        for (unsigned i = 0; i < b.count; i++) {
            g_assert_cmpuint(b.task.tid, ==, 5);
            g_assert_cmpuint(b.task.nested, ==, steps[done].nested);
            done++;
        }
    }
    g_assert_cmpuint(done, ==, STEPS);
    btrail_cursor_close(cursor);
    btrail_trace_close(t);
    sample_remove(path);
}

/*
 * A stream with everything that makes it hard to find a moment: no TIME event
 * at first, several in a chunk, none in others, holes, events of one index.
 */
static char *write_random(bool one_chunk)
{
    uint64_t index = 0, clock = 0, cr3 = 0;
    char *path = sample_path();
    struct btrail_writer *w;
    unsigned i, j;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (i = 0; i < (one_chunk ? 200 : 60); i++) {
        unsigned n = g_test_rand_int_range(0, 30), k = 0;
        struct btrail_record records[30];
        struct btrail_event events[60];
        struct btrail_slab slab = {
            .cr3 = cr3, .records = records, .n_records = n, .events = events,
        };

        index += i && !g_test_rand_int_range(0, 4) ? 5 : 0;
        slab.first_index = index;
        for (j = 0; j <= n; j++) {
            while (!g_test_rand_int_range(0, 8) && k < G_N_ELEMENTS(events)) {
                struct btrail_event *e = &events[k++];

                *e = (struct btrail_event) { .index = index + j };
                if (g_test_rand_bit() && i > 5) {
                    clock += g_test_rand_int_range(0, 3);
                    e->type = BTRAIL_EVENT_TIME;
                    e->data[0] = clock;
                } else if (!g_test_rand_int_range(0, 3)) {
                    e->type = BTRAIL_EVENT_KERNEL;
                    e->reason = g_test_rand_int_range(0, 3);
                    e->data[0] = g_test_rand_int_range(0, 3);
                } else if (!g_test_rand_int_range(0, 3)) {
                    e->type = BTRAIL_EVENT_TASK;
                    e->data[0] = g_test_rand_int_range(1, 5);
                } else {
                    /* With other bits that do not matter */
                    cr3 = g_test_rand_int_range(0, one_chunk ? 100 : 20) << 12;
                    cr3 |= g_test_rand_int_range(0, 3);
                    if (g_test_rand_bit()) {
                        cr3 |= BTRAIL_CR3_PAE | (cr3 >> 12 & 3) << 5;
                    }
                    e->type = BTRAIL_EVENT_CR3;
                    e->data[0] = cr3;
                }
            }
            if (j < n) {
                records[j] = (struct btrail_record) { index + j, j, 0 };
            }
        }
        slab.n_events = k;
        g_assert_cmpint(btrail_writer_append(w, 7, &slab), ==, 0);
        index += n;
        if (!one_chunk && g_test_rand_bit()) {
            g_assert_cmpint(btrail_writer_flush(w), ==, 0);
        }
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    return path;
}

/*
 * What is to be read from a moment on: all from the first item on at which
 * that time is in force.
 */
static char *describe_from_time(struct btrail_trace *t, unsigned vcpu,
                                uint64_t host)
{
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    uint64_t skipped = 0;
    char *all, *p;

    g_assert_cmpint(btrail_cursor_open(&cursor, t, vcpu, 0), ==, 0);
    while (!btrail_cursor_next(cursor, &b) && b.time.host < host) {
        skipped += b.event ? 1 : b.count;
    }
    g_assert_cmpint(btrail_cursor_seek(cursor, 0), ==, 0);
    all = describe(cursor, 0);
    btrail_cursor_close(cursor);
    for (p = all; skipped; skipped--) {
        p = strchr(p, '\n') + 1;
    }
    p = g_strdup(p);
    g_free(all);
    return p;
}

static void check_seek_time(struct btrail_trace *t, unsigned vcpu,
                            uint64_t step)
{
    struct btrail_stream_info info;
    struct btrail_cursor *cursor;
    unsigned n = 0;
    uint64_t host;

    do {
        g_assert_cmpint(btrail_trace_stream(t, n++, &info), ==, 0);
    } while (info.vcpu != vcpu);
    g_assert_cmpint(btrail_cursor_open(&cursor, t, vcpu, 0), ==, 0);
    for (host = 0; host <= info.last_time + 2 * step; host += step) {
        g_autofree char *want = describe_from_time(t, vcpu, host);
        g_autofree char *got = NULL;

        g_assert_cmpint(btrail_cursor_seek_time(cursor, host), ==, 0);
        got = describe(cursor, 0);
        g_assert_cmpstr(got, ==, want);
        g_assert_true(host <= info.last_time || !*got);
    }
    btrail_cursor_close(cursor);
}

static void test_seek_time(void)
{
    unsigned i;

    check_seek_time(trace, 0, 500000);
    for (i = 0; i < 8; i++) {
        char *path = write_random(i == 7);
        struct btrail_trace *t;

        g_assert_cmpint(btrail_trace_open(&t, path), ==, 0);
        check_seek_time(t, 7, 1);
        btrail_trace_close(t);
        sample_remove(path);
    }
}

/* Where an address space comes into force: what to read before that place */
struct place {
    uint64_t root;
    uint64_t index;
    unsigned items;
};

/* All places, as one finds them by reading on and on */
static GArray *find_places(struct btrail_trace *t, unsigned vcpu)
{
    GArray *places = g_array_new(FALSE, FALSE, sizeof(struct place));
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    uint64_t root = UINT64_MAX;
    unsigned items = 0;

    g_assert_cmpint(btrail_cursor_open(&cursor, t, vcpu, 0), ==, 0);
    while (!btrail_cursor_next(cursor, &b)) {
        struct place place = { .index = b.index, .items = items };
        items += b.event ? 1 : b.count;
        if (b.synthetic) {
            place.index = b.event->index;
            place.items = items;
            root = UINT64_MAX;
        }
        if (!place.items && b.event && b.event->type == BTRAIL_EVENT_CR3) {
            /* What is before it cannot be seen; write_random() begins so. */
            root = 0;
            g_array_append_val(places, place);
        }
        place.root = btrail_cr3_root(b.cr3);
        if (place.root != root) {
            g_array_append_val(places, place);
            root = place.root;
        }
    }
    btrail_cursor_close(cursor);
    return places;
}

static const struct place *find_place(const GArray *places, uint64_t root,
                                      uint64_t index, bool previous)
{
    const struct place *found = NULL;
    unsigned i;

    for (i = 0; i < places->len; i++) {
        const struct place *p = &g_array_index(places, struct place, i);

        if (p->root == root && previous && p->index < index) {
            found = p;
        } else if (p->root == root && !previous && p->index >= index) {
            return p;
        }
    }
    return found;
}

static void check_seek_cr3(struct btrail_trace *t, unsigned vcpu,
                           uint64_t roots)
{
    g_autoptr(GArray) places = find_places(t, vcpu);
    struct btrail_cursor *cursor;
    g_autofree char *all = NULL;
    struct btrail_stream_info info;
    unsigned i, n = 0;

    do {
        g_assert_cmpint(btrail_trace_stream(t, n++, &info), ==, 0);
    } while (info.vcpu != vcpu);
    g_assert_cmpint(btrail_cursor_open(&cursor, t, vcpu, 0), ==, 0);
    all = describe(cursor, 0);
    for (i = 0; i < 600; i++) {
        uint64_t number = g_test_rand_int_range(0, roots);
        uint64_t root = g_test_rand_bit() ? number << 12 :
                        BTRAIL_CR3_PAE | number << 12 | (number & 3) << 5;
        uint64_t index = g_test_rand_int_range(0, info.end_index + 2);
        bool previous = g_test_rand_bit();
        const struct place *want = find_place(places, root, index, previous);
        int ret = btrail_cursor_seek_cr3(cursor, root | 0x6000000000000001,
                                         index, previous ?
                                         BTRAIL_SEEK_PREVIOUS : 0);
        g_autofree char *got = describe(cursor, 0);
        const char *rest = all;
        unsigned skip;

        g_assert_cmpint(ret, ==, want ? 0 : -BTRAIL_ERR_END);
        for (skip = want ? want->items : previous ? 0 : UINT_MAX;
             skip && *rest; skip--) {
            rest = strchr(rest, '\n') + 1;
        }
        g_assert_cmpstr(got, ==, rest);
    }
    btrail_cursor_close(cursor);
}

/* Take some chunks out of a file, its index as well. */
static void make_holes(const char *path)
{
    g_autofree char *bytes = NULL;
    GByteArray *kept = g_byte_array_new();
    struct btrail_trace_status status;
    struct btrail_trace *t;
    struct btrail_scan_chunk chunk;
    struct btrail_scan scan;
    int fd = open(path, O_RDONLY);
    gsize len;

    g_assert_cmpint(fd, >=, 0);
    g_assert_true(g_file_get_contents(path, &bytes, &len, NULL));
    g_byte_array_append(kept, (uint8_t *)bytes, BTRAIL_FILE_HEADER_SIZE);
    btrail_scan_begin(&scan, fd, BTRAIL_FILE_HEADER_SIZE, len);
    while (!btrail_scan_next(&scan, &chunk)) {
        if (g_test_rand_int_range(0, 4) &&
            chunk.header.type == BTRAIL_CHUNK_DATA) {
            g_byte_array_append(kept, (uint8_t *)bytes + chunk.offset,
                                BTRAIL_CHUNK_HEADER_SIZE +
                                chunk.header.size);
        }
    }
    btrail_scan_free(&scan);
    close(fd);
    g_assert_true(g_file_set_contents(path, (char *)kept->data, kept->len,
                                      NULL));
    g_byte_array_unref(kept);
    g_assert_cmpint(btrail_trace_open(&t, path), ==, 0);
    btrail_trace_status(t, &status);
    g_assert_false(status.indexed);
    g_assert_cmpuint(status.missing_chunks, >, 0);
    btrail_trace_close(t);
}

static void test_seek_cr3(void)
{
    unsigned i;

    for (i = 0; i < 9; i++) {
        char *path = write_random(i == 8);
        struct btrail_trace *t;

        if (i % 2) {
            make_holes(path);
        }
        g_assert_cmpint(btrail_trace_open(&t, path), ==, 0);
        check_seek_cr3(t, 7, i == 8 ? 101 : 21);
        btrail_trace_close(t);
        sample_remove(path);
    }
}

static void test_events_only(void)
{
    struct btrail_cursor *all, *events;
    struct btrail_batch a, e;
    int ret;

    g_assert_cmpint(btrail_cursor_open(&all, trace, 0, 0), ==, 0);
    g_assert_cmpint(btrail_cursor_open(&events, trace, 0,
                                       BTRAIL_CURSOR_EVENTS_ONLY), ==, 0);
    while (!(ret = btrail_cursor_next(all, &a))) {
        if (a.event) {
            g_assert_cmpint(btrail_cursor_next(events, &e), ==, 0);
            g_assert_cmpmem(a.event, sizeof(*a.event), e.event,
                            sizeof(*e.event));
            g_assert_cmpuint(a.index, ==, e.index);
            g_assert_cmphex(a.cr3, ==, e.cr3);
            g_assert_cmpuint(a.time.host, ==, e.time.host);
        }
    }
    g_assert_cmpint(btrail_cursor_next(events, &e), ==, -BTRAIL_ERR_END);
    btrail_cursor_close(all);
    btrail_cursor_close(events);
}

static void test_counts_only(void)
{
    struct btrail_cursor *all, *counts;
    struct btrail_batch a, c = { 0 };
    size_t left = 0;
    int ret;

    g_assert_cmpint(btrail_cursor_open(&all, trace, 0, 0), ==, 0);
    g_assert_cmpint(btrail_cursor_open(&counts, trace, 0,
                                       BTRAIL_CURSOR_COUNTS_ONLY), ==, 0);
    while (!(ret = btrail_cursor_next(all, &a))) {
        if (!left) {
            g_assert_cmpint(btrail_cursor_next(counts, &c), ==, 0);
            left = c.count;
            g_assert_null(c.records);
        }
        g_assert_cmphex(a.cr3, ==, c.cr3);
        g_assert_cmpuint(a.time.host, ==, c.time.host);
        g_assert_cmpuint(a.index, ==, c.index + c.count - left);
        if (a.event) {
            g_assert_cmpmem(a.event, sizeof(*a.event), c.event,
                            sizeof(*c.event));
        } else {
            g_assert_cmpuint(a.count, <=, left);
            left -= a.count;
        }
    }
    g_assert_cmpuint(left, ==, 0);
    g_assert_cmpint(btrail_cursor_next(counts, &c), ==, -BTRAIL_ERR_END);

    /* In the middle of a batch */
    g_assert_cmpint(btrail_cursor_seek(counts, 3), ==, 0);
    do {
        g_assert_cmpint(btrail_cursor_next(counts, &c), ==, 0);
    } while (c.event);
    g_assert_cmpuint(c.index, ==, 3);
    g_assert_cmpuint(c.count, ==, SAMPLE_CHUNK_RECORDS / 2 - 3);
    g_assert_null(c.records);
    btrail_cursor_close(all);
    btrail_cursor_close(counts);
}

static void test_arguments(void)
{
    struct btrail_cursor *cursor = NULL;
    struct btrail_batch b;

    g_assert_cmpint(btrail_cursor_open(&cursor, trace, 1, 0), ==,
                    -BTRAIL_ERR_STREAM);
    g_assert_cmpint(btrail_cursor_open(NULL, trace, 0, 0), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_cursor_open(&cursor, NULL, 0, 0), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_cursor_open(&cursor, trace, 0, 0x80), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_null(cursor);
    g_assert_cmpint(btrail_cursor_next(NULL, &b), ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_cursor_seek(NULL, 0), ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_cursor_seek_time(NULL, 0), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_cursor_seek_cr3(NULL, 0, 0, 0), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_cursor_open(&cursor, trace, 0, 0), ==, 0);
    g_assert_cmpint(btrail_cursor_seek_cr3(cursor, 0, 0, 2), ==,
                    -BTRAIL_ERR_ARGUMENT);
    btrail_cursor_close(cursor);
    g_assert_cmpuint(btrail_cursor_bad_chunks(NULL), ==, 0);
    btrail_cursor_close(NULL);
}

int main(int argc, char **argv)
{
    char *path = NULL;
    int ret;

    g_test_init(&argc, &argv, NULL);
    path = sample_path();
    sample_write(path, CHUNKS);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_test_add_func("/cursor/seek", test_seek);
    g_test_add_func("/cursor/seek-on", test_seek_on);
    g_test_add_func("/cursor/leaves", test_leaves);
    g_test_add_func("/cursor/nested-tasks", test_nested_tasks);
    g_test_add_func("/cursor/seek-time", test_seek_time);
    g_test_add_func("/cursor/seek-cr3", test_seek_cr3);
    g_test_add_func("/cursor/events-only", test_events_only);
    g_test_add_func("/cursor/counts-only", test_counts_only);
    g_test_add_func("/cursor/arguments", test_arguments);
    ret = g_test_run();
    btrail_trace_close(trace);
    sample_remove(path);
    return ret;
}
