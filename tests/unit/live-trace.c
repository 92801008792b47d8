/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Streams that come while the guest changes its code: hand-made ones
 */

#include <glib.h>
#include <inttypes.h>
#include <string.h>

#include "fake-space.h"
#include "pt-samples.h"
#include "pt/live-trace.h"

#define CODE    UINT64_C(0x401000)
#define KERNEL  UINT64_C(0xffffffff81000000)
#define PAGES   64
#define FRAME   UINT64_C(0x000ffffffffff000)

/* What is given: at first, and of a round with the code as it is at first, and
 * as it is once it has changed */
#define BEGIN   "begin code-unreadable "
#define A       "0>10 10>0 "
#define B       "0>20 20>0 "

struct guest {
    struct fake_space space;
    struct guest_memory *memory;
    struct live_trace *trace;
    struct live_stream *stream;
    uint64_t cr3;
    uint64_t at;                /* of its code */
    uint64_t now;
    uint64_t fed;
    uint64_t since;             /* when the last bytes were fed */
    GString *text;              /* what was given */
    unsigned asked, changes;
    unsigned held;              /* at the last change */
};

static uint64_t now(void *opaque)
{
    struct guest *g = opaque;

    return g->now += 10;
}

static void give(void *opaque, const struct btrail_record *records, size_t n,
                 const struct pt_flow_event *events, size_t n_events)
{
    struct guest *g = opaque;
    size_t at = 0;

    for (size_t i = 0; i <= n_events; i++) {
        const struct pt_flow_event *e = i < n_events ? &events[i] : NULL;

        for (; at < (e ? e->at : n); at++) {
            g_string_append_printf(g->text, "%" PRIx64 ">%" PRIx64 " ",
                                   records[at].from - g->at,
                                   records[at].to - g->at);
        }
        if (e && e->type == PT_FLOW_GAP) {
            g_string_append_printf(g->text, "%s ", pt_gap_name(e->gap));
        }
    }
}

/* The code is asked for through this. */
static enum pt_code_result read_code(void *opaque, uint64_t cr3,
                                     uint64_t address,
                                     const struct pt_moment *moment,
                                     struct pt_code *code)
{
    struct guest *g = opaque;

    g->asked++;
    return live_trace_read(g->stream, cr3, address, moment, code);
}

static void change(void *opaque, uint64_t cr3, uint64_t page, unsigned held)
{
    struct guest *g = opaque;

    g_assert_cmphex(cr3, ==, g->cr3);
    g_assert_cmphex(page, ==, g->at);
    g->changes++;
    g->held = held;
}

/* Has code, in hex digits. */
static void put(struct guest *g, uint64_t address, const char *hex)
{
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    uint64_t table = g->cr3;

    pt_put(bytes, hex);
    fake_space_put(&g->space, g->cr3, address, bytes->data, bytes->len);
    for (unsigned shift = 39; shift >= 12; shift -= 9) {
        uint64_t *entry = (uint64_t *)(g->space.memory + table) +
                          (address >> shift & 511);

        *entry |= 4;
        table = *entry & FRAME;
    }
}

static void feed(struct guest *g, const uint8_t *p, size_t n)
{
    live_trace_feed(g->stream, p, n, g->since);
    g->fed += n;
    g->since = g->now;
}

/* Feeds a PSB, a branch that is taken, and a jump to the beginning. */
static void feed_round(struct guest *g, uint64_t fup)
{
    g_autoptr(GByteArray) s = g_byte_array_new();

    pt_put_psb(s, PT_MODE_64, g->cr3, true, g->at);
    pt_put_tnt(s, "t");
    if (fup) {
        pt_put_ip(s, PT_FUP, 2, fup);
        pt_put_ip(s, PT_TIP, 2, g->at);
    } else {
        pt_put_ip(s, PT_TIP, 2, g->at);
    }
    feed(g, s->data, s->len);
}

