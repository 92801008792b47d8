/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of replay-log.c: a log that is made here as QEMU makes it, cut off
 * anywhere, and damaged anywhere
 *
 * tests/integration/rr compares what it finds with QEMU's own script.
 */

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "replay/replay-log.h"

/* Of QEMU's replay/replay-internal.h */
enum {
    INSTRUCTION, INTERRUPT, EXCEPTION, BH, BH_ONESHOT, INPUT, INPUT_SYNC,
    CHAR_READ, BLOCK, NET, SHUTDOWN, CHAR_WRITE = 22, CHAR_READ_ALL,
    CHAR_READ_ALL_ERROR, AUDIO_OUT, AUDIO_IN, RANDOM, CLOCK_HOST,
    CLOCK_VIRTUAL_RT, CHECKPOINT, CPU = 39, END
};

static void put(GByteArray *log, uint64_t n, unsigned bytes)
{
    while (bytes--) {
        g_byte_array_append(log, &(guint8){ n >> (8 * bytes) }, 1);
    }
}

static void put_array(GByteArray *log, unsigned size)
{
    put(log, size, 4);
    while (size--) {
        /* What could be taken for an event */
        put(log, INTERRUPT, 1);
    }
}

static void put_instructions(GByteArray *log, uint32_t n)
{
    put(log, INSTRUCTION, 1);
    put(log, n, 4);
}

/* A number of an event, and what else there is of it, as bytes */
static void put_event(GByteArray *log, unsigned event, const char *sizes,
                      uint64_t number)
{
    put(log, event, 1);
    for (; *sizes; sizes++) {
        if (*sizes == 'a') {
            put_array(log, number);
        } else {
            put(log, number, *sizes - '0');
        }
    }
}

static GByteArray *start(void)
{
    GByteArray *log = g_byte_array_new();

    put(log, 0xe0200e, 4);
    put(log, 0, 8);
    return log;
}

/* One of each, at 10, 20, ... instructions */
static GByteArray *sample(void)
{
    static const struct {
        unsigned event;
        const char *sizes;
        uint64_t number;
    } events[] = {
        { BH, "8", 77 }, { BH_ONESHOT, "8", 77 }, { INPUT_SYNC, "", 0 },
        { CHAR_READ, "1a", 3 }, { BLOCK, "8", 12345678901 },
        { NET, "14a", 60 }, { CHAR_WRITE, "44", 1 },
        { CHAR_READ_ALL, "a", 5 }, { CHAR_READ_ALL_ERROR, "4", 1 },
        { AUDIO_OUT, "8", 2 }, { AUDIO_IN, "888888", 2 },
        { RANDOM, "4a", 32 }, { CLOCK_HOST, "8", 1 },
        { CLOCK_VIRTUAL_RT, "8", 1 }, { CHECKPOINT, "", 0 },
        { CHECKPOINT + 8, "", 0 }, { CPU, "4", 1 }, { EXCEPTION, "", 0 },
        { INTERRUPT, "", 0 }, { SHUTDOWN + 6, "", 0 },
    };
    /* Type of the event and of the key, its value, and down */
    static const char *const inputs[] = { "81", "41", "41", "48", "48",
                                          "48848" };
    GByteArray *log = start();

    for (unsigned i = 0; i < G_N_ELEMENTS(events); i++) {
        put_instructions(log, 10);
        put_event(log, events[i].event, events[i].sizes, events[i].number);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(inputs); i++) {
        put_instructions(log, 10);
        put(log, INPUT, 1);
        put(log, i ? i - 1 : 0, 4);
        if (i < 2) {
            put(log, i, 4);
        }
        for (const char *size = inputs[i]; *size; size++) {
            put(log, INTERRUPT, *size - '0');
        }
    }
    put_instructions(log, 1000);
    put(log, END, 1);
    return log;
}

static bool find_from(const GByteArray *log, const struct log_start *start,
                      uint64_t icount, struct replay_log_place *place)
{
    g_autofree char *path = NULL;
    g_autoptr(GError) error = NULL;
    int fd = g_file_open_tmp("backtrail-XXXXXX", &path, NULL);
    bool ok;

    g_assert_cmpint(write(fd, log->data, log->len), ==, log->len);
    close(fd);
    ok = replay_log_find(path, start, icount, place, &error);
    g_assert_true(ok == !error);
    g_unlink(path);
    return ok;
}

