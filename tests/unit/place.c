/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of place.c: what people write, and places of a trace that is made here
 */

#include <string.h>

#include "find/place.h"
#include "trace-samples.h"

static void check(const char *text, enum find_place_kind kind,
                  uint64_t number, const char *name, bool last)
{
    struct find_place p;
    g_autoptr(GError) error = NULL;

    find_place_parse(text, &p, &error);
    g_assert_no_error(error);
    g_assert_cmpint(p.kind, ==, kind);
    g_assert_cmpuint(p.number, ==, number);
    g_assert_cmpstr(p.name, ==, name);
    g_assert_cmpint(p.last, ==, last);
    find_place_clear(&p);
}

static void test_parse(void)
{
    check("0", FIND_PLACE_ICOUNT, 0, NULL, false);
    check("123456", FIND_PLACE_ICOUNT, 123456, NULL, false);
    check("1.5s", FIND_PLACE_TIME, 1500000000, NULL, false);
    check("1.5", FIND_PLACE_TIME, 1500000000, NULL, false);
    check("300ms", FIND_PLACE_TIME, 300000000, NULL, false);
    check("@77", FIND_PLACE_RECORD, 77, NULL, false);
    check("3:77", FIND_PLACE_RECORD, 77, NULL, false);
    check("panic", FIND_PLACE_FUNCTION, 1, "panic", false);
    check("kernel:panic", FIND_PLACE_FUNCTION, 1, "panic", false);
    check("panic#12", FIND_PLACE_FUNCTION, 12, "panic", false);
    check("last panic", FIND_PLACE_NAME, 1, "panic", true);
    check("first panic", FIND_PLACE_NAME, 1, "panic", false);
    check("last kernel:panic", FIND_PLACE_FUNCTION, 1, "panic", true);
    check("nginx:handler", FIND_PLACE_FUNCTION, 1, "handler", false);
    check("nginx:handler#3", FIND_PLACE_FUNCTION, 3, "handler", false);
    check("last my prog:main", FIND_PLACE_FUNCTION, 1, "main", true);
    check("last my prog", FIND_PLACE_PROCESS, 1, "my prog", true);
    check("first kworker/0:1", FIND_PLACE_PROCESS, 1, "kworker/0:1", false);
    check("cxx:shop::after", FIND_PLACE_FUNCTION, 1, "shop::after", false);
    check("shop::after(int, char)#2", FIND_PLACE_FUNCTION, 2,
          "shop::after(int, char)", false);
    check("first cxx:main::{lambda()#1}::operator()", FIND_PLACE_FUNCTION, 1,
          "main::{lambda()#1}::operator()", false);
    check("kworker/0:1:<A as b::C>::d", FIND_PLACE_FUNCTION, 1,
          "<A as b::C>::d", false);
    check("a(b:std::f[abi:cxx11](int)", FIND_PLACE_FUNCTION, 1,
          "std::f[abi:cxx11](int)", false);
    check("rs:shop::f::<':'>", FIND_PLACE_FUNCTION, 1, "shop::f::<':'>", false);
    check("srv:main.(*T).run", FIND_PLACE_FUNCTION, 1, "main.(*T).run", false);
    check("last exit of my prog", FIND_PLACE_EXIT, 1, "my prog", true);
    check("first exit of sh", FIND_PLACE_EXIT, 1, "sh", false);
}

static void check_mark(const char *text, const char *name,
                       enum mark_condition condition, uint64_t value,
                       uint64_t number, bool last)
{
    g_autoptr(GError) error = NULL;
    struct find_place p;

    find_place_parse(text, &p, &error);
    g_assert_no_error(error);
    g_assert_cmpint(p.kind, ==, FIND_PLACE_MARK);
    g_assert_cmpstr(p.mark.name, ==, name);
    g_assert_cmpint(p.mark.condition, ==, condition);
    g_assert_cmpuint(condition ? p.mark.value : 0, ==, value);
    g_assert_cmpuint(p.number, ==, number);
    g_assert_cmpint(p.last, ==, last);
    find_place_clear(&p);
}

static void test_marks(void)
{
    check_mark("mark:", "", MARK_ANY_VALUE, 0, 1, false);
    check_mark("mark:build begins", "build begins", MARK_ANY_VALUE, 0, 1,
               false);
    check_mark("mark:a=5", "a", MARK_EQUAL, 5, 1, false);
    check_mark("mark:a=0xff#3", "a", MARK_EQUAL, 255, 3, false);
    check_mark("mark:a>=7#2", "a", MARK_AT_LEAST, 7, 2, false);
    check_mark("mark:=5", "", MARK_EQUAL, 5, 1, false);
    check_mark("mark:a#b", "a#b", MARK_ANY_VALUE, 0, 1, false);
    check_mark("last mark:a b", "a b", MARK_ANY_VALUE, 0, 1, true);
    check_mark("last mark:a b<9", "a b", MARK_BELOW, 9, 1, true);
    check_mark("first mark:a=1", "a", MARK_EQUAL, 1, 1, false);
}

