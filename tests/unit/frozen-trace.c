/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Frozen rings to a trace: hand-made streams of code that is written here
 */

#include <inttypes.h>
#include <string.h>

#include "backtrail/code.h"
#include "backtrail/words.h"
#include "pt-samples.h"
#include "pt/frozen-trace.h"
#include "trace-samples.h"
#include "util/json.h"

#define CODE    0x401000
#define KERNEL  UINT64_C(0xffffffff81000000)
#define CR3     0x5000
#define GONE    0x6000          /* its page tables are not there any more */

static uint8_t pages[2][4096];

static void put(uint64_t address, const char *hex)
{
    g_autoptr(GByteArray) bytes = g_byte_array_new();

    pt_put(bytes, hex);
    memcpy(pages[address >> 63] + address % 4096, bytes->data, bytes->len);
}

static void make_code(void)
{
    memset(pages, 0xcc, sizeof(pages));
    put(CODE, "90 7405 eb0b");          /* nop; je 401008; jmp 401010 */
    put(CODE + 8, "eb06");              /* jmp 401010 */
    put(CODE + 0x10, "ffe0");           /* jmp *%rax */
    put(KERNEL, "90 48cf");             /* nop; iretq */
    put(KERNEL + 0x10, "0f22d8 48cf");  /* mov %rax,%cr3; iretq */
}

static enum pt_code_result read_code(void *opaque, uint64_t cr3,
                                     uint64_t address,
                                     const struct pt_moment *moment,
                                     struct pt_code *code)
{
    if (!(address >> 63) && (cr3 == GONE || address >> 12 != CODE >> 12)) {
        return PT_CODE_UNREADABLE;
    }
    *code = (struct pt_code){
        .bytes = pages[address >> 63] + address % 4096,
        .size = 4096 - address % 4096,
        .tsc = UINT64_MAX, .records = UINT64_MAX,
    };
    return PT_CODE_READ;
}

static GByteArray *new_stream(void)
{
    GByteArray *s = g_byte_array_new();

    pt_put_psb(s, PT_MODE_64, CR3, true, CODE);
    return s;
}

/* A stream in two pieces, cut at @at */
static struct frozen_stream stream(const GByteArray *s, unsigned vcpu,
                                   size_t at)
{
    return (struct frozen_stream){
        .vcpu = vcpu, .bytes = { s->data, s->data + at },
        .size = { at, s->len - at }, .code = read_code,
    };
}

/* Returns the path of the trace. */
static char *write_trace(const struct frozen_options *o,
                         const struct frozen_stream *streams, unsigned n,
                         struct frozen_count *count)
{
    char *path = sample_path();
    const struct btrail_store_options options = { .path = path };
    struct btrail_store *store;
    struct output *output;

    g_assert_cmpint(btrail_store_open(&store, &options), ==, 0);
    output = output_new(store, NULL, frozen_trace_blocks(n));
    g_assert_cmpint(frozen_trace_write(output, o, streams, n, count), ==, 0);
    output_finish(output);
    output_free(output);
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
    g_assert_cmpuint(count->flow.decoded + count->flow.skipped +
                     count->flow.host, <=, count->size);
    g_assert_cmpint(count->flow.decoded + count->flow.skipped +
                    count->flow.host == count->size, ==, !count->ended);
    return path;
}

static void show_fault(void *opaque, const struct btrail_fault *f)
{
    g_test_message("vCPU %u, record %" PRIu64 ": %s", f->vcpu, f->index,
                   f->text);
}

static struct btrail_trace *open_trace(const char *path)
{
    struct btrail_verify_result v;
    struct btrail_trace *trace;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_verify(trace, 1, show_fault, NULL, &v), ==, 0);
    g_assert_cmpuint(v.faults + v.damage, ==, 0);
    return trace;
}

