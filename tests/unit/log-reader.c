/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of replay/log-reader.h: logs of random events, made here as QEMU makes
 * them, cut off anywhere, and with what cannot be
 */

#include <glib.h>
#include <string.h>

#include "replay/log-reader.h"

#define VERSION     0xe0200e
#define EVENTS      60u

/**
 * struct layout - what belongs to an event, by QEMU's replay/
 * @parts: a letter for each part: 1, 4 or 8 bytes of no interest; "b", "w" and
 *         "q": its number in 1, 4 or 8 bytes; "a": an array, whose size is
 *         @bytes; "c": 4 bytes that are @bytes; "s": 8 bytes that are @bytes,
 *         and so many samples after 8 more bytes; "i": an input event
 */
struct layout {
    unsigned first, last;
    const char *parts;
};

static const struct layout layouts[] = {
    { 0, 0, "w" },              /* instructions */
    { 1, 2, "" },               /* interrupt, exception */
    { 3, 4, "8" },              /* bottom halves */
    { 5, 5, "i" },
    { 6, 6, "" },
    { 7, 7, "ba" },             /* a character device is read */
    { 8, 8, "q" },              /* a disk's request */
    { 9, 9, "b4a" },            /* a packet */
    { 10, 21, "" },             /* shutdown */
    { 22, 22, "4c" },
    { 23, 23, "a" },
    { 24, 24, "4" },
    { 25, 25, "8" },            /* audio */
    { 26, 26, "s" },
    { 27, 27, "4a" },           /* random numbers */
    { 28, 29, "8" },            /* clocks */
    { 30, 38, "" },             /* checkpoints */
    { 39, 39, "w" },            /* which vCPU */
};

/* Bytes of the kinds of input, and of a key by how it is named */
static const unsigned inputs[] = { 0, 5, 12, 12, 32 };
static const unsigned keys[] = { 9, 5 };

#define FIRST_UNKNOWN   41u     /* after the event that ends a log */
#define LAST            40u

static void put(GByteArray *log, uint64_t n, unsigned bytes)
{
    while (bytes--) {
        g_byte_array_append(log, &(guint8) { n >> (8 * bytes) }, 1);
    }
}

static void put_random(GByteArray *log, uint64_t bytes)
{
    while (bytes--) {
        put(log, g_test_rand_int(), 1);
    }
}

static uint64_t number_of(unsigned bytes)
{
    uint64_t n = (uint64_t)(uint32_t)g_test_rand_int() << 32 |
                 (uint32_t)g_test_rand_int();

    return bytes < 8 ? n & ((UINT64_C(1) << (8 * bytes)) - 1) : n;
}

static void put_input(GByteArray *log)
{
    unsigned kind = g_test_rand_int_range(0, G_N_ELEMENTS(inputs));
    unsigned key = g_test_rand_int_range(0, G_N_ELEMENTS(keys));

    put(log, kind, 4);
    if (!kind) {
        put(log, key, 4);
    }
    put_random(log, kind ? inputs[kind] : keys[key]);
}

static void put_part(GByteArray *log, char part, struct log_event *e)
{
    switch (part) {
    case '1':
    case '4':
    case '8':
        put_random(log, part - '0');
        break;
    case 'b':
    case 'w':
    case 'q':
        e->number = number_of(part == 'b' ? 1 : part == 'w' ? 4 : 8);
        put(log, e->number, part == 'b' ? 1 : part == 'w' ? 4 : 8);
        break;
    case 'c':
        e->bytes = number_of(4);
        put(log, e->bytes, 4);
        break;
    case 'a':
        e->bytes = g_test_rand_int_range(0, 20);
        put(log, e->bytes, 4);
        put_random(log, e->bytes);
        break;
    case 's':
        e->bytes = g_test_rand_int_range(0, 5);
        put(log, e->bytes, 8);
        put_random(log, 8 + 16 * e->bytes);
        break;
    case 'i':
        put_input(log);
        break;
    default:
        g_assert_not_reached();
    }
}

static struct log_event put_event(GByteArray *log, const struct layout *l)
{
    struct log_event e = {
        .type = g_test_rand_int_range(l->first, l->last + 1),
    };

    put(log, e.type, 1);
    for (const char *part = l->parts; *part; part++) {
        put_part(log, *part, &e);
    }
    return e;
}

/**
 * struct sample - a log
 * @events: in it
 * @ends:   where each of them ends
 */
struct sample {
    GByteArray *log;
    struct log_event events[EVENTS];
    unsigned ends[EVENTS];
};

static GByteArray *new_log(void)
{
    GByteArray *log = g_byte_array_new();

    put(log, VERSION, 4);
    put_random(log, 8);
    return log;
}

/* Some of all kinds */
static struct sample make_sample(void)
{
    struct sample s = { .log = new_log() };

    for (unsigned i = 0; i < EVENTS; i++) {
        unsigned kind = i < G_N_ELEMENTS(layouts) ? i :
            (unsigned)g_test_rand_int_range(0, G_N_ELEMENTS(layouts));

        s.events[i] = put_event(s.log, &layouts[kind]);
        s.ends[i] = s.log->len;
    }
    put(s.log, LAST, 1);
    return s;
}

static FILE *open_log(const GByteArray *log, unsigned size)
{
    /* It cannot be of no bytes. */
    FILE *file = size ? fmemopen(log->data, size, "r") :
                        fopen("/dev/null", "r");

    g_assert_nonnull(file);
    return file;
}