static bool find(const GByteArray *log, uint64_t icount,
                 struct replay_log_place *place)
{
    const struct log_start start = { 0 };

    return find_from(log, &start, icount, place);
}

static void assert_event(const struct replay_log_event *e, uint64_t icount,
                         uint64_t device, uint64_t bytes)
{
    g_assert_true(e->there);
    g_assert_cmpuint(e->icount, ==, icount);
    g_assert_cmpuint(e->device, ==, device);
    g_assert_cmpuint(e->bytes, ==, bytes);
}

static void test_each(void)
{
    g_autoptr(GByteArray) log = sample();
    struct replay_log_place p;

    g_assert_true(find(log, 255, &p));
    g_assert_false(p.interrupt);
    assert_event(&p.before[REPLAY_LOG_TIMER], 20, 0, 0);
    assert_event(&p.before[REPLAY_LOG_DISK], 50, 12345678901, 0);
    assert_event(&p.before[REPLAY_LOG_NETWORK], 60, 60, 60);
    assert_event(&p.before[REPLAY_LOG_CHARACTER], 80, 0, 5);
    assert_event(&p.before[REPLAY_LOG_AUDIO], 110, 0, 2);
    assert_event(&p.before[REPLAY_LOG_RANDOM], 120, 0, 32);
    assert_event(&p.before[REPLAY_LOG_CLOCK], 140, 0, 0);
    assert_event(&p.before[REPLAY_LOG_EXCEPTION], 180, 0, 0);
    assert_event(&p.before[REPLAY_LOG_INTERRUPT], 190, 0, 0);
    assert_event(&p.before[REPLAY_LOG_SHUTDOWN], 200, 0, 0);
    assert_event(&p.before[REPLAY_LOG_INPUT], 250, 0, 0);
    assert_event(&p.next, 260, 0, 0);
    g_assert_cmpint(p.next.kind, ==, REPLAY_LOG_INPUT);
    g_assert_true(find(log, 2000, &p));
    assert_event(&p.before[REPLAY_LOG_INPUT], 260, 0, 0);
    g_assert_false(p.next.there);
}

static void test_place(void)
{
    g_autoptr(GByteArray) log = sample();
    struct replay_log_place p;

    g_assert_true(find(log, 190, &p));
    g_assert_true(p.interrupt);
    g_assert_true(find(log, 189, &p));
    g_assert_false(p.interrupt);
    assert_event(&p.next, 190, 0, 0);
    g_assert_cmpint(p.next.kind, ==, REPLAY_LOG_INTERRUPT);
    g_assert_true(find(log, 0, &p));
    for (unsigned i = 0; i < REPLAY_LOG_KINDS; i++) {
        g_assert_false(p.before[i].there);
    }
    assert_event(&p.next, 10, 0, 0);
    g_assert_true(find(log, 40, &p));
    assert_event(&p.before[REPLAY_LOG_CHARACTER], 40, 3, 3);
    assert_event(&p.next, 50, 12345678901, 0);
}

/* What is there is what is found. */
static void test_cut_off(void)
{
    g_autoptr(GByteArray) log = sample();
    unsigned whole = log->len;

    for (unsigned len = 4; len < whole; len++) {
        struct replay_log_place p;

        log->len = len;
        g_assert_true(find(log, 2000, &p));
        g_assert_false(p.next.there);
    }
}

static void test_damaged(void)
{
    g_autoptr(GByteArray) log = sample();
    struct replay_log_place p;

    for (unsigned i = 0; i < log->len; i++) {
        log->data[i] ^= 0xff;
        if (!find(log, 2000, &p)) {
            g_assert_false(p.next.there);
        } else {
            /* In a number of the log, or of its head */
            g_assert_cmpuint(i, >=, 4);
        }
        log->data[i] ^= 0xff;
    }
    log->data[log->len - 1] = END + 1;
    g_assert_false(find(log, 2000, &p));
    log->len = 0;
    g_assert_false(find(log, 2000, &p));
}

