/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Marks in a trace that is made here: where they are found, which records are
 * theirs, and their values when threads are interrupted and switched
 */

#include <string.h>

#include "lib/agent/code-piece.h"
#include "find/marks.h"
#include "trace-samples.h"

#define PAGE    BTRAIL_CODE_PAGE_SIZE
#define VCPUS   2u
#define SPACE   UINT64_C(0x5000)
#define OTHER   UINT64_C(0x9000)
#define BASE    UINT64_C(0x400000)
#define HANDLER UINT64_C(0xffffffff81000000)

/* The mark "one", which has a value, and "two" on two pages */
static const uint8_t one[] = {
    0xeb, 14, 0x0f, 0x0b, 0x42, 0x74, 0x6d, 0x6b, 0x9a, 0xc5, 1, 1,
    'o', 'n', 'e', 0, 0x48, 0xd1, 0xe8, 0x77, 0xfb, 0x75, 0xf9, 0x72, 2,
    0xeb, 0,
};
static const uint8_t two[] = {
    0xeb, 14, 0x0f, 0x0b, 0x42, 0x74, 0x6d, 0x6b, 0x9a, 0xc5, 1, 0,
    't', 'w', 'o', 0,
};
#define ONE     (BASE + 0x100)
#define ONE_TO  (ONE + 16)
#define TWO     (BASE + PAGE - 5)
#define TWO_TO  (TWO + 16)

/* The streams that are made */
static struct stream {
    GArray *records;
    GArray *events;
} streams[VCPUS];

static void begin(void)
{
    for (unsigned i = 0; i < VCPUS; i++) {
        streams[i].records = g_array_new(FALSE, FALSE,
                                         sizeof(struct btrail_record));
        streams[i].events = g_array_new(FALSE, FALSE,
                                        sizeof(struct btrail_event));
    }
}

/* Returns its index. */
static uint64_t add(unsigned vcpu, uint64_t from, uint64_t to)
{
    const struct btrail_record r = { from, to };

    g_array_append_val(streams[vcpu].records, r);
    return streams[vcpu].records->len - 1;
}

static void add_event(unsigned vcpu, unsigned type, uint64_t data)
{
    const struct btrail_event e = {
        .type = type, .index = streams[vcpu].records->len, .data = { data },
    };

    g_array_append_val(streams[vcpu].events, e);
}

static void add_time(unsigned vcpu, uint64_t seconds)
{
    const struct btrail_event e = {
        .type = BTRAIL_EVENT_TIME, .index = streams[vcpu].records->len,
        .data = { seconds * 1000000000, 0, BTRAIL_NO_ICOUNT },
    };

    g_array_append_val(streams[vcpu].events, e);
}

static void add_task(unsigned vcpu, uint64_t tid)
{
    add_event(vcpu, BTRAIL_EVENT_TASK, tid | tid << 32);
}

static void add_cr3(unsigned vcpu, uint64_t cr3)
{
    add_event(vcpu, BTRAIL_EVENT_CR3, cr3);
}

/* Records of some bits of a value, lowest first, which are not its last ones */
static void add_bits(unsigned vcpu, const char *bits)
{
    for (; *bits; bits++) {
        add(vcpu, ONE_TO + (*bits == '1' ? 5 : 3), ONE_TO);
    }
}

static void add_end(unsigned vcpu)
{
    add(vcpu, ONE_TO + 7, ONE_TO + 11);
}

static void entry(struct btrail_code_builder *b, unsigned vcpu,
                  uint64_t index, uint64_t cr3, uint64_t linear,
                  uint64_t number)
{
    const struct btrail_code_entry e = {
        vcpu, 0, index, cr3, linear, 0, number,
    };

    btrail_code_builder_entry(b, &e);
}

/*
 * The pages of marks in SPACE, the second one from record @second of vCPU 0 on;
 * and in OTHER, other code at the same addresses
 */