/* Text of a stream: "FROM>TO", "cr3:N", "gap:REASON/BYTES", "time:NS/TSC" */
static char *text_of(struct btrail_trace *trace, unsigned vcpu)
{
    g_autoptr(GString) text = g_string_new(NULL);
    struct btrail_cursor *cursor;
    struct btrail_batch b;

    g_assert_cmpint(btrail_cursor_open(&cursor, trace, vcpu, 0), ==, 0);
    while (!btrail_cursor_next(cursor, &b)) {
        const struct btrail_event *e = b.event;

        for (size_t i = 0; i < b.count; i++) {
            g_assert_cmphex(b.records[i].flags, ==, 0);
            g_string_append_printf(text, "%" PRIx64 ">%" PRIx64 " ",
                                   b.records[i].from, b.records[i].to);
        }
        if (!e) {
            continue;
        }
        g_assert_false(b.synthetic);
        switch (e->type) {
        case BTRAIL_EVENT_CR3:
            g_string_append_printf(text, "cr3:%" PRIx64 " ", e->data[0]);
            break;
        case BTRAIL_EVENT_TIME:
            g_assert_true(e->data[2] == BTRAIL_NO_ICOUNT);
            g_string_append_printf(text, "time:%" PRIu64 "/%" PRIu64 " ",
                                   e->data[0], e->data[1]);
            break;
        case BTRAIL_EVENT_GAP:
            g_assert_true(e->data[0] == BTRAIL_LOST_UNKNOWN);
            g_string_append_printf(text, "gap:%s/%" PRIu64 " ",
                                   btrail_reason_name(e->type, e->reason),
                                   e->data[1]);
            break;
        default:
            g_string_append_printf(text, "%s ", btrail_event_name(e->type));
            break;
        }
    }
    btrail_cursor_close(cursor);
    return g_string_free(g_steal_pointer(&text), FALSE);
}

static void check_text(struct btrail_trace *trace, unsigned vcpu,
                       const char *expected)
{
    g_autofree char *text = text_of(trace, vcpu);

    g_assert_cmpstr(text, ==, expected);
}

static void test_streams(void)
{
    g_autoptr(GByteArray) a = new_stream(), b = new_stream();
    struct frozen_options o = { .clock = { 0 } };
    struct frozen_stream streams[2];
    struct frozen_count count;
    struct btrail_trace *trace;
    struct btrail_code *code;
    uint8_t byte;
    char *path;

    pt_put_tnt(a, "t");
    pt_put_ip(a, PT_TIP, 2, 0x1000);
    pt_put_ip(a, PT_FUP, 2, 0x1001);
    pt_put_ip(a, PT_TIP, 6, KERNEL + 0x10);
    /* To a process that has ended, and from it */
    pt_put_pip(a, GONE, true);
    pt_put_ip(a, PT_TIP, 6, CODE);
    pt_put_tnt(a, "t");
    pt_put_ip(a, PT_FUP, 2, 0x1001);
    pt_put_ip(a, PT_TIP, 6, KERNEL + 0x10);
    pt_put_pip(a, CR3, true);
    pt_put_ip(a, PT_TIP, 6, CODE + 0x10);
    pt_put_ip(a, PT_TIP, 2, 0x1000);
    pt_put_tnt(b, "n");
    pt_put_ip(b, PT_TIP, 2, 0x1000);
    pt_put(b, "02f3");                  /* OVF */
    pt_put_tnt(b, "n");
    pt_put_psb(b, PT_MODE_64, 0x7000, true, CODE);
    pt_put_tnt(b, "t");
    pt_put_ip(b, PT_TIP, 2, 0x1000);
    streams[0] = stream(a, 0, 40);
    streams[1] = stream(b, 3, b->len);
    streams[1].wrapped = true;
    for (o.threads = 0; o.threads < 3; o.threads++) {
        path = write_trace(&o, streams, 2, &count);
        trace = open_trace(path);
        check_text(trace, 0,
                   "gap:not-traced/35 cr3:5000 time:1/0 "
                   "401001>401008 401008>401010 "
                   "401010>401000 401001>ffffffff81000010 cr3:6000 "
                   "ffffffff81000013>401000 gap:code-unreadable/11 "
                   "cr3:6000 cr3:5000 "
                   "ffffffff81000013>401010 401010>401000 end ");
        check_text(trace, 3,
                   "gap:overwritten/0 cr3:5000 time:1/0 "
                   "401003>401010 401010>401000 "
                   "gap:packets-lost/36 cr3:7000 401001>401008 "
                   "401008>401010 401010>401000 end ");
        g_assert_cmpuint(count.spaces.seen, ==, 3);
        g_assert_cmpuint(count.spaces.never, ==, 1);
        g_assert_false(count.spaces.more);
        g_assert_false(count.ended);
        g_assert_cmpuint(count.first, ==, 1);
        g_assert_cmpuint(count.flow.gaps[PT_GAP_UNREADABLE], ==, 1);
        /* User's and kernel's of vCPU 0, user's in two spaces of vCPU 3 */
        g_assert_cmpuint(count.pages, ==, 4);
        g_assert_cmpint(btrail_code_open(&code, trace), ==, 0);
        g_assert_cmpint(btrail_code_read(code, 0, 0, CR3, CODE + 1, &byte, 1),
                        ==, 1);
        g_assert_cmphex(byte, ==, 0x74);
        g_assert_cmpint(btrail_code_read(code, 0, 9, GONE, CODE, &byte, 1),
                        ==, 0);
        btrail_code_close(code);
        btrail_trace_close(trace);
        sample_remove(path);
    }
}

