/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The stream of a vCPU: what it says of events of a flow, and of times
 */

#include <inttypes.h>

#include "backtrail/code.h"
#include "backtrail/words.h"
#include "pt/vcpu-trace.h"
#include "trace-samples.h"
#include "util/clock.h"

#define CODE    UINT64_C(0x401000)
#define CR3     0x5000

struct rig {
    char *path;
    struct btrail_store *store;
    struct output *output;
    struct frozen_pages *pages;
    struct vcpu_trace *v;
    uint8_t code[4096];
};

static enum pt_code_result read_code(void *opaque, uint64_t cr3,
                                     uint64_t address,
                                     const struct pt_moment *moment,
                                     struct pt_code *code)
{
    struct rig *r = opaque;

    *code = (struct pt_code){
        .bytes = r->code, .size = sizeof(r->code),
        .tsc = UINT64_MAX, .records = UINT64_MAX,
    };
    return PT_CODE_READ;
}

static void begin(struct rig *r, const struct vcpu_trace_clock *clock,
                  bool wrapped)
{
    struct btrail_store_options options = { 0 };
    struct vcpu_trace_options o = {
        .vcpu = 3, .clock = clock, .wrapped = wrapped,
        .code = read_code, .code_opaque = r,
    };

    *r = (struct rig){ .path = sample_path() };
    options.path = r->path;
    g_assert_cmpint(btrail_store_open(&r->store, &options), ==, 0);
    o.output = r->output = output_new(r->store, NULL, 3);
    o.pages = r->pages = frozen_pages_new(r->output);
    r->v = vcpu_trace_new(&o);
}

static void give(struct rig *r, unsigned n, const struct pt_flow_event *e,
                 unsigned n_events)
{
    struct btrail_record records[8];

    for (unsigned i = 0; i < n; i++) {
        records[i] = (struct btrail_record){ .from = CODE, .to = CODE };
    }
    vcpu_trace_give(r->v, records, n, e, n_events);
}

/* The trace's events as text, with the number of records between them */
static char *end(struct rig *r)
{
    g_autoptr(GString) text = g_string_new(NULL);
    struct btrail_cursor *cursor;
    struct btrail_trace *trace;
    struct btrail_batch b;

    vcpu_trace_end(r->v, BTRAIL_END_STOPPED, 99);
    g_assert_cmpint(vcpu_trace_error(r->v), ==, 0);
    vcpu_trace_free(r->v);
    frozen_pages_flush(r->pages);
    frozen_pages_free(r->pages);
    output_finish(r->output);
    output_free(r->output);
    g_assert_cmpint(btrail_store_close(r->store, NULL), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, r->path), ==, 0);
    g_assert_cmpint(btrail_cursor_open(&cursor, trace, 3, 0), ==, 0);
    while (!btrail_cursor_next(cursor, &b)) {
        if (b.count) {
            g_string_append_printf(text, "%zu ", b.count);
        }
        if (b.event && b.event->type == BTRAIL_EVENT_GAP) {
            g_string_append_printf(text, "gap:%s/%" PRIu64 " ",
                                   btrail_reason_name(b.event->type,
                                                      b.event->reason),
                                   b.event->data[1]);
        } else if (b.event) {
            g_string_append_printf(text, "%s:%" PRIu64 " ",
                                   btrail_event_name(b.event->type),
                                   b.event->data[0]);
        }
    }
    btrail_cursor_close(cursor);
    btrail_trace_close(trace);
    return g_string_free(g_steal_pointer(&text), FALSE);
}

static void test_events(void)
{
    const struct vcpu_trace_clock clock = { .begin = 7 };
    const struct pt_flow_event events[] = {
        { .type = PT_FLOW_GAP, .gap = PT_GAP_BEGIN, .value = 16 },
        { .type = PT_FLOW_CR3, .value = CR3 },
        { .type = PT_FLOW_GAP, .gap = PT_GAP_RING, .value = 44, .at = 2 },
    };
    g_autofree char *text = NULL;
    struct rig r;

    begin(&r, &clock, true);
    give(&r, 3, events, G_N_ELEMENTS(events));
    vcpu_trace_event(r.v, BTRAIL_EVENT_PAUSE, BTRAIL_PAUSE_VM_STOP, 50);
    vcpu_trace_event(r.v, BTRAIL_EVENT_RESUME, BTRAIL_PAUSE_VM_STOP, 60);
    give(&r, 1, NULL, 0);
    vcpu_trace_gap(r.v, BTRAIL_GAP_PT_RING, 1000);
    text = end(&r);
    g_assert_cmpstr(text, ==, "gap:overwritten/0 cr3:20480 time:7 2 "
                    "gap:ring-full/44 1 pause:50 resume:60 1 "
                    "gap:ring-full/1000 end:99 ");
    sample_remove(r.path);
}