static void write_code(struct btrail_writer *w, uint64_t second)
{
    struct btrail_code_builder *b = btrail_code_builder_new();
    struct btrail_sideband_info info = { .kind = BTRAIL_SIDEBAND_CODE };
    uint8_t pages[2 * PAGE] = { 0 }, other[PAGE];
    g_autofree uint8_t *data = NULL;
    size_t size;

    memcpy(pages + (ONE - BASE), one, sizeof(one));
    memcpy(pages + (TWO - BASE), two, sizeof(two));
    memset(other, 0x90, sizeof(other));
    btrail_code_builder_content(b, 1, pages);
    btrail_code_builder_content(b, 2, pages + PAGE);
    btrail_code_builder_content(b, 3, other);
    for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
        entry(b, vcpu, 0, SPACE, BASE, 1);
        entry(b, vcpu, vcpu ? 0 : second, SPACE, BASE + PAGE, 2);
        entry(b, vcpu, 0, OTHER, BASE, 3);
    }
    data = btrail_code_builder_take(b, &size);
    btrail_code_builder_free(b);
    info.size = size;
    g_assert_cmpint(btrail_writer_sideband(w, &info, data), ==, 0);
}

/*
 * @vcpus: that the guest can have, or 0 if the trace does not say; streams of
 * others are left out
 */
static struct btrail_trace *end_guest(uint64_t second, unsigned vcpus)
{
    g_autofree char *meta = g_strdup_printf("{\"vcpus\":%u}", vcpus);
    char *path = sample_path();
    struct btrail_trace *trace;
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    write_code(w, second);
    if (vcpus) {
        g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    }
    for (unsigned i = 0; i < VCPUS; i++) {
        const struct btrail_slab slab = {
            .cr3 = SPACE,
            .records = (void *)streams[i].records->data,
            .n_records = streams[i].records->len,
            .events = (void *)streams[i].events->data,
            .n_events = streams[i].events->len,
        };

        if (!vcpus || i < vcpus) {
            g_assert_cmpint(btrail_writer_append(w, i, &slab), ==, 0);
        }
        g_array_unref(streams[i].records);
        g_array_unref(streams[i].events);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    sample_remove(path);
    return trace;
}

static struct btrail_trace *end(uint64_t second)
{
    return end_guest(second, 0);
}

/* What a record is: "", or what marks_text() says */
static void check(const struct btrail_trace *trace, struct marks *m,
                  unsigned vcpu, uint64_t index, const char *want)
{
    struct marks_found found;
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    char text[MARKS_TEXT];

    g_assert_cmpint(btrail_cursor_open(&cursor, trace, vcpu, 0), ==, 0);
    g_assert_cmpint(btrail_cursor_seek(cursor, index), ==, 0);
    do {
        g_assert_cmpint(btrail_cursor_next(cursor, &b), ==, 0);
    } while (b.event);
    g_assert_cmpuint(b.index, ==, index);
    g_assert_cmpstr(marks_read(m, vcpu, &b, &found) ?
                    marks_text(&found, text) : "", ==, want);
    btrail_cursor_close(cursor);
}

static struct marks *open_marks(const struct btrail_trace *trace)
{
    g_autoptr(GError) error = NULL;
    struct marks *m = marks_new(trace, NULL, &error);

    g_assert_no_error(error);
    return m;
}

static GArray *find(struct marks *m, const char *text, GError **error)
{
    GArray *addresses = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    struct mark_wanted wanted;

    g_assert_true(mark_wanted_parse(text, &wanted));
    marks_find(m, &wanted, addresses, error);
    mark_wanted_clear(&wanted);
    return addresses;
}

static bool has(const GArray *addresses, uint64_t address)
{
    for (guint i = 0; i < addresses->len; i++) {
        if (g_array_index(addresses, uint64_t, i) == address) {
            return true;
        }
    }
    return false;
}

static void test_find(void)
{
    g_autoptr(GArray) all = NULL, first = NULL, second = NULL, none = NULL;
    g_autoptr(GError) error = NULL;
    struct btrail_trace *trace;
    struct marks *m;

    begin();
    add(0, BASE, BASE);
    trace = end(0);
    m = open_marks(trace);
    all = find(m, "mark:", NULL);
    g_assert_cmpuint(all->len, ==, 2);
    g_assert_true(has(all, ONE_TO) && has(all, TWO_TO));
    first = find(m, "mark:one", NULL);
    g_assert_true(has(first, ONE_TO));
    second = find(m, "mark:two=5", NULL);
    g_assert_true(has(second, TWO_TO) && !has(second, ONE_TO));
    marks_free(m);
    btrail_trace_close(trace);

    begin();
    trace = end(UINT64_MAX);
    m = open_marks(trace);
    none = find(m, "mark:ono", &error);
    /* It can be "two", of which a part is missing. */
    g_assert_no_error(error);
    g_assert_cmpuint(none->len, ==, 1);
    g_assert_true(has(none, TWO_TO));
    marks_free(m);
    btrail_trace_close(trace);
}

static void test_none(void)
{
    g_autoptr(GArray) addresses = NULL;
    g_autoptr(GError) error = NULL;
    char *path = sample_path();
    struct btrail_trace *trace;
    struct marks *m;

    sample_write(path, 1);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    m = open_marks(trace);
    addresses = find(m, "mark:", &error);
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_NAMES);
    marks_free(m);
    btrail_trace_close(trace);
    sample_remove(path);
}

