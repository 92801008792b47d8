/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Columns of events: what is written is read again, in few bytes, and what
 * nobody can have written is refused.
 */

#include "lib/internal/event-columns.h"

static const struct btrail_time no_time = { .icount = BTRAIL_NO_ICOUNT };

struct columns {
    struct btrail_buf column[BTRAIL_EVENT_COLUMNS];
    struct btrail_event_model model;
    struct btrail_buf all;
};

static void begin(struct columns *c, const struct btrail_time *time)
{
    memset(c, 0, sizeof(*c));
    btrail_event_model_begin(&c->model, time);
}

static void join(struct columns *c)
{
    c->all.len = 0;
    for (unsigned i = 0; i < BTRAIL_EVENT_COLUMNS; i++) {
        btrail_buf_append(&c->all, c->column[i].data, c->column[i].len);
    }
}

static void end(struct columns *c)
{
    for (unsigned i = 0; i < BTRAIL_EVENT_COLUMNS; i++) {
        btrail_buf_free(&c->column[i]);
    }
    btrail_buf_free(&c->all);
}

/* Reads @n events of exactly these bytes; false if they are refused. */
static bool read_all(const uint8_t *bytes, size_t len, uint32_t n,
                     const struct btrail_time *time, bool simple)
{
    g_autofree uint8_t *copy = g_memdup2(bytes, len);
    static const uint8_t none[1];
    struct btrail_event_reader r;
    struct btrail_event e;
    uint64_t gap, offset;

    if (!btrail_event_reader_begin(&r, len ? copy : none, len, n, time,
                                   simple)) {
        return false;
    }
    while (n && btrail_event_reader_next(&r, &gap, &offset, &e)) {
        n--;
    }
    return !n;
}

static uint64_t any_number(void)
{
    return ((uint64_t)g_test_rand_int() << 32 | (uint32_t)g_test_rand_int())
           >> g_test_rand_int_range(0, 64);
}

static uint64_t small_number(int end)
{
    return g_test_rand_int_range(0, end);
}

static bool one_in(int n)
{
    return !small_number(n);
}

/* Times go on, mostly; some data come again, in lists that are too short. */
static void make_event(struct btrail_event *e, struct btrail_time *time)
{
    unsigned i;

    *e = (struct btrail_event) {
        .type = one_in(20) ? any_number() : small_number(11),
        .reason = one_in(3) ? any_number() : 0,
    };
    if (e->type == BTRAIL_EVENT_TIME) {
        uint64_t step = small_number(1 << 20);

        time->host = one_in(20) ? any_number() : time->host + step;
        time->tsc = one_in(20) ? any_number() :
                    time->tsc + step * 5 / 2 + small_number(3);
        time->icount = one_in(20) ? any_number() : time->icount + step;
        e->data[0] = time->host;
        e->data[1] = time->tsc;
        e->data[2] = time->icount;
        return;
    }
    for (i = 0; i < 3; i++) {
        e->data[i] = one_in(5) ? any_number() : i ? 0 : small_number(24);
    }
}