/* How many records a stream has, which has an END event */
static uint64_t count_records(struct btrail_trace *trace, unsigned vcpu)
{
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    uint64_t n = 0;
    bool ended = false;

    g_assert_cmpint(btrail_cursor_open(&cursor, trace, vcpu, 0), ==, 0);
    while (!btrail_cursor_next(cursor, &b)) {
        g_assert_false(ended);
        n += b.count;
        ended = b.event && b.event->type == BTRAIL_EVENT_END;
    }
    btrail_cursor_close(cursor);
    g_assert_true(ended);
    return n;
}

/* Code of 16 and 32 bits of a guest that is not in IA-32e mode has labels. */
static void test_modes(void)
{
    g_autoptr(GByteArray) s = g_byte_array_new();
    struct frozen_options o = {
        .flow = { .modes = true, .linear = true }, .pae = true,
    };
    struct frozen_stream one;
    struct frozen_count count;
    struct btrail_trace *trace;
    char *path;

    pt_put_psb(s, PT_MODE_32, CR3, true, CODE);
    pt_put_tnt(s, "t");
    pt_put_mode(s, PT_MODE_16);
    pt_put_ip(s, PT_TIP, 2, CODE & 0xffff);
    pt_put_tnt(s, "t");
    pt_put_ip(s, PT_TIP, 2, CODE & 0xffff);
    one = stream(s, 0, 0);
    path = write_trace(&o, &one, 1, &count);
    trace = open_trace(path);
    check_text(trace, 0, "gap:not-traced/35 cr3:8400000000005000 time:1/0 "
               "401001>401008 401008>401010 401010>401000 "
               "cr3:8800000000005000 "
               "401001>401008 401008>401010 401010>401000 end ");
    btrail_trace_close(trace);
    sample_remove(path);
    o.flow.modes = false;
    path = write_trace(&o, &one, 1, &count);
    trace = open_trace(path);
    check_text(trace, 0, "gap:not-traced/35 cr3:8000000000005000 time:1/0 "
               "401001>401008 401008>401010 401010>401000 "
               "401001>401008 401008>401010 401010>401000 end ");
    btrail_trace_close(trace);
    sample_remove(path);
}

static void put_time(GByteArray *s, uint64_t tsc)
{
    pt_put_tsc(s, tsc);
    pt_put_tnt(s, "t");
    pt_put_ip(s, PT_TIP, 2, 0x1000);
}

static void test_times(void)
{
    g_autoptr(GByteArray) s = new_stream();
    struct frozen_options o = {
        .clock = { 2000000000, 10000000, 1000000000 }, .pae = true,
        .flow = { .time_step = 1 },
    };
    struct frozen_stream one;
    struct frozen_count count;
    struct btrail_trace *trace;
    g_autofree char *text = NULL;
    char *path;

    put_time(s, 1000000);
    put_time(s, 2000000);
    /* The guest has set its clock: back, and to after the end. */
    put_time(s, 1500000);
    put_time(s, 10000001);
    put_time(s, 10000000);
    one = stream(s, 0, 0);
    path = write_trace(&o, &one, 1, &count);
    trace = open_trace(path);
    check_text(trace, 0,
               "gap:not-traced/35 cr3:8000000000005000 "
               "time:995500000/1000000 "
               "401001>401008 401008>401010 401010>401000 "
               "time:996000000/2000000 "
               "401001>401008 401008>401010 401010>401000 "
               "401001>401008 401008>401010 401010>401000 "
               "401001>401008 401008>401010 401010>401000 "
               "time:1000000000/10000000 "
               "401001>401008 401008>401010 401010>401000 end ");
    g_assert_cmpuint(count.times, ==, 2);
    g_assert_cmpuint(count.first, ==, 995500000);
    btrail_trace_close(trace);
    sample_remove(path);

    /* Before the host has started; and so fast that nobody can say when */
    o.clock.ns = 4500000;
    o.clock.begin = 3;
    o.clock.tsc = UINT64_MAX;
    o.clock.hz = 1;
    o.pae = false;
    path = write_trace(&o, &one, 1, &count);
    trace = open_trace(path);
    text = text_of(trace, 0);
    g_assert_true(g_str_has_prefix(text, "gap:not-traced/35 cr3:5000 time:3/0 "
                                   "401001>401008 "));
    g_assert_cmpuint(count.times, ==, 5);
    btrail_trace_close(trace);
    sample_remove(path);
    /* Before the ring was begun: the guest had set its clock. */
    o.clock = (struct vcpu_trace_clock){
        2000000000, 10000000, 1000000000, 995600000,
    };
    path = write_trace(&o, &one, 1, &count);
    trace = open_trace(path);
    g_assert_cmpuint(count.times, ==, 3);
    g_assert_cmpuint(count.first, ==, 995600000);
    btrail_trace_close(trace);
    sample_remove(path);
    /* Without clock, nothing is said of times. */
    o.clock.hz = 0;
    path = write_trace(&o, &one, 1, &count);
    trace = open_trace(path);
    g_assert_cmpuint(count.times, ==, 0);
    g_assert_cmpuint(count.flow.records, ==, 15);
    btrail_trace_close(trace);
    sample_remove(path);
}