static void test_records(void)
{
    struct btrail_trace *trace;
    uint64_t mark, wide, other, near, far;
    struct marks *m;

    begin();
    add(0, BASE, ONE);
    mark = add(0, ONE, ONE_TO);
    add_bits(0, "0101");
    add_end(0);
    wide = add(0, TWO, TWO_TO);
    near = add(0, ONE + 1, ONE_TO);
    far = add(0, ONE, ONE_TO + 5);
    add_cr3(0, OTHER);
    other = add(0, ONE, ONE_TO);
    add_end(0);
    /* The second page runs after the jump. */
    trace = end(wide + 1);
    m = open_marks(trace);
    check(trace, m, 0, 0, "");
    check(trace, m, 0, mark, "one = 26");
    check(trace, m, 0, mark + 1, "");
    check(trace, m, 0, wide, "two");
    check(trace, m, 0, near, "");
    check(trace, m, 0, far, "");
    check(trace, m, 0, other, "");
    /* In another order */
    check(trace, m, 0, mark, "one = 26");
    marks_free(m);
    btrail_trace_close(trace);
}

static void test_gap(void)
{
    struct btrail_trace *trace;
    uint64_t mark, cut;
    struct marks *m;

    begin();
    mark = add(0, ONE, ONE_TO);
    add_bits(0, "1");
    add_event(0, BTRAIL_EVENT_GAP, 0);
    add_bits(0, "1");
    add_end(0);
    cut = add(0, ONE, ONE_TO);
    add_bits(0, "1");
    trace = end(0);
    m = open_marks(trace);
    check(trace, m, 0, mark, "one = ?");
    check(trace, m, 0, cut, "one = ?");
    check(trace, m, 0, mark, "one = ?");
    marks_free(m);
    btrail_trace_close(trace);
}

/* Two threads of a process that leave the same mark, on one vCPU */
static void test_threads(void)
{
    struct btrail_trace *trace;
    uint64_t first, second;
    struct marks *m;

    begin();
    add_time(0, 1);
    add_task(0, 7);
    first = add(0, ONE, ONE_TO);
    add_bits(0, "01");
    add(0, ONE_TO + 3, HANDLER);
    add_time(0, 2);
    add_task(0, 8);
    add(0, HANDLER + 9, ONE);
    second = add(0, ONE, ONE_TO);
    add_bits(0, "1");
    add(0, ONE_TO + 3, HANDLER);
    add_time(0, 3);
    add_task(0, 7);
    add(0, HANDLER + 20, HANDLER + 5);
    add(0, HANDLER + 9, ONE_TO + 3);
    add_bits(0, "0");
    add_end(0);
    add(0, BASE, HANDLER);
    add_time(0, 4);
    add_task(0, 8);
    add(0, HANDLER + 9, ONE_TO + 3);
    add_end(0);
    trace = end(0);
    m = open_marks(trace);
    check(trace, m, 0, first, "one = 10");
    check(trace, m, 0, second, "one = 3");
    marks_free(m);
    btrail_trace_close(trace);
}

/*
 * A thread that continues on the other vCPU, and then on the first one again:
 * what it runs there is not the rest of the value.
 */