static void test_random(void)
{
    enum { EVENTS = 2000 };
    g_autofree struct btrail_event *e = g_new(struct btrail_event, EVENTS);
    uint64_t position[EVENTS];
    uint32_t gap[EVENTS];
    unsigned round, i;

    for (round = 0; round < 20; round++) {
        struct btrail_time begun = no_time, time;
        struct btrail_event_reader r;
        uint64_t place = any_number();
        struct columns c;

        if (round % 2) {
            begun = (struct btrail_time) { any_number(), any_number(), 7 };
        }
        time = begun;
        begin(&c, &begun);
        for (i = 0; i < EVENTS; i++) {
            make_event(&e[i], &time);
            gap[i] = one_in(2) ? small_number(1 << 22) : 0;
            position[i] = place += gap[i];
            e[i].index = one_in(10) ? any_number() : place;
            btrail_event_columns_add(c.column, &c.model, gap[i], place, &e[i]);
        }
        join(&c);
        g_assert_cmpuint(c.all.len, <=,
                         (size_t)EVENTS * BTRAIL_EVENT_MAX_BYTES);
        g_assert_true(btrail_event_reader_begin(&r, c.all.data, c.all.len,
                                                EVENTS, &begun, false));
        for (i = 0; i < EVENTS; i++) {
            struct btrail_event got;
            uint64_t got_gap, offset;

            g_assert_true(btrail_event_reader_next(&r, &got_gap, &offset,
                                                   &got));
            g_assert_cmpuint(got_gap, ==, gap[i]);
            got.index = position[i] + offset;
            g_assert_cmpmem(&got, sizeof(got), &e[i], sizeof(e[i]));
        }
        g_assert_false(read_all(c.all.data, c.all.len - 1, EVENTS, &begun,
                                false));
        g_assert_false(read_all(c.all.data, c.all.len, EVENTS + 1, &begun,
                                false));
        btrail_buf_append(&c.all, "", 1);
        g_assert_false(read_all(c.all.data, c.all.len, EVENTS, &begun, false));
        end(&c);
    }
}

static void add(struct columns *c, uint16_t type, uint64_t a, uint64_t b,
                uint64_t d)
{
    const struct btrail_event e = { 0, type, 0, 0, { a, b, d } };

    btrail_event_columns_add(c->column, &c->model, 0, 0, &e);
}

/* What comes again has two bytes, and the TSC what the clocks differ by. */
static void test_small(void)
{
    struct columns c;
    unsigned i, bytes;

    begin(&c, &no_time);
    for (i = 0; i < BTRAIL_EVENT_RECENT; i++) {
        add(&c, BTRAIL_EVENT_TASK, 1000 + i, UINT64_MAX, UINT64_MAX - i);
        add(&c, BTRAIL_EVENT_CR3, (uint64_t)i << 40, 0, 0);
    }
    join(&c);
    bytes = c.all.len;
    for (i = 0; i < 1000; i++) {
        add(&c, BTRAIL_EVENT_TASK, 1000 + i % BTRAIL_EVENT_RECENT, UINT64_MAX,
            UINT64_MAX - i % BTRAIL_EVENT_RECENT);
        add(&c, BTRAIL_EVENT_CR3, (uint64_t)(i % 2) << 40, 0, 0);
    }
    join(&c);
    g_assert_cmpuint(c.all.len, ==, bytes + 4 * 1000);

    /* One more than the list has: none of them is found again. */
    bytes = c.all.len;
    for (i = 0; i < 170; i++) {
        add(&c, BTRAIL_EVENT_WAKE,
            UINT64_C(1) << 35 | i % (BTRAIL_EVENT_RECENT + 1), 0, 0);
    }
    join(&c);
    g_assert_cmpuint(c.all.len, >=, bytes + 170 * 7);
    end(&c);

    begin(&c, &no_time);
    for (i = 1; i <= 1000; i++) {
        uint64_t host = UINT64_C(1) << 45 | i * 100003;

        add(&c, BTRAIL_EVENT_TIME, host, host * 13 / 5, BTRAIL_NO_ICOUNT);
        add(&c, BTRAIL_EVENT_PAUSE, host + 30, 0, 0);
    }
    g_assert_cmpuint(c.column[BTRAIL_EVENT_CLOCKS + 1].len, <=, 1000 + 15);
    g_assert_cmpuint(c.column[BTRAIL_EVENT_CLOCKS + 2].len, ==, 1000);
    g_assert_cmpuint(c.column[BTRAIL_EVENT_DATA].len, ==, 1000);
    end(&c);
}