static void check_event(const struct log_event *e, const struct log_event *o)
{
    g_assert_cmpuint(e->type, ==, o->type);
    g_assert_cmpuint(e->number, ==, o->number);
    g_assert_cmpuint(e->bytes, ==, o->bytes);
}

/* Events @from to before @to are read; then nothing is. */
static void check_read(struct log_reader *r, const struct sample *s,
                       unsigned from, unsigned to)
{
    struct log_event e;

    for (unsigned i = from; i < to; i++) {
        g_assert_true(log_reader_next(r, &e));
        check_event(&e, &s->events[i]);
    }
    g_assert_false(log_reader_next(r, &e));
    if (r->ended) {
        g_assert_false(log_reader_next(r, &e));
    }
}

static void test_all(void)
{
    static const struct log_start start;

    for (unsigned round = 0; round < 50; round++) {
        struct sample s = make_sample();
        FILE *file = open_log(s.log, s.log->len);
        struct log_reader r;

        log_reader_begin(&r, file, &start);
        check_read(&r, &s, 0, EVENTS);
        g_assert_false(r.ended);
        g_assert_false(r.bad);
        fclose(file);
        g_byte_array_unref(s.log);
    }
}

/* All that is whole is read, and that it ends is said. */
static void test_cut(void)
{
    static const struct log_start start;
    struct sample s = make_sample();
    unsigned n = 0;

    for (unsigned size = 0; size < s.log->len; size++) {
        FILE *file = open_log(s.log, size);
        struct log_reader r;

        while (n < EVENTS && s.ends[n] <= size) {
            n++;
        }
        log_reader_begin(&r, file, &start);
        check_read(&r, &s, 0, n);
        g_assert_true(r.ended);
        if (size >= 4) {
            g_assert_false(r.bad);
        }
        fclose(file);
    }
    g_assert_cmpuint(n, ==, EVENTS);
    g_byte_array_unref(s.log);
}

/* From any event on; and from where the file has none */
static void test_start(void)
{
    struct sample s = make_sample();

    for (unsigned i = 0; i < EVENTS; i++) {
        const struct log_start start = { .offset = s.ends[i] };
        FILE *file = open_log(s.log, s.log->len);
        struct log_reader r;

        log_reader_begin(&r, file, &start);
        check_read(&r, &s, i + 1, EVENTS);
        g_assert_false(r.ended);
        g_assert_false(r.bad);
        fclose(file);
    }
    for (unsigned i = 0; i < 3; i++) {
        const uint64_t offsets[] = {
            s.log->len, UINT64_MAX, UINT64_C(1) << 63,
        };
        const struct log_start start = { .offset = offsets[i] };
        FILE *file = open_log(s.log, s.log->len);
        struct log_reader r;

        log_reader_begin(&r, file, &start);
        check_read(&r, &s, 0, 0);
        g_assert_true(r.ended);
        fclose(file);
    }
    g_byte_array_unref(s.log);
}

/* Is a log with these events bad, or does it end too early? */
static void check_bad(GByteArray *log, bool bad, bool ended)
{
    static const struct log_start start;
    FILE *file = open_log(log, log->len);
    struct log_reader r;
    struct log_event e;

    log_reader_begin(&r, file, &start);
    g_assert_false(log_reader_next(&r, &e));
    g_assert_cmpint(r.bad, ==, bad);
    g_assert_cmpint(r.ended, ==, ended);
    g_assert_false(log_reader_next(&r, &e));
    fclose(file);
    g_byte_array_unref(log);
}

static void test_bad(void)
{
    GByteArray *log;

    /* Of another QEMU */
    for (unsigned bit = 0; bit < 32; bit++) {
        log = g_byte_array_new();
        put(log, VERSION ^ 1u << bit, 4);
        put(log, 0, 8);
        put(log, LAST, 1);
        check_bad(log, true, false);
    }
    for (unsigned type = FIRST_UNKNOWN; type < 256; type++) {
        log = new_log();
        put(log, type, 1);
        put_random(log, 20);
        check_bad(log, true, false);
    }
    /* Kinds of input, and of keys, that there are not */
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned bit = i ? 1 : 3; bit < 32; bit++) {
            log = new_log();
            put(log, 5, 1);
            if (i) {
                put(log, 0, 4);
            }
            put(log, 1u << bit | (i ? 0 : 7), 4);
            put_random(log, 40);
            check_bad(log, true, false);
        }
    }
}

/* Sizes that no file has are not waited for. */
static void test_large(void)
{
    static const struct {
        unsigned type, before, size;
    } events[] = {
        { 7, 1, 4 }, { 9, 5, 4 }, { 23, 0, 4 }, { 26, 0, 8 }, { 27, 4, 4 },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(events); i++) {
        GByteArray *log = new_log();

        put(log, events[i].type, 1);
        put_random(log, events[i].before);
        put(log, UINT64_MAX, events[i].size);
        put_random(log, 100);
        check_bad(log, false, true);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/log-reader/all", test_all);
    g_test_add_func("/log-reader/cut", test_cut);
    g_test_add_func("/log-reader/start", test_start);
    g_test_add_func("/log-reader/bad", test_bad);
    g_test_add_func("/log-reader/large", test_large);
    return g_test_run();
}