static void test_moved(void)
{
    struct btrail_trace *trace;
    struct marks *m;
    uint64_t mark;

    begin();
    add_time(0, 1);
    add_task(0, 7);
    mark = add(0, ONE, ONE_TO);
    add_bits(0, "1");
    add(0, ONE_TO + 3, HANDLER);
    add_time(0, 2);
    add_task(0, 8);
    add(0, HANDLER + 9, BASE);
    add_time(0, 5);
    add_task(0, 7);
    add(0, HANDLER + 9, ONE_TO + 3);
    add_bits(0, "111");
    add_end(0);
    add_time(0, 6);

    add_time(1, 1);
    add_task(1, 9);
    add(1, BASE, HANDLER);
    add_time(1, 3);
    add_task(1, 7);
    add(1, HANDLER + 9, ONE_TO + 3);
    add_bits(1, "0");
    add_end(1);
    add(1, BASE, HANDLER);
    add_time(1, 4);
    add_task(1, 9);
    add(1, BASE, HANDLER);
    trace = end(0);
    m = open_marks(trace);
    check(trace, m, 0, mark, "one = 5");
    marks_free(m);
    btrail_trace_close(trace);
}

/*
 * Two values without tasks: of a thread that is interrupted, and of one that
 * another process interrupts
 */
static void add_nameless(uint64_t *interrupted, uint64_t *switched)
{
    begin();
    *interrupted = add(0, ONE, ONE_TO);
    add_bits(0, "1");
    add(0, ONE_TO + 3, HANDLER);
    /* Page tables of the kernel, and of the user again with another PCID */
    add_cr3(0, SPACE ^ 0x1000);
    add(0, HANDLER + 9, HANDLER);
    add_cr3(0, SPACE | 5);
    add(0, HANDLER + 9, ONE_TO + 3);
    add_end(0);
    *switched = add(0, ONE, ONE_TO);
    add(0, ONE_TO + 3, HANDLER);
    add_cr3(0, OTHER);
    add(0, HANDLER + 9, BASE);
    add(0, BASE, HANDLER);
    add_cr3(0, SPACE);
    add(0, HANDLER + 9, ONE_TO + 3);
    add_end(0);
}

/* The thread may continue elsewhere, but not in a guest with one vCPU. */
static void test_nameless(void)
{
    for (unsigned vcpus = 0; vcpus <= VCPUS; vcpus++) {
        struct btrail_trace *trace;
        uint64_t interrupted, switched;
        struct marks *m;

        add_nameless(&interrupted, &switched);
        trace = end_guest(0, vcpus);
        m = open_marks(trace);
        check(trace, m, 0, interrupted, "one = 3");
        check(trace, m, 0, switched, vcpus == 1 ? "one = 1" : "one = ?");
        marks_free(m);
        btrail_trace_close(trace);
    }
}

static void test_match(void)
{
    static const struct {
        const char *text;
        bool match;
    } cases[] = {
        { "mark:", true }, { "mark:one", true }, { "mark:one=3", true },
        { "mark:=3", true }, { "mark:on", false }, { "mark:one=2", false },
        { "mark:two=3", false },
    };
    const struct btrail_record r = { ONE, ONE_TO };
    const struct btrail_batch b = { .records = &r, .count = 1, .cr3 = SPACE };
    struct btrail_trace *trace;
    struct marks *m;

    begin();
    add(0, ONE, ONE_TO);
    add_bits(0, "1");
    add_end(0);
    trace = end(0);
    m = open_marks(trace);
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct mark_wanted wanted;

        g_assert_true(mark_wanted_parse(cases[i].text, &wanted));
        g_assert_cmpint(marks_match(m, 0, &b, &wanted), ==, cases[i].match);
        mark_wanted_clear(&wanted);
    }
    marks_free(m);
    btrail_trace_close(trace);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/find", test_find);
    g_test_add_func("/none", test_none);
    g_test_add_func("/records", test_records);
    g_test_add_func("/gap", test_gap);
    g_test_add_func("/threads", test_threads);
    g_test_add_func("/moved", test_moved);
    g_test_add_func("/nameless", test_nameless);
    g_test_add_func("/match", test_match);
    return g_test_run();
}