/* Of a guest that runs, times are after that at which its clock was read. */
static void test_times(void)
{
    const uint64_t now = clock_ns();
    struct vcpu_trace_clock clock = {
        .hz = 1000000000, .tsc = 5000000, .ns = now - 1000000,
        .begin = now - 2000000,
    };
    const struct pt_flow_event events[] = {
        { .type = PT_FLOW_TIME, .value = 4900000 },
        { .type = PT_FLOW_TIME, .value = 5100000, .at = 1 },
        /* It has not come yet. */
        { .type = PT_FLOW_TIME, .value = UINT64_C(5000000) << 20, .at = 2 },
        { .type = PT_FLOW_TIME, .value = 4800000, .at = 3 },
    };

    for (unsigned runs = 0; runs < 2; runs++) {
        g_autofree char *text = NULL, *expected = NULL;
        struct vcpu_trace_count count;
        struct rig r;

        clock.runs = runs;
        begin(&r, &clock, false);
        give(&r, 4, events, G_N_ELEMENTS(events));
        count = vcpu_trace_counted(r.v);
        g_assert_cmpuint(count.first, ==, clock.ns - 100000);
        g_assert_cmpuint(count.times, ==, 3 - runs);
        text = end(&r);
        expected = runs ?
            g_strdup_printf("time:%" PRIu64 " 1 time:%" PRIu64 " 3 end:99 ",
                            clock.ns - 100000, clock.ns + 100000) :
            g_strdup_printf("time:%" PRIu64 " 4 end:99 ", clock.ns - 100000);
        g_assert_cmpstr(text, ==, expected);
        sample_remove(r.path);
    }
}

static void check_code(const struct rig *r, uint64_t index, int byte)
{
    struct btrail_trace *trace;
    struct btrail_code *code;
    uint8_t got = 0;
    int n;

    g_assert_cmpint(btrail_trace_open(&trace, r->path), ==, 0);
    g_assert_cmpint(btrail_code_open(&code, trace), ==, 0);
    n = btrail_code_read(code, 3, index, CR3, CODE, &got, 1);
    g_assert_cmpint(n, ==, 1);
    g_assert_cmpint(got, ==, byte);
    btrail_code_close(code);
    btrail_trace_close(trace);
}

/* Records that are held may be of the code before. */
static void test_change(void)
{
    const struct vcpu_trace_clock clock = { .begin = 7 };
    const struct pt_flow_event cr3 = { .type = PT_FLOW_CR3, .value = CR3 };
    g_autofree char *text = NULL;
    struct rig r;

    begin(&r, &clock, false);
    r.code[0] = 1;
    give(&r, 2, &cr3, 1);
    r.code[0] = 2;
    vcpu_trace_change(r.v, CR3, CODE, 3);
    give(&r, 8, NULL, 0);
    text = end(&r);
    check_code(&r, 0, 1);
    check_code(&r, 4, 1);
    check_code(&r, 5, 2);
    sample_remove(r.path);
}

static void test_reasons(void)
{
    for (enum pt_gap gap = PT_GAP_BEGIN; gap < PT_GAPS; gap++) {
        g_assert_nonnull(btrail_reason_name(BTRAIL_EVENT_GAP,
                                            vcpu_trace_reason(gap, false)));
        g_assert_cmpuint(vcpu_trace_reason(gap, true), ==,
                         gap == PT_GAP_BEGIN ? BTRAIL_GAP_OVERWRITTEN :
                         vcpu_trace_reason(gap, false));
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/vcpu-trace/events", test_events);
    g_test_add_func("/vcpu-trace/times", test_times);
    g_test_add_func("/vcpu-trace/change", test_change);
    g_test_add_func("/vcpu-trace/reasons", test_reasons);
    return g_test_run();
}
