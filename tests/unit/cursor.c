/* SPDX-License-Identifier: GPL-2.0-or-later */
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
                                       G_GUINT64_FORMAT "\n", b.index + i,
                                       b.cr3, b.records[i].from, b.time.host);
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

static void test_seek_time(void)
{
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    uint64_t time;

    g_assert_cmpint(btrail_cursor_open(&cursor, trace, 0, 0), ==, 0);
    for (time = 0; time <= (CHUNKS + 1) * 1000000; time += 500000) {
        uint64_t first = UINT64_MAX;
        int ret;

        g_assert_cmpint(btrail_cursor_seek_time(cursor, time), ==, 0);
        while (!(ret = btrail_cursor_next(cursor, &b))) {
            g_assert_false(b.synthetic);
            if (b.count && b.time.host >= time) {
                first = MIN(first, b.index);
            }
        }
        g_assert_cmpint(ret, ==, -BTRAIL_ERR_END);
        if (time <= 1000000) {
            g_assert_cmpuint(first, ==, 0);
        } else if (time <= CHUNKS * 1000000) {
            g_assert_cmpuint(first, ==, ((time - 1) / 1000000) *
                             SAMPLE_CHUNK_RECORDS + SAMPLE_LOST);
        } else {
            g_assert_cmpuint(first, ==, UINT64_MAX);
        }
    }
    btrail_cursor_close(cursor);
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
    g_test_add_func("/cursor/seek-time", test_seek_time);
    g_test_add_func("/cursor/events-only", test_events_only);
    g_test_add_func("/cursor/arguments", test_arguments);
    ret = g_test_run();
    btrail_trace_close(trace);
    sample_remove(path);
    return ret;
}
