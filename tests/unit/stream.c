/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Streams of slabs: what comes out, which GAP events, and what is refused.
 */

#include "lib/agent/stream.h"

/*
 * A sink that unpacks what it gets into lists: what a stream has become.
 */
struct collector {
    struct btrail_block_sink sink;
    GArray *records;            /* of struct btrail_record */
    GArray *events;             /* of struct btrail_placed_event, absolute */
    GArray *headers;            /* of struct btrail_block_header */
    int error;                  /* for put to return */
};

static struct btrail_block *collect_get(struct btrail_block_sink *sink)
{
    return btrail_block_new();
}

static int collect_put(struct btrail_block_sink *sink,
                       struct btrail_block *block)
{
    struct collector *c = (struct collector *)sink;
    struct btrail_packer *packer = btrail_packer_new();
    struct btrail_unpacker *unpacker = btrail_unpacker_new();
    struct btrail_buf payload = { 0 };
    struct btrail_block_header h;
    unsigned i, before = c->records->len;

    btrail_packer_pack(packer, block, &payload);
    g_assert_true(btrail_block_header_get(payload.data, payload.len, &h));
    g_assert_cmpint(btrail_unpacker_load(unpacker, payload.data, payload.len,
                                         &h, false), ==, 0);
    for (i = 0; i < h.events; i++) {
        struct btrail_placed_event e = btrail_unpacker_events(unpacker)[i];

        e.position += before;
        g_array_append_val(c->events, e);
    }
    g_array_set_size(c->records, before + h.records);
    g_assert_true(btrail_unpacker_records(
        unpacker, &g_array_index(c->records, struct btrail_record, before),
        h.records));
    g_array_append_val(c->headers, h);

    btrail_buf_free(&payload);
    btrail_unpacker_free(unpacker);
    btrail_packer_free(packer);
    btrail_block_free(block);
    return c->error;
}

static void collector_init(struct collector *c)
{
    memset(c, 0, sizeof(*c));
    c->sink.get = collect_get;
    c->sink.put = collect_put;
    c->records = g_array_new(FALSE, TRUE, sizeof(struct btrail_record));
    c->events = g_array_new(FALSE, TRUE, sizeof(struct btrail_placed_event));
    c->headers = g_array_new(FALSE, TRUE, sizeof(struct btrail_block_header));
}

static void collector_clear(struct collector *c)
{
    g_array_free(c->records, TRUE);
    g_array_free(c->events, TRUE);
    g_array_free(c->headers, TRUE);
}

static const struct btrail_placed_event *event(const struct collector *c,
                                               unsigned i)
{
    g_assert_cmpuint(i, <, c->events->len);
    return &g_array_index(c->events, struct btrail_placed_event, i);
}

static void assert_event(const struct collector *c, unsigned i,
                         uint32_t position, uint64_t index, uint16_t type,
                         uint16_t reason, uint64_t data0)
{
    const struct btrail_placed_event *e = event(c, i);

    g_assert_cmpuint(e->position, ==, position);
    g_assert_cmpuint(e->event.index, ==, index);
    g_assert_cmpuint(e->event.type, ==, type);
    g_assert_cmpuint(e->event.reason, ==, reason);
    g_assert_cmphex(e->event.data[0], ==, data0);
}

static struct btrail_record records[1000];

static void init_records(void)
{
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(records); i++) {
        records[i].from = i;
        records[i].to = i * i;
    }
}

static int append(struct btrail_stream *s, uint64_t first_index, uint64_t cr3,
                  size_t n_records, const struct btrail_event *events,
                  size_t n_events)
{
    struct btrail_slab slab = {
        .first_index = first_index,
        .cr3 = cr3,
        .records = records + first_index % 100,
        .n_records = n_records,
        .events = events,
        .n_events = n_events,
    };

    return btrail_stream_append(s, &slab, BTRAIL_GAP_CORRUPT);
}

static struct btrail_event make(uint64_t index, uint16_t type, uint64_t data0)
{
    return (struct btrail_event) {
        .index = index, .type = type, .data = { data0 },
    };
}