static void check_output(const char *text, const char *bytes, size_t n,
                         uint64_t number, bool last, bool one)
{
    struct find_place p;
    g_autoptr(GError) error = NULL;

    find_place_parse(text, &p, &error);
    g_assert_no_error(error);
    g_assert_cmpint(p.kind, ==, FIND_PLACE_OUTPUT);
    g_assert_cmpmem(p.name, p.length, bytes, n);
    g_assert_cmpuint(p.number, ==, number);
    g_assert_cmpint(p.last, ==, last);
    g_assert_cmpint(p.one, ==, one);
    find_place_clear(&p);
}

static void test_output(void)
{
    check_output("output \"login:\"", "login:", 6, 1, false, false);
    check_output("output  \"a b#2\"#3", "a b#2", 5, 3, false, true);
    check_output("first output \"a\"", "a", 1, 1, false, true);
    check_output("last output \"\\x00\\n\"", "\0\n", 2, 1, true, true);
    /* What has no quotation mark is a name, as it was. */
    check("output", FIND_PLACE_FUNCTION, 1, "output", false);
    check("output#2", FIND_PLACE_FUNCTION, 2, "output", false);
    check("last output", FIND_PLACE_NAME, 1, "output", true);
    check("last output of", FIND_PLACE_PROCESS, 1, "output of", true);
}

static void test_wrong(void)
{
    static const char *const wrong[] = {
        "", "-1", "@", "@x", "x:1", "1:", "99999:1", "panic#0",
        "panic#x", "last panic#2", "exit of sh", "last exit of",
        "a b", "#1", "nginx:", ":handler", "18446744073709551616", "/x",
        "last ", "mark:a#0", "last mark:a#2", "output login", "output \"",
        "output \"\"", "output \"a", "output \"a\"b", "output \"a\"#0",
        "output \"a\"#x", "output \"\\q\"", "last output \"a\"#2",
        "first output \"a\"x",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(wrong); i++) {
        struct find_place p;
        g_autoptr(GError) error = NULL;

        if (find_place_parse(wrong[i], &p, &error)) {
            g_error("'%s' is taken", wrong[i]);
        }
        g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
    }
}

#define DEAD_ADDRESS    0xffffffff81000100

/*
 * A trace of 200 records: every 10 a TIME event, i-th at 1000 * i ns of the
 * guest and 100 * i instructions; "one" (pid 5) has records 0 to 29 and 60 to
 * 89, "two" (pid 6) 30 to 59 and all from 90 on.  A second thread of each runs
 * once and ends, before the first one runs again: that of "one" at records 60
 * to 69, that of "two" at 30 to 39.  The first thread of "one" ends at its last
 * records.
 */