static void test_refused(void)
{
    static const struct {
        uint8_t bytes[9];
        uint8_t len;
        uint8_t events;
        bool fine;
    } cases[] = {
        { { 0 }, 0, 0, true },
        /* A CR3 event and another one that repeats it, or what is not there */
        { { 0x08, 0x0a, 0x55, 0, 0, 0 }, 6, 2, true },
        { { 0x08, 0x0a, 0x55, 1, 0, 0 }, 6, 2, false },
        { { 0x08, 0x0a, 0x55, 0x7f, 0, 0 }, 6, 2, false },
        { { 0x0a, 0 }, 2, 1, false },
        /* TASK is of another list. */
        { { 0x08, 0x3a, 0x55, 0, 0, 0 }, 6, 2, false },
        /* GAP and TIME have none. */
        { { 0x08, 0x1a, 0x55, 0, 0, 0 }, 6, 2, false },
        { { 0x12, 0, 0, 0 }, 4, 1, false },
        { { 0x10, 0, 0, 0 }, 4, 1, true },
        /* The largest kind, and one more */
        { { 0xf8, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0 }, 8, 1, true },
        { { 0x80, 0x80, 0x80, 0x80, 0x80, 1, 0, 0, 0 }, 9, 1, false },
        /* Cut off, and with a byte more */
        { { 0x08, 0x55, 0 }, 3, 1, false },
        { { 0x08, 0x55, 0, 0, 0 }, 5, 1, false },
        { { 0x09, 5, 0x55, 0, 0 }, 5, 1, true },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_assert_cmpint(read_all(cases[i].bytes, cases[i].len, cases[i].events,
                                 &no_time, false), ==, cases[i].fine);
    }
}

/* No bytes do harm. */
static void test_damaged(void)
{
    struct btrail_time time = { 5, 6, 7 };
    struct columns c;

    begin(&c, &time);
    for (unsigned i = 0; i < 300; i++) {
        struct btrail_event e;

        make_event(&e, &time);
        btrail_event_columns_add(c.column, &c.model, i % 3, 0, &e);
    }
    join(&c);
    for (unsigned i = 0; i < 20000; i++) {
        size_t at = small_number(c.all.len);
        uint8_t sound = c.all.data[at];

        c.all.data[at] = g_test_rand_int();
        read_all(c.all.data, c.all.len, 300, &time, i % 2);
        c.all.data[at] = sound;
    }
    end(&c);
}

/* The seven columns of older traces */
static void test_simple(void)
{
    static const uint8_t bytes[] = {
        0, 5,           /* records before it */
        2, 7,           /* TIME, TASK */
        0, 9,
        0, 3,           /* index: -2 */
        20, 1,          /* 10 later */
        21, 2,          /* 11 less */
        0, 3,
    };
    const struct btrail_time time = { 100, 200, 300 };
    struct btrail_event_reader r;
    struct btrail_event e;
    uint64_t gap, offset;

    g_assert_true(btrail_event_reader_begin(&r, bytes, sizeof(bytes), 2, &time,
                                            true));
    g_assert_true(btrail_event_reader_next(&r, &gap, &offset, &e));
    g_assert_cmpuint(e.type, ==, BTRAIL_EVENT_TIME);
    g_assert_cmpuint(e.data[0], ==, 110);
    g_assert_cmpuint(e.data[1], ==, 189);
    g_assert_cmpuint(e.data[2], ==, 300);
    g_assert_cmpuint(gap, ==, 0);
    g_assert_true(btrail_event_reader_next(&r, &gap, &offset, &e));
    g_assert_cmpuint(e.type, ==, BTRAIL_EVENT_TASK);
    g_assert_cmpuint(e.reason, ==, 9);
    g_assert_cmpuint(e.data[0], ==, 1);
    g_assert_cmpuint(e.data[1], ==, 2);
    g_assert_cmpuint(e.data[2], ==, 3);
    g_assert_cmpuint(gap, ==, 5);
    g_assert_cmpint(offset, ==, -2);
    g_assert_false(read_all(bytes, sizeof(bytes) - 1, 2, &time, true));
    g_assert_false(read_all(bytes, sizeof(bytes), 1, &time, true));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/event-columns/random", test_random);
    g_test_add_func("/event-columns/small", test_small);
    g_test_add_func("/event-columns/refused", test_refused);
    g_test_add_func("/event-columns/damaged", test_damaged);
    g_test_add_func("/event-columns/simple", test_simple);
    return g_test_run();
}