static void test_slabs(void)
{
    struct collector c;
    struct btrail_stream *s;
    struct btrail_event e[4];

    collector_init(&c);
    s = btrail_stream_new(7, &c.sink, false);

    e[0] = make(0, BTRAIL_EVENT_TIME, 1000);
    e[1] = make(3, BTRAIL_EVENT_CR3, 0x2000);
    e[2] = make(10, BTRAIL_EVENT_CR3, 0x3000);
    g_assert_cmpint(append(s, 0, 0x1000, 10, e, 3), ==, 0);
    g_assert_cmpuint(btrail_stream_index(s), ==, 10);
    e[0] = make(10, BTRAIL_EVENT_TIME, 2000);
    e[1] = make(15, BTRAIL_EVENT_END, 3000);
    g_assert_cmpint(append(s, 10, 0x3000, 5, e, 2), ==, 0);
    g_assert_true(btrail_stream_ended(s));
    g_assert_cmpint(btrail_stream_flush(s), ==, 0);
    g_assert_cmpint(btrail_stream_flush(s), ==, 0);

    g_assert_cmpuint(c.headers->len, ==, 1);
    g_assert_cmpuint(c.records->len, ==, 15);
    g_assert_cmpmem(c.records->data, 10 * 24, records, 10 * 24);
    g_assert_cmpmem(c.records->data + 10 * 24, 5 * 24, records + 10, 5 * 24);
    g_assert_cmpuint(c.events->len, ==, 5);
    assert_event(&c, 0, 0, 0, BTRAIL_EVENT_TIME, 0, 1000);
    assert_event(&c, 1, 3, 3, BTRAIL_EVENT_CR3, 0, 0x2000);
    assert_event(&c, 2, 10, 10, BTRAIL_EVENT_CR3, 0, 0x3000);
    assert_event(&c, 3, 10, 10, BTRAIL_EVENT_TIME, 0, 2000);
    assert_event(&c, 4, 15, 15, BTRAIL_EVENT_END, 0, 3000);

    /* Nothing comes after END. */
    g_assert_cmpint(append(s, 15, 0x3000, 5, NULL, 0), ==, -BTRAIL_ERR_SLAB);
    btrail_stream_free(s);
    collector_clear(&c);
}

/* A block begins with the state that the one before it ended with. */
static void test_state(void)
{
    struct collector c;
    struct btrail_stream *s;
    struct btrail_event e[2];
    const struct btrail_block_header *h;

    collector_init(&c);
    s = btrail_stream_new(0, &c.sink, false);
    e[0] = make(0, BTRAIL_EVENT_TIME, 1000);
    e[0].data[1] = 55;
    e[1] = make(5, BTRAIL_EVENT_CR3, 0x2000);
    g_assert_cmpint(append(s, 0, 0x1000, 10, e, 2), ==, 0);
    btrail_stream_flush(s);
    g_assert_cmpint(append(s, 10, 0x2000, 10, NULL, 0), ==, 0);
    btrail_stream_flush(s);

    h = &g_array_index(c.headers, struct btrail_block_header, 0);
    g_assert_cmphex(h->cr3, ==, 0x1000);
    g_assert_cmpuint(h->time.host, ==, 0);
    g_assert_cmpuint(h->time_first, ==, 1000);
    g_assert_cmpuint(h->time_last, ==, 1000);
    h = &g_array_index(c.headers, struct btrail_block_header, 1);
    g_assert_cmphex(h->cr3, ==, 0x2000);
    g_assert_cmpuint(h->time.host, ==, 1000);
    g_assert_cmpuint(h->time.tsc, ==, 55);
    g_assert_cmpuint(h->time_first, ==, 1000);
    g_assert_cmpuint(h->first_index, ==, 10);
    g_assert_cmpuint(h->end_index, ==, 20);
    btrail_stream_free(s);
    collector_clear(&c);
}