/* vCPUs whose TSCs differ have the same clock. */
static void test_ahead(void)
{
    const uint64_t aheads[] = { 0, 5000000, -UINT64_C(900000) };
    struct frozen_options o = {
        .clock = { 2000000000, 10000000, 1000000000 },
        .flow = { .time_step = 1 },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(aheads); i++) {
        g_autoptr(GByteArray) s = new_stream();
        g_autofree char *expected = g_strdup_printf(
            "gap:not-traced/35 cr3:5000 time:995500000/%" PRIu64 " "
            "401001>401008 401008>401010 401010>401000 end ",
            aheads[i] + 1000000);
        struct frozen_stream one;
        struct frozen_count count;
        struct btrail_trace *trace;
        char *path;

        put_time(s, aheads[i] + 1000000);
        one = stream(s, 0, 0);
        one.tsc_ahead = aheads[i];
        path = write_trace(&o, &one, 1, &count);
        trace = open_trace(path);
        check_text(trace, 0, expected);
        btrail_trace_close(trace);
        sample_remove(path);
    }
}

static bool end_soon(void *opaque, const struct frozen_progress *p)
{
    unsigned *calls = opaque;

    g_assert_cmpuint(p->bytes, <=, p->size);
    return ++*calls < 2;
}

static bool at_once(void *opaque, const struct frozen_progress *p)
{
    return false;
}

/* Many records; and it is ended before all are decoded. */
static void test_ended(void)
{
    g_autoptr(GByteArray) s = new_stream();
    struct frozen_options o = { .threads = 1 };
    struct frozen_stream streams[2];
    struct frozen_count count;
    struct btrail_trace *trace;
    unsigned calls = 0;
    char *path;

    while (s->len < 3 << 20) {
        pt_put_tnt(s, "t");
        pt_put_ip(s, PT_TIP, 2, 0x1000);
    }
    streams[0] = stream(s, 0, 1 << 20);
    streams[1] = stream(s, 1, s->len - 5);
    path = write_trace(&o, streams, 2, &count);
    trace = open_trace(path);
    for (unsigned i = 0; i < 2; i++) {
        g_assert_cmpuint(count_records(trace, i), ==, count.flow.records / 2);
    }
    g_assert_cmpuint(count.flow.records, ==, (s->len - 35) / 4 * 3 * 2);
    btrail_trace_close(trace);
    sample_remove(path);

    o.progress = at_once;
    path = write_trace(&o, streams, 2, &count);
    g_assert_true(count.ended);
    trace = open_trace(path);
    check_text(trace, 1, "gap:ring-full/3145731 end ");
    btrail_trace_close(trace);
    sample_remove(path);

    o.progress = end_soon;
    o.progress_opaque = &calls;
    path = write_trace(&o, streams, 2, &count);
    trace = open_trace(path);
    count_records(trace, 1);
    g_assert_cmpuint(count_records(trace, 0), <=, count.flow.records);
    btrail_trace_close(trace);
    sample_remove(path);
}

/* Bytes that are no stream, and none at all */
static void test_nothing(void)
{
    g_autoptr(GByteArray) s = g_byte_array_new();
    struct frozen_options o = { .threads = 0 };
    struct frozen_stream streams[2];
    struct frozen_count count;
    struct btrail_trace *trace;
    char *path;

    streams[0] = stream(s, 0, 0);
    streams[0].untraced = true;
    for (unsigned i = 0; i < 5000; i++) {
        const uint8_t byte = g_test_rand_int();

        g_byte_array_append(s, &byte, 1);
    }
    streams[1] = stream(s, 1, 100);
    path = write_trace(&o, streams, 2, &count);
    trace = open_trace(path);
    check_text(trace, 0, "gap:not-traced/0 end ");
    g_assert_cmpuint(count.first, ==, 0);
    g_assert_cmpuint(count.flow.skipped + count.flow.host, ==, 5000);
    btrail_trace_close(trace);
    sample_remove(path);
}