/* With code at an address; that of the kernel was always there. */
static void begin_at(struct guest *g, uint64_t at)
{
    struct live_trace_options o = {
        .code = { .levels = 4, .now = now, .now_opaque = g,
                  .always = at == KERNEL },
    };
    const struct live_trace_ops ops = { give, read_code, change, g, g };

    *g = (struct guest){ .now = 1000, .text = g_string_new(NULL), .at = at };
    fake_space_init(&g->space, PAGES);
    g->memory = fake_space_memory(&g->space);
    g->cr3 = fake_space_root(&g->space);
    g->trace = live_trace_new(g->memory, &o);
    g->stream = live_trace_add(g->trace, NULL);
    live_stream_begin(g->stream, &ops);
    put(g, at, "740e ffe0");                /* je +10; jmp *%rax */
    put(g, at + 0x10, "ffe0");              /* jmp *%rax */
    put(g, at + 0x20, "ffe0");
    /* Of what a program executes first it is not known whose it is. */
    feed_round(g, 0);
}

static void begin(struct guest *g)
{
    begin_at(g, CODE);
}

/* What was given since the last time */
static void check(struct guest *g, const char *expected)
{
    g_assert_cmpstr(g->text->str, ==, expected);
    g_string_truncate(g->text, 0);
}

static struct live_trace_count end(struct guest *g)
{
    struct live_trace_count count;

    live_trace_finish(g->trace);
    count = live_trace_counted(g->trace);
    g_assert_cmpuint(count.flow.decoded + count.flow.skipped + count.flow.host,
                     ==, g->fed);
    live_trace_free(g->trace);
    guest_memory_free(g->memory);
    fake_space_clear(&g->space);
    return count;
}

static void clear(struct guest *g)
{
    g_string_free(g->text, TRUE);
}

/* A page that has always been the same */
static void test_same(void)
{
    struct live_trace_count count;
    struct guest g;

    begin(&g);
    for (unsigned i = 0; i < 5; i++) {
        feed_round(&g, i % 2 ? 0 : CODE + 0x10);
        live_trace_decode(g.trace);
    }
    count = end(&g);
    check(&g, BEGIN A A A A A);
    g_assert_cmpuint(count.tried, ==, 0);
    g_assert_cmpuint(count.pieces, ==, 6);
    g_assert_cmpuint(count.flow.records, ==, 10);
    clear(&g);
}

/* What comes of code that has changed before it was decoded; @fup: a packet of
 * then */
static void run_change(uint64_t at, const char *code, uint64_t fup,
                       const char *expected, unsigned chosen)
{
    struct live_trace_count count;
    struct guest g;

    begin_at(&g, at);
    feed_round(&g, 0);
    feed_round(&g, 0);
    live_trace_decode(g.trace);
    live_trace_decode(g.trace);
    feed_round(&g, fup);            /* executed before or after the change */
    put(&g, at, code);
    live_trace_decode(g.trace);     /* what has no PSB after it waits */
    feed(&g, NULL, 0);
    feed_round(&g, 0);
    feed_round(&g, 0);
    live_trace_decode(g.trace);
    count = end(&g);
    check(&g, expected);
    g_assert_cmpuint(count.chosen, ==, chosen);
    clear(&g);
}

static void test_changed(void)
{
    /* The packets say which. */
    run_change(KERNEL, "741e", KERNEL + 0x10, "begin " A A A A B B, 1);
    run_change(KERNEL, "741e", KERNEL + 0x20, "begin " A A A B B B, 1);
    /* They do not; and neither is it. */
    run_change(KERNEL, "741e", 0, "begin " A A A "code-changed " B B, 0);
    run_change(KERNEL, "741e", KERNEL + 0x12,
               "begin " A A A "code-changed " B B, 0);
    /* A program that changes it once does so again. */
    run_change(CODE, "741e", CODE + 0x10,
               BEGIN A "code-changed code-changed code-changed code-changed ",
               0);
}

/* Cut anywhere, it is the same. */
static void test_pieces(void)
{
    g_autoptr(GByteArray) s = g_byte_array_new();
    g_autofree char *expected = NULL;

    for (unsigned i = 0; i < 20; i++) {
        pt_put_psb(s, PT_MODE_64, 0x1000, true, CODE);
        pt_put_tnt(s, "t");
        pt_put_ip(s, PT_TIP, 2, CODE);
        pt_put_tnt(s, "n");
        pt_put_ip(s, PT_TIP, 6, CODE);
        pt_put(s, i % 7 == 3 ? "02f3" : "00");
        pt_put(s, i % 7 == 5 ? "02ff" : "00");      /* no packet */
    }
    for (unsigned round = 0; round < 50; round++) {
        struct guest g;

        begin(&g);
        g_assert_cmphex(g.cr3, ==, 0x1000);
        for (unsigned at = 0, n; at < s->len; at += n) {
            n = round ? (unsigned)g_test_rand_int_range(0, 40) : s->len;
            n = MIN(n, s->len - at);
            feed(&g, s->data + at, n);
            if (!g_test_rand_int_range(0, 4)) {
                live_trace_decode(g.trace);
            }
        }
        g_assert_cmpuint(end(&g).pieces, >=, round ? 1 : 20);
        if (expected) {
            check(&g, expected);
        } else {
            expected = g_strdup(g.text->str);
        }
        clear(&g);
    }
    g_assert_nonnull(strstr(expected, "lost-way"));
    g_assert_nonnull(strstr(expected, "packets-lost"));
}