/* Each block names the task in force before its first record, and once. */
static void test_tasks(void)
{
    struct collector c;
    struct btrail_stream *s;
    struct btrail_event e[3];

    collector_init(&c);
    s = btrail_stream_new(0, &c.sink, false);
    e[0] = make(0, BTRAIL_EVENT_TIME, 1000);
    e[1] = make(5, BTRAIL_EVENT_TASK, 77);
    e[1].reason = BTRAIL_TASK_KERNEL;
    e[1].data[1] = 123;
    e[1].data[2] = 456;
    e[1].reason |= BTRAIL_TASK_LEFT_DEAD;
    g_assert_cmpint(append(s, 0, 0x1000, 10, e, 2), ==, 0);
    btrail_stream_flush(s);
    assert_event(&c, 1, 5, 5, BTRAIL_EVENT_TASK,
                 BTRAIL_TASK_KERNEL | BTRAIL_TASK_LEFT_DEAD, 77);
    g_assert_cmpuint(c.events->len, ==, 2);
    e[1].reason = BTRAIL_TASK_KERNEL;

    g_assert_cmpint(append(s, 10, 0x1000, 10, e, 0), ==, 0);
    btrail_stream_flush(s);
    g_assert_cmpuint(c.events->len, ==, 3);
    assert_event(&c, 2, 10, 10, BTRAIL_EVENT_TASK, BTRAIL_TASK_KERNEL, 77);
    g_assert_cmpuint(event(&c, 2)->event.data[1], ==, 123);
    g_assert_cmpuint(event(&c, 2)->event.data[2], ==, 456);

    /* The producer repeats it, or names another. */
    e[0].index = e[1].index = 20;
    e[1].data[0] = 78;
    g_assert_cmpint(append(s, 20, 0x1000, 10, e, 2), ==, 0);
    btrail_stream_flush(s);
    g_assert_cmpuint(c.events->len, ==, 5);
    assert_event(&c, 4, 20, 20, BTRAIL_EVENT_TASK, BTRAIL_TASK_KERNEL, 78);

    /* A block without records needs none, and one that has some has one. */
    e[0].index = 30;
    g_assert_cmpint(append(s, 30, 0x1000, 0, e, 1), ==, 0);
    btrail_stream_flush(s);
    g_assert_cmpuint(c.events->len, ==, 6);
    e[0] = make(35, BTRAIL_EVENT_TASK, 0);
    e[0].reason = BTRAIL_TASK_UNKNOWN;
    g_assert_cmpint(append(s, 30, 0x1000, 10, e, 1), ==, 0);
    g_assert_cmpint(append(s, 40, 0x1000, 10, e, 0), ==, 0);
    btrail_stream_flush(s);
    g_assert_cmpuint(c.events->len, ==, 8);
    assert_event(&c, 6, 30, 30, BTRAIL_EVENT_TASK, BTRAIL_TASK_KERNEL, 78);

    /* It is not known any more: that is repeated as well. */
    g_assert_cmpint(append(s, 50, 0x1000, 10, e, 0), ==, 0);
    btrail_stream_flush(s);
    g_assert_cmpuint(c.events->len, ==, 9);
    assert_event(&c, 8, 50, 50, BTRAIL_EVENT_TASK, BTRAIL_TASK_UNKNOWN, 0);
    btrail_stream_free(s);
    collector_clear(&c);
}

/* Each block that begins with a WAKE event says who wakes. */
static void test_wakes(void)
{
    struct collector c;
    struct btrail_stream *s;
    struct btrail_event e[2];

    collector_init(&c);
    s = btrail_stream_new(0, &c.sink, false);
    e[0] = make(0, BTRAIL_EVENT_TIME, 1000);
    e[1] = make(5, BTRAIL_EVENT_TASK, 77);
    g_assert_cmpint(append(s, 0, 0x1000, 10, e, 2), ==, 0);
    btrail_stream_flush(s);
    g_assert_cmpuint(c.events->len, ==, 2);
    e[0] = make(10, BTRAIL_EVENT_WAKE, 88);
    e[0].reason = BTRAIL_WAKE_NEW;
    g_assert_cmpint(append(s, 10, 0x1000, 10, e, 1), ==, 0);
    btrail_stream_flush(s);
    g_assert_cmpuint(c.events->len, ==, 4);
    assert_event(&c, 2, 10, 10, BTRAIL_EVENT_TASK, 0, 77);
    assert_event(&c, 3, 10, 10, BTRAIL_EVENT_WAKE, BTRAIL_WAKE_NEW, 88);
    btrail_stream_free(s);
    collector_clear(&c);
}