static void test_json(void)
{
    g_autoptr(GByteArray) s = new_stream();
    struct frozen_options o = { .clock = { .hz = 7 } };
    const struct frozen_stream streams[] = { stream(s, 4, 3), stream(s, 0, 3) };
    struct frozen_count count = {
        .size = 100, .pages = 9,
        .flow = { .decoded = 50, .skipped = 20, .host = 30, .records = 77,
                  .gaps = { [PT_GAP_LOST] = 2 } },
        .spaces = { 5, 1, false },
    };
    g_autoptr(JsonObject) meta = json_object_new();
    g_autoptr(JsonObject) pt = frozen_trace_count_json(&count);

    frozen_trace_describe(meta, &o, streams, 2);
    g_assert_cmpstr(btrail_json_string(meta, "producer"), ==, "pt");
    g_assert_false(json_object_has_member(meta, "overflow"));
    g_assert_cmpint(btrail_json_int(meta, "vcpus", 0), ==, 5);
    g_assert_cmpint(btrail_json_int(meta, "tsc_hz", 0), ==, 7);
    g_assert_cmpstr(btrail_json_string(btrail_json_object(meta, "pt_clock"),
                                       "packets"), ==, "tsc");
    g_assert_cmpint(btrail_json_int(meta, "buffer_size", 0), ==, 35);
    g_assert_cmpint(btrail_json_int(pt, "read", 0), ==, 100);
    g_assert_cmpint(btrail_json_int(pt, "decoded", 0), ==, 50);
    g_assert_cmpint(btrail_json_int(pt, "address_spaces", 0), ==, 5);
    g_assert_cmpint(btrail_json_int(pt, "never_decoded", 0), ==, 1);
    g_assert_cmpint(btrail_json_int(btrail_json_object(pt, "gaps"), "lost-way",
                                    0), ==, 2);
}

static void check_clock(const struct frozen_options *o, const char *packets,
                        gint64 step)
{
    g_autoptr(JsonObject) meta = json_object_new();
    JsonObject *clock;

    frozen_trace_describe(meta, o, NULL, 0);
    clock = btrail_json_object(meta, "pt_clock");
    if (!packets) {
        g_assert_null(clock);
        return;
    }
    g_assert_cmpstr(btrail_json_string(clock, "packets"), ==, packets);
    g_assert_cmpint(btrail_json_int(clock, "step", 0), ==, step);
}

/* Which packets say times, and how close */
static void test_clock(void)
{
    struct frozen_options o = { .clock = { .hz = 2000000000 } };

    check_clock(&o, "tsc", 0);
    /* They are there, and the frequencies are not known. */
    o.mtc = o.cyc = true;
    check_clock(&o, "tsc", 0);
    /* A crystal of 25 MHz, one MTC for 8 of its ticks: 320 ns; for 256 */
    o.flow.tsc_per_ctc[0] = 160;
    o.flow.tsc_per_ctc[1] = 2;
    o.flow.mtc_shift = 3;
    check_clock(&o, "mtc", 2048);
    o.flow.time_step = 1;
    check_clock(&o, "mtc", 320);
    o.flow.mtc_shift = 8;
    check_clock(&o, "mtc", 10240);
    o.flow.bus_ratio = 20;
    o.flow.time_step = 0;
    check_clock(&o, "cyc", 2048);
    o.cyc = false;
    check_clock(&o, "mtc", 10240);
    o.clock.hz = 1;
    o.flow.tsc_per_ctc[0] = UINT32_MAX;
    o.flow.mtc_shift = 15;
    check_clock(&o, "mtc", 1000000000000000000);
    o.flow.mtc_shift = 16;
    check_clock(&o, "tsc", 0);
    o.clock.hz = 0;
    check_clock(&o, NULL, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    make_code();
    g_test_add_func("/frozen-trace/streams", test_streams);
    g_test_add_func("/frozen-trace/modes", test_modes);
    g_test_add_func("/frozen-trace/times", test_times);
    g_test_add_func("/frozen-trace/ahead", test_ahead);
    g_test_add_func("/frozen-trace/ended", test_ended);
    g_test_add_func("/frozen-trace/nothing", test_nothing);
    g_test_add_func("/frozen-trace/json", test_json);
    g_test_add_func("/frozen-trace/clock", test_clock);
    return g_test_run();
}