/* What is before it is not read, and may be anything. */
static void test_start(void)
{
    g_autoptr(GByteArray) log = g_byte_array_new();
    struct replay_log_place place;
    struct log_start start = { .icount = 5000 };

    put(log, 0xe0200e, 4);
    put(log, 0, 8);
    put(log, 0xff, 1);
    start.offset = log->len;
    put_instructions(log, 10);
    put(log, INTERRUPT, 1);
    put_instructions(log, 10);
    put(log, END, 1);
    g_assert_true(find_from(log, &start, 5000, &place));
    g_assert_true(place.next.there);
    g_assert_cmpuint(place.next.icount, ==, 5010);
    g_assert_true(find_from(log, &start, 5010, &place));
    g_assert_true(place.interrupt);
    /* After the end, there is nothing. */
    start.offset = UINT64_MAX;
    g_assert_true(find_from(log, &start, 5010, &place));
    g_assert_false(place.interrupt);
    start.offset = 0;
    g_assert_false(find_from(log, &start, 5010, &place));
}

static void test_describe(void)
{
    struct replay_log_event e = { .there = true, .device = 2, .bytes = 60 };
    g_autoptr(JsonObject) json = NULL;

    for (e.kind = 0; e.kind < REPLAY_LOG_KINDS; e.kind++) {
        g_autofree char *text = replay_log_describe(&e);

        g_assert_cmpuint(strlen(text), >, 4);
    }
    e.kind = REPLAY_LOG_NETWORK;
    e.icount = 7;
    json = replay_log_json(&e);
    g_assert_cmpstr(json_object_get_string_member(json, "kind"), ==,
                    "network");
    g_assert_cmpint(json_object_get_int_member(json, "icount"), ==, 7);
    g_assert_cmpint(json_object_get_int_member(json, "device"), ==, 2);
    g_assert_cmpint(json_object_get_int_member(json, "bytes"), ==, 60);
}

/* The kinds of events that are at the same instructions, in any order */
static void test_order(void)
{
    static const struct {
        unsigned event;
        const char *sizes;
        enum replay_log_kind kind;
    } events[] = {
        { INTERRUPT, "", REPLAY_LOG_INTERRUPT },
        { EXCEPTION, "", REPLAY_LOG_EXCEPTION },
        { BH, "8", REPLAY_LOG_TIMER }, { BLOCK, "8", REPLAY_LOG_DISK },
        { CLOCK_HOST, "8", REPLAY_LOG_CLOCK },
        { CLOCK_VIRTUAL_RT, "8", REPLAY_LOG_CLOCK },
        { SHUTDOWN + 6, "", REPLAY_LOG_SHUTDOWN },
        { CHECKPOINT, "", REPLAY_LOG_KINDS },
    };

    for (unsigned round = 0; round < 50; round++) {
        g_autoptr(GByteArray) log = start();
        unsigned kinds[60];
        uint64_t at[60], now = 0, last = g_test_rand_int_range(0, 30);
        struct replay_log_place place;

        for (unsigned i = 0; i < G_N_ELEMENTS(at); i++) {
            unsigned n = g_test_rand_int_range(0, G_N_ELEMENTS(events));

            if (!g_test_rand_int_range(0, 3)) {
                put_instructions(log, 1);
                now++;
            }
            put_event(log, events[n].event, events[n].sizes, 7);
            at[i] = now;
            kinds[i] = events[n].kind;
        }
        put(log, END, 1);
        g_assert_true(find(log, last, &place));
        for (unsigned most = 0; most <= REPLAY_LOG_KINDS; most++) {
            g_autoptr(GPtrArray) list = replay_log_before(&place, most);
            bool seen[REPLAY_LOG_KINDS + 1] = { false };
            unsigned n = list->len;

            /* From the last one back, of each kind the first that comes */
            seen[REPLAY_LOG_KINDS] = true;
            for (unsigned i = G_N_ELEMENTS(at); i-- > 0;) {
                if (at[i] <= last && !seen[kinds[i]] && n) {
                    const struct replay_log_event *e = list->pdata[--n];

                    seen[kinds[i]] = true;
                    g_assert_cmpint(e->kind, ==, kinds[i]);
                    g_assert_cmpuint(e->icount, ==, at[i]);
                } else if (at[i] <= last && !seen[kinds[i]]) {
                    g_assert_cmpuint(list->len, ==, most);
                }
            }
            g_assert_cmpuint(n, ==, 0);
        }
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/replay-log/each", test_each);
    g_test_add_func("/replay-log/place", test_place);
    g_test_add_func("/replay-log/cut-off", test_cut_off);
    g_test_add_func("/replay-log/start", test_start);
    g_test_add_func("/replay-log/damaged", test_damaged);
    g_test_add_func("/replay-log/describe", test_describe);
    g_test_add_func("/replay-log/order", test_order);
    return g_test_run();
}