/* GAP events: before the first record, and between records */
static void test_gaps(void)
{
    struct collector c;
    struct btrail_stream *s;
    struct btrail_event e[5];

    collector_init(&c);
    s = btrail_stream_new(0, &c.sink, false);
    g_assert_cmpint(append(s, 0, 0x1000, 10, NULL, 0), ==, 0);

    /* 10 to 59 are lost, then 5 records, 65 to 69 lost, 5 records more */
    e[0] = make(60, BTRAIL_EVENT_GAP, 50);
    e[1] = make(60, BTRAIL_EVENT_TIME, 1);
    e[2] = make(60, BTRAIL_EVENT_GAP, 0);
    e[3] = make(70, BTRAIL_EVENT_GAP, 5);
    e[4] = make(75, BTRAIL_EVENT_CR3, 0x2000);
    g_assert_cmpint(append(s, 60, 0x1000, 10, e, 5), ==, 0);
    g_assert_cmpuint(btrail_stream_index(s), ==, 75);
    g_assert_cmpuint(btrail_stream_unexplained(s), ==, 0);
    btrail_stream_flush(s);

    g_assert_cmpuint(c.records->len, ==, 20);
    g_assert_cmpuint(c.events->len, ==, 5);
    assert_event(&c, 0, 10, 60, BTRAIL_EVENT_GAP, 0, 50);
    assert_event(&c, 1, 10, 60, BTRAIL_EVENT_TIME, 0, 1);
    assert_event(&c, 2, 10, 60, BTRAIL_EVENT_GAP, 0, 0);
    assert_event(&c, 3, 15, 70, BTRAIL_EVENT_GAP, 0, 5);
    assert_event(&c, 4, 20, 75, BTRAIL_EVENT_CR3, 0, 0x2000);
    btrail_stream_free(s);
    collector_clear(&c);
}

/* The TIME event of the first record may come before the GAP event. */
static void test_time_before_gap(void)
{
    struct collector c;
    struct btrail_stream *s;
    struct btrail_event e[3];

    collector_init(&c);
    s = btrail_stream_new(0, &c.sink, false);
    g_assert_cmpint(append(s, 0, 0, 10, NULL, 0), ==, 0);
    e[0] = make(30, BTRAIL_EVENT_TIME, 1);
    e[1] = make(20, BTRAIL_EVENT_GAP, 10);
    e[2] = make(30, BTRAIL_EVENT_GAP, 10);
    g_assert_cmpint(append(s, 30, 0, 10, e, 3), ==, 0);
    btrail_stream_flush(s);
    assert_event(&c, 0, 10, 30, BTRAIL_EVENT_TIME, 0, 1);
    assert_event(&c, 1, 10, 20, BTRAIL_EVENT_GAP, 0, 10);
    assert_event(&c, 2, 10, 30, BTRAIL_EVENT_GAP, 0, 10);
    g_assert_cmpuint(btrail_stream_unexplained(s), ==, 0);
    btrail_stream_free(s);
    collector_clear(&c);
}

/* A hole that nobody explains gets a GAP event, of exactly its size. */
static void test_unexplained(void)
{
    struct collector c;
    struct btrail_stream *s;
    struct btrail_event e[1];

    collector_init(&c);
    s = btrail_stream_new(0, &c.sink, false);
    /* Also at the start, where another agent has drained */
    g_assert_cmpint(append(s, 100, 0x1000, 10, NULL, 0), ==, 0);
    g_assert_cmpint(append(s, 120, 0x2000, 10, NULL, 0), ==, 0);
    e[0] = make(150, BTRAIL_EVENT_GAP, 5);
    g_assert_cmpint(append(s, 150, 0x2000, 10, e, 1), ==, 0);
    g_assert_cmpuint(btrail_stream_unexplained(s), ==, 100 + 10 + 15);
    btrail_stream_flush(s);

    assert_event(&c, 0, 0, 100, BTRAIL_EVENT_GAP, BTRAIL_GAP_CORRUPT, 100);
    /* What CR3 was loaded in the hole is known, when is not. */
    assert_event(&c, 1, 10, 110, BTRAIL_EVENT_CR3, 0, 0x2000);
    assert_event(&c, 2, 10, 120, BTRAIL_EVENT_GAP, BTRAIL_GAP_CORRUPT, 10);
    assert_event(&c, 3, 20, 145, BTRAIL_EVENT_GAP, BTRAIL_GAP_CORRUPT, 15);
    assert_event(&c, 4, 20, 150, BTRAIL_EVENT_GAP, 0, 5);
    btrail_stream_free(s);
    collector_clear(&c);
}