static void write_trace(const char *path, const char *symbols)
{
    const struct btrail_sideband_info info = {
        .kind = BTRAIL_SIDEBAND_SYMBOLS, .size = strlen(symbols),
    };
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==,
                    0);
    g_assert_cmpint(btrail_writer_sideband(w, &info, symbols), ==, 0);
    for (unsigned i = 0; i < 20; i++) {
        bool one = i < 3 || (i >= 6 && i < 9);
        bool second = i == 3 || i == 6;
        struct btrail_record records[10];
        struct btrail_event events[2] = {
            { .type = BTRAIL_EVENT_TIME, .index = i * 10,
              .data = { 1000000 + i, i * 1000, i * 100 } },
            { .type = BTRAIL_EVENT_TASK, .index = i * 10,
              .data = { (one ? 0x500000005 : 0x600000006) + second * 0x10 } },
        };
        const struct btrail_slab slab = {
            .first_index = i * 10, .records = records, .n_records = 10,
            .events = events, .n_events = 2,
        };

        memcpy(&events[1].data[1], one ? "one" : "two", 4);
        for (unsigned k = 0; k < 10; k++) {
            records[k] = (struct btrail_record) { 1000 + i, k, 0 };
        }
        if (second || i == 8) {
            records[5].to = DEAD_ADDRESS;
        }
        g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

static void find(const struct btrail_trace *trace, const char *text,
                 uint64_t icount, const char *why)
{
    struct find_place p;
    g_autoptr(GError) error = NULL;
    uint64_t found = 0;
    bool exact, ok;

    g_assert_true(find_place_parse(text, &p, NULL));
    ok = find_place_icount(&p, trace, NULL, &found, &exact, &error);
    find_place_clear(&p);
    if (why) {
        g_assert_false(ok);
        g_assert_nonnull(strstr(error->message, why));
    } else {
        g_assert_no_error(error);
        g_assert_cmpuint(found, ==, icount);
    }
}

/* The record that a place is after */
static void find_index(const struct btrail_trace *trace, const char *text,
                       uint64_t index)
{
    struct find_place p;
    g_autoptr(GError) error = NULL;
    struct moment at;

    g_assert_true(find_place_parse(text, &p, NULL));
    find_place_find(&p, trace, NULL, &at, &error);
    find_place_clear(&p);
    g_assert_no_error(error);
    g_assert_cmpuint(at.vcpu, ==, 0);
    g_assert_cmpuint(at.index, ==, index);
}

static void test_find(void)
{
    char *path = sample_path();
    struct btrail_trace *trace;

    write_trace(path, "ffffffff81000100 T do_task_dead\n"
                "ffffffff81000200 T other\n");
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    find(trace, "12345", 12345, NULL);
    find(trace, "0ns", 0, NULL);
    find(trace, "5us", 500, NULL);
    find(trace, "4001ns", 500, NULL);
    find(trace, "1s", 0, "not that long");
    find(trace, "@0", 0, NULL);
    find(trace, "0:57", 500, NULL);
    find(trace, "@199", 1900, NULL);
    find(trace, "@200", 0, "no record 200");
    find(trace, "1:0", 0, "no such vCPU");
    /* The last record of "one" is 89; "two" has not ended. */
    find(trace, "last exit of one", 800, NULL);
    find(trace, "first exit of one", 800, NULL);
    find(trace, "first one", 0, NULL);
    find(trace, "last one", 800, NULL);
    find(trace, "first two", 200, NULL);
    find(trace, "last two", 1900, NULL);
    find(trace, "last my prog", 0, "no process my prog");
    find(trace, "last exit of two", 0, "no process two has run and ended");
    find(trace, "one:main", 0, "main runs 0 times");
    find(trace, "last exit of three", 0, "no process three");
    find(trace, "panic", 0, "no function panic");
    find(NULL, "7", 7, NULL);
    find_index(trace, "@57", 57);
    find_index(trace, "4001ns", 49);
    find_index(trace, "0ns", 0);
    find_index(trace, "last exit of one", 89);
    find_index(trace, "first two", 29);
    find(NULL, "@7", 0, "no trace yet");
    btrail_trace_close(trace);
    sample_remove(path);
}

/* Moments of counts that share a reader are those that are found one by one. */
static void test_counts(void)
{
    enum { SLAB = 20, SLABS = 30, RECORDS = SLAB * SLABS };
    struct btrail_record records[RECORDS];
    const struct sample_slabs slabs = {
        .records = records, .n_records = SLAB, .n = SLABS, .counted = true,
        .in_chunk = 4,
    };
    char *path = sample_path();
    struct btrail_trace *trace;
    struct past *past;

    for (unsigned i = 0; i < RECORDS; i++) {
        records[i] = (struct btrail_record) {
            i, i, (4 * (uint64_t)i + 40) << BTRAIL_RECORD_ICOUNT_SHIFT,
        };
    }
    sample_write_slabs(path, &slabs);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    past = past_new(trace);
    g_assert_nonnull(past);
    for (unsigned i = 0; i < 1000; i++) {
        const struct find_place place = {
            FIND_PLACE_ICOUNT, i < 500 ? i * 5 :
            (unsigned)g_test_rand_int_range(0, 2500),
        };
        struct moment want, got;
        bool found = find_place_count(past, trace, place.number, &got);

        g_assert_true(find_place_find(&place, trace, NULL, &want, NULL) ==
                      found);
        if (found) {
            g_assert_cmpint(moment_compare(&want, &got), ==, 0);
            g_assert_cmpuint(got.icount, ==, want.icount);
            g_assert_cmpuint(got.icount, <=, place.number);
            g_assert_cmpuint(got.index, ==, MIN(place.number / 4 - 10,
                                                RECORDS - 1));
        }
    }
    past_free(past);
    btrail_trace_close(trace);
    sample_remove(path);
}

/* The kernel's functions have no names: where a process ends is not shown. */
static void test_nameless(void)
{
    char *path = sample_path();
    struct btrail_trace *trace;

    write_trace(path, "ffffffff81000100 T other\n");
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    find(trace, "last one", 800, NULL);
    find(trace, "last exit of one", 0, "no function do_task_dead");
    find(trace, "first exit of two", 0, "no function do_task_dead");
    btrail_trace_close(trace);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/place/parse", test_parse);
    g_test_add_func("/place/marks", test_marks);
    g_test_add_func("/place/output", test_output);
    g_test_add_func("/place/wrong", test_wrong);
    g_test_add_func("/place/find", test_find);
    g_test_add_func("/place/counts", test_counts);
    g_test_add_func("/place/nameless", test_nameless);
    return g_test_run();
}