static void test_missing(void)
{
    struct guest g;

    begin(&g);
    feed_round(&g, 0);
    live_trace_missing(g.stream);
    feed_round(&g, 0);
    g_assert_cmpuint(end(&g).flow.gaps[PT_GAP_RING], ==, 1);
    check(&g, BEGIN A "ring-full " A);
    clear(&g);
}

/* What has come is decoded where it ends, too. */
static void test_flush(void)
{
    g_autoptr(GByteArray) s = g_byte_array_new();
    struct guest g;

    begin_at(&g, KERNEL);
    feed_round(&g, 0);
    feed_round(&g, 0);
    live_trace_flush(g.trace);
    check(&g, "begin " A A A);
    live_trace_flush(g.trace);
    check(&g, "");
    /* In the middle of a packet, with a record that nothing confirms yet */
    pt_put_psb(s, PT_MODE_64, g.cr3, true, KERNEL);
    pt_put_tnt(s, "t");
    pt_put_ip(s, PT_TIP, 2, KERNEL);
    feed(&g, s->data, s->len - 1);
    live_trace_flush(g.trace);
    check(&g, "");
    g_assert_cmpuint(g.changes, ==, 0);
    put(&g, KERNEL, "741e");
    feed(&g, s->data + s->len - 1, 1);
    live_trace_flush(g.trace);
    check(&g, "");
    g_assert_cmpuint(g.changes, >, 0);
    g_assert_cmpuint(g.held, ==, 1);
    g_assert_cmpuint(g.asked, >, 0);
    feed(&g, NULL, 0);
    feed_round(&g, 0);
    end(&g);
    /* No PSB, so both contents are not tried. */
    check(&g, "code-changed " B);
    clear(&g);
}

/* The code of a process that has ended before its stream is decoded */
static void test_gone(void)
{
    struct guest g;

    begin(&g);
    feed_round(&g, 0);
    feed_round(&g, 0);
    g.now += 1000000;
    feed(&g, NULL, 0);
    memset(g.space.memory + g.cr3, 0, GUEST_PAGE_SIZE);
    live_trace_decode(g.trace);
    end(&g);
    check(&g, BEGIN A A );
    clear(&g);
}

/* Any bytes */
static void test_noise(void)
{
    for (unsigned round = 0; round < 50; round++) {
        g_autoptr(GByteArray) s = g_byte_array_new();
        struct guest g;

        begin(&g);
        for (unsigned i = 0; i < 40; i++) {
            g_byte_array_set_size(s, 0);
            if (i % 4 == 1) {
                pt_put_psb(s, PT_MODE_64, g.cr3, true, CODE);
            }
            for (unsigned k = g_test_rand_int_range(0, 60); k; k--) {
                const uint8_t byte = g_test_rand_int_range(0, 256);

                g_byte_array_append(s, &byte, 1);
            }
            feed(&g, s->data, s->len);
            if (i % 8 == 7) {
                live_trace_decode(g.trace);
            } else if (i % 16 == 2) {
                live_trace_missing(g.stream);
            }
        }
        end(&g);
        clear(&g);
    }
    live_trace_free(NULL);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/live-trace/same", test_same);
    g_test_add_func("/live-trace/changed", test_changed);
    g_test_add_func("/live-trace/pieces", test_pieces);
    g_test_add_func("/live-trace/missing", test_missing);
    g_test_add_func("/live-trace/flush", test_flush);
    g_test_add_func("/live-trace/gone", test_gone);
    g_test_add_func("/live-trace/noise", test_noise);
    return g_test_run();
}