static void test_own_events(void)
{
    struct collector c;
    struct btrail_stream *s;

    collector_init(&c);
    s = btrail_stream_new(0, &c.sink, false);
    g_assert_cmpint(append(s, 0, 0, 10, NULL, 0), ==, 0);
    g_assert_cmpint(btrail_stream_event(s, BTRAIL_EVENT_GAP,
                                        BTRAIL_GAP_PRODUCER_LOST,
                                        BTRAIL_LOST_UNKNOWN), ==, 0);
    g_assert_cmpuint(btrail_stream_index(s), ==, 10);
    g_assert_cmpint(btrail_stream_event(s, BTRAIL_EVENT_END,
                                        BTRAIL_END_PRODUCER_LOST, 9), ==, 0);
    g_assert_true(btrail_stream_ended(s));
    btrail_stream_flush(s);
    assert_event(&c, 0, 10, 10, BTRAIL_EVENT_GAP, BTRAIL_GAP_PRODUCER_LOST,
                 BTRAIL_LOST_UNKNOWN);
    assert_event(&c, 1, 10, 10, BTRAIL_EVENT_END, BTRAIL_END_PRODUCER_LOST,
                 9);
    btrail_stream_free(s);
    collector_clear(&c);
}

/* Slabs that contradict themselves or what came before */
static void test_contradictions(void)
{
    static const struct {
        const char *what;
        uint64_t first_index;
        size_t n_records;
        struct btrail_event events[2];
        size_t n_events;
    } cases[] = {
        { "goes back", 19, 10, { { 0 } }, 0 },
        { "index overflows", UINT64_MAX - 5, 10, { { 0 } }, 0 },
        { "index too large", UINT64_MAX - 10, 10, { { 0 } }, 0 },
        { "event before the slab", 20, 10,
          { { 19, BTRAIL_EVENT_CR3, 0, 0, { 1 } } }, 1 },
        { "event after the slab", 20, 10,
          { { 31, BTRAIL_EVENT_CR3, 0, 0, { 1 } } }, 1 },
        { "events out of order", 20, 10,
          { { 25, BTRAIL_EVENT_CR3, 0, 0, { 1 } },
            { 24, BTRAIL_EVENT_CR3, 0, 0, { 1 } } }, 2 },
        { "no event type", 20, 10, { { 20, 0, 0, 0, { 1 } } }, 1 },
        { "unknown event type", 20, 10, { { 20, 10, 0, 0, { 1 } } }, 1 },
        { "event after END", 20, 10,
          { { 30, BTRAIL_EVENT_END, 0, 0, { 1 } },
            { 30, BTRAIL_EVENT_CR3, 0, 0, { 1 } } }, 2 },
        { "gap larger than the hole", 30, 10,
          { { 30, BTRAIL_EVENT_GAP, 0, 0, { 11 } } }, 1 },
        { "gap not at the hole", 30, 10,
          { { 29, BTRAIL_EVENT_GAP, 0, 0, { 10 } } }, 1 },
        { "gap between records, larger than its index", 20, 10,
          { { 25, BTRAIL_EVENT_GAP, 0, 0, { 6 } } }, 1 },
        { "gap that claims records of the slab", 20, 10,
          { { 20, BTRAIL_EVENT_GAP, 0, 0, { 5 } } }, 1 },
        { "gap before the first record but after first_index", 20, 10,
          { { 25, BTRAIL_EVENT_GAP, 0, 0, { 5 } } }, 1 },
        { "gap of more than there is", 20, 10,
          { { 25, BTRAIL_EVENT_GAP, 0, 0, { UINT64_MAX - 1 } } }, 1 },
        { "gap to the end of numbers", 20, 10,
          { { UINT64_MAX, BTRAIL_EVENT_GAP, 0, 0,
              { UINT64_MAX - 25 } } }, 1 },
        { "events in the hole of a later gap", 20, 10,
          { { 27, BTRAIL_EVENT_CR3, 0, 0, { 1 } },
            { 30, BTRAIL_EVENT_GAP, 0, 0, { 5 } } }, 2 },
    };
    struct collector c;
    struct btrail_stream *s;
    unsigned i;

    collector_init(&c);
    s = btrail_stream_new(0, &c.sink, false);
    g_assert_cmpint(append(s, 0, 0, 20, NULL, 0), ==, 0);
    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_test_message("%s", cases[i].what);
        g_assert_cmpint(append(s, cases[i].first_index, 0, cases[i].n_records,
                               cases[i].events, cases[i].n_events), ==,
                        -BTRAIL_ERR_SLAB);
        g_assert_cmpuint(btrail_stream_index(s), ==, 20);
    }
    /* None of them has left anything behind. */
    btrail_stream_flush(s);
    g_assert_cmpuint(c.records->len, ==, 20);
    g_assert_cmpuint(c.events->len, ==, 0);
    btrail_stream_free(s);
    collector_clear(&c);
}

/* Slabs and events of any size are cut into blocks of bounded size. */
static void test_large(void)
{
    size_t n = BTRAIL_BLOCK_MAX_RECORDS + 500000, k = 70000, i;
    struct btrail_record *r = g_new0(struct btrail_record, n);
    struct btrail_event *e = g_new0(struct btrail_event, k);
    struct btrail_slab slab = {
        .records = r, .n_records = n, .events = e, .n_events = k,
    };
    struct collector c;
    struct btrail_stream *s;

    collector_init(&c);
    s = btrail_stream_new(0, &c.sink, false);
    for (i = 0; i < n; i++) {
        r[i].from = i % 1000;
    }
    for (i = 0; i < k; i++) {
        e[i] = make(i * 7, BTRAIL_EVENT_CR3, i);
    }
    g_assert_cmpint(btrail_stream_append(s, &slab, 0), ==, 0);
    btrail_stream_flush(s);
    g_assert_cmpuint(c.headers->len, ==, 3);
    for (i = 0; i < c.headers->len; i++) {
        g_assert_cmpuint(g_array_index(c.headers, struct btrail_block_header,
                                       i).records, <=,
                         BTRAIL_BLOCK_MAX_RECORDS);
    }
    g_assert_cmpuint(c.records->len, ==, n);
    g_assert_cmpmem(c.records->data, n * sizeof(*r), r, n * sizeof(*r));
    g_assert_cmpuint(c.events->len, ==, k);
    for (i = 0; i < k; i++) {
        g_assert_cmpuint(event(&c, i)->position, ==, i * 7);
        g_assert_cmpuint(event(&c, i)->event.index, ==, i * 7);
        g_assert_cmpuint(event(&c, i)->event.data[0], ==, i);
    }
    g_assert_cmphex(g_array_index(c.headers, struct btrail_block_header,
                                  1).cr3, ==, 65535);
    btrail_stream_free(s);
    collector_clear(&c);
    g_free(r);
    g_free(e);
}

/* The harder records are to predict, the fewer are in a block. */
static void test_hard(void)
{
    enum { N = 400000, SLAB = 10000 };
    struct btrail_record *r = g_new0(struct btrail_record, N);
    struct collector c;
    struct btrail_stream *s;
    size_t i;

    collector_init(&c);
    s = btrail_stream_new(0, &c.sink, false);
    for (i = 0; i < N; i++) {
        r[i].from = i < N / 2 ? i % 1000 : (uint64_t)g_test_rand_int();
        r[i].to = i < N / 2 ? 0 : (uint64_t)g_test_rand_int();
    }
    for (i = 0; i < N; i += SLAB) {
        struct btrail_slab slab = {
            .first_index = i, .records = r + i, .n_records = SLAB,
        };

        g_assert_cmpint(btrail_stream_append(s, &slab, 0), ==, 0);
    }
    btrail_stream_flush(s);
    g_assert_cmpuint(c.headers->len, >, 3);
    g_assert_cmpuint(g_array_index(c.headers, struct btrail_block_header,
                                   0).records, >, N / 2);
    for (i = 1; i < c.headers->len; i++) {
        g_assert_cmpuint(g_array_index(c.headers, struct btrail_block_header,
                                       i).records, <, 100000);
    }
    g_assert_cmpmem(c.records->data, N * sizeof(*r), r, N * sizeof(*r));
    btrail_stream_free(s);
    collector_clear(&c);
    g_free(r);
}

static void test_sink_error(void)
{
    struct collector c;
    struct btrail_stream *s;

    collector_init(&c);
    s = btrail_stream_new(0, &c.sink, false);
    c.error = -BTRAIL_ERR_IO;
    g_assert_cmpint(append(s, 0, 0, 10, NULL, 0), ==, 0);
    g_assert_cmpint(btrail_stream_flush(s), ==, -BTRAIL_ERR_IO);
    btrail_stream_free(s);
    collector_clear(&c);
}

/* So it does with the kernel in force, which ends a task. */
static void test_kernels(void)
{
    struct collector c;
    struct btrail_stream *s;
    struct btrail_event e[3];

    collector_init(&c);
    s = btrail_stream_new(0, &c.sink, false);
    e[0] = make(0, BTRAIL_EVENT_TIME, 1000);
    e[1] = make(5, BTRAIL_EVENT_KERNEL, 1);
    e[2] = make(5, BTRAIL_EVENT_TASK, 77);
    g_assert_cmpint(append(s, 0, 0x1000, 10, e, 3), ==, 0);
    btrail_stream_flush(s);
    g_assert_cmpuint(c.events->len, ==, 3);

    g_assert_cmpint(append(s, 10, 0x1000, 10, e, 0), ==, 0);
    btrail_stream_flush(s);
    g_assert_cmpuint(c.events->len, ==, 5);
    assert_event(&c, 3, 10, 10, BTRAIL_EVENT_KERNEL, 0, 1);
    assert_event(&c, 4, 10, 10, BTRAIL_EVENT_TASK, 0, 77);

    /* A slab that names its task alone is still one of this kernel. */
    e[0].index = e[1].index = 20;
    e[1] = make(20, BTRAIL_EVENT_TASK, 78);
    g_assert_cmpint(append(s, 20, 0x1000, 10, e, 2), ==, 0);
    btrail_stream_flush(s);
    g_assert_cmpuint(c.events->len, ==, 9);
    assert_event(&c, 7, 20, 20, BTRAIL_EVENT_KERNEL, 0, 1);
    assert_event(&c, 8, 20, 20, BTRAIL_EVENT_TASK, 0, 78);

    /* A nested guest has no task of this kernel. */
    e[0].index = 30;
    e[1] = make(35, BTRAIL_EVENT_KERNEL, 0);
    e[1].reason = BTRAIL_KERNEL_NESTED;
    e[1].data[1] = 0x7000;
    g_assert_cmpint(append(s, 30, 0x1000, 10, e, 2), ==, 0);
    btrail_stream_flush(s);
    g_assert_cmpuint(c.events->len, ==, 13);
    g_assert_cmpint(append(s, 40, 0x1000, 10, e, 0), ==, 0);
    btrail_stream_flush(s);
    g_assert_cmpuint(c.events->len, ==, 14);
    assert_event(&c, 13, 40, 40, BTRAIL_EVENT_KERNEL, BTRAIL_KERNEL_NESTED, 0);
    g_assert_cmphex(event(&c, 13)->event.data[1], ==, 0x7000);
    btrail_stream_free(s);
    collector_clear(&c);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    init_records();
    g_test_add_func("/stream/slabs", test_slabs);
    g_test_add_func("/stream/state", test_state);
    g_test_add_func("/stream/tasks", test_tasks);
    g_test_add_func("/stream/wakes", test_wakes);
    g_test_add_func("/stream/kernels", test_kernels);
    g_test_add_func("/stream/gaps", test_gaps);
    g_test_add_func("/stream/time-before-gap", test_time_before_gap);
    g_test_add_func("/stream/unexplained", test_unexplained);
    g_test_add_func("/stream/own-events", test_own_events);
    g_test_add_func("/stream/contradictions", test_contradictions);
    g_test_add_func("/stream/large", test_large);
    g_test_add_func("/stream/hard", test_hard);
    g_test_add_func("/stream/sink-error", test_sink_error);
    return g_test_run();
}
