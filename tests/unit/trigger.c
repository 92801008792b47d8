/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Triggers: what they do at which branch, and with symbols and processes
 */

#include <string.h>

#include "drain/trigger.h"
#include "mark-samples.h"

#define A   UINT64_C(0x401000)
#define B   UINT64_C(0x402000)
#define K   UINT64_C(0xffffffff81000040)

static unsigned fired_n[4];
static struct trigger_hit last;
static struct gate gate;

static void fired(void *opaque, const struct trigger_hit *hit,
                  enum trigger_action action)
{
    g_assert_cmpuint(hit->trigger, <, G_N_ELEMENTS(fired_n));
    fired_n[hit->trigger]++;
    last = *hit;
}

/* A record of no place in particular */
static bool pass(struct triggers *t, uint64_t cr3, uint64_t to)
{
    g_assert_true(gate.opaque == t);
    return gate.record(gate.opaque, 0, 0, cr3, 1, to);
}

static struct triggers *
make_with(const struct trigger *list, unsigned n,
          const struct symbol_files *files)
{
    struct triggers *t = triggers_new(list, n, files, fired,
                                      NULL);

    memset(fired_n, 0, sizeof(fired_n));
    gate = triggers_gate(t, 1000000, 1, false, NULL);
    return t;
}

static struct triggers *make(const struct trigger *t, unsigned n)
{
    return make_with(t, n, NULL);
}

/* From one address up to another, as often as it is there */
static void test_start_stop(void)
{
    static const struct trigger list[] = {
        { .address = A, .action = TRIGGER_START },
        { .address = B, .action = TRIGGER_STOP },
    };
    struct triggers *t = make(list, 2);
    unsigned i;

    g_assert_false(triggers_over(t));
    for (i = 0; i < 3; i++) {
        g_assert_false(pass(t, 0, 5));
        g_assert_false(pass(t, 0, A + 1));
        g_assert_true(pass(t, 0, A));
        g_assert_true(pass(t, 0, 5));
        g_assert_true(pass(t, 0, B));
    }
    g_assert_false(pass(t, 0, B));
    g_assert_false(triggers_over(t));
    g_assert_cmpuint(fired_n[0], ==, 3);
    g_assert_cmpuint(fired_n[1], ==, 4);
    triggers_unref(t);
}

/* It is off after it has acted, and so is a session that only it can start. */
static void test_once(void)
{
    static const struct trigger list[] = {
        { .address = A, .action = TRIGGER_START, .hits = 2, .once = true },
        { .address = B, .action = TRIGGER_STOP },
        { .address = A, .action = TRIGGER_DUMP, .once = true },
    };
    struct triggers *t = make(list, 3);

    g_assert_false(pass(t, 0, A));
    g_assert_cmpuint(fired_n[2], ==, 1);
    g_assert_cmpuint(triggers_off(t), ==, 4);
    g_assert_true(pass(t, 0, A));
    g_assert_cmpuint(fired_n[0], ==, 1);
    g_assert_cmpuint(triggers_off(t), ==, 5);
    g_assert_false(triggers_over(t));
    g_assert_true(pass(t, 0, B));
    g_assert_true(triggers_over(t));
    g_assert_false(pass(t, 0, A));
    g_assert_false(pass(t, 0, A));
    g_assert_cmpuint(fired_n[0], ==, 1);
    g_assert_cmpuint(fired_n[2], ==, 1);
    /* Nothing has come of it. */
    triggers_set_off(t, 2, false);
    pass(t, 0, A);
    pass(t, 0, A);
    g_assert_cmpuint(fired_n[2], ==, 2);
    triggers_unref(t);
}

static void test_stop_alone(void)
{
    static const struct trigger list[] = {
        { .address = B, .action = TRIGGER_STOP, .hits = 3 },
    };
    struct triggers *t = make(list, 1);

    g_assert_true(pass(t, 0, B));
    g_assert_true(pass(t, 0, B));
    g_assert_false(triggers_over(t));
    g_assert_true(pass(t, 0, B));
    g_assert_true(triggers_over(t));
    g_assert_false(pass(t, 0, A));
    g_assert_cmpuint(fired_n[0], ==, 1);
    triggers_unref(t);
}

/* Tracing continues where another process was. */
static void test_keep(void)
{
    static const struct trigger list[] = {
        { .address = A, .action = TRIGGER_START, .hits = 1 },
        { .address = B, .action = TRIGGER_STOP, .hits = 1 },
    };
    struct triggers *t = make(list, 2);

    g_assert_false(triggers_keeping(t));
    g_assert_false(pass(t, 0, A + 1));
    triggers_keep(t);
    g_assert_true(triggers_keeping(t));
    g_assert_true(pass(t, 0, A + 1));
    g_assert_true(pass(t, 0, B));
    g_assert_false(triggers_keeping(t));
    g_assert_cmpuint(fired_n[0], ==, 0);
    g_assert_cmpuint(fired_n[1], ==, 1);
    triggers_unref(t);
}

/* A symbol counts once it is known, and a process once it is found. */
static void test_names(void)
{
    static const struct trigger list[] = {
        { .symbol = "panic", .action = TRIGGER_DUMP },
        { .process = "nginx", .address = A, .action = TRIGGER_DUMP },
        { .symbol = "nowhere", .action = TRIGGER_DUMP },
    };
    static const char text[] =
        "ffffffff81000000 T panic_on_warn\n"
        "ffffffff81000010 T kernel_panic\n"
        "ffffffff81000020 T pani\n"
        "bad\n\n"
        "ffffffff81000040 T panic";
    struct btrail_process p = { .pgd = 0x5000, .mm = 1, .comm = "nginx" };
    const struct btrail_snapshot snapshot = { .n = 1, .processes = &p };
    struct triggers *t = make(list, 3);
    unsigned i;

    g_assert_true(pass(t, 0x5000, K));
    g_assert_true(pass(t, 0x5000, A));
    g_assert_true(pass(t, 0x5000, 0));
    g_assert_cmpuint(fired_n[0] + fired_n[1] + fired_n[2], ==, 0);
    triggers_symbols(t, 0, text, strlen(text));
    triggers_snapshot(t, &snapshot);
    for (i = 0; i < 0x80; i++) {
        pass(t, 0x5000, K - 0x40 + i);
    }
    g_assert_cmpuint(fired_n[0], ==, 1);
    pass(t, 0x6000, A);
    g_assert_cmpuint(fired_n[1], ==, 0);
    pass(t, 0x5007, A);
    g_assert_cmpuint(fired_n[1], ==, 1);
    g_assert_cmpuint(fired_n[2], ==, 0);
    g_assert_false(triggers_over(t));
    triggers_unref(t);
}

static void tell(struct triggers *t, uint16_t kernel, const char *text)
{
    triggers_symbols(t, kernel, text, strlen(text));
}

/* What a kernel has loaded can go, and another one can take its place. */
static void test_loaded(void)
{
    static const struct trigger list[] = {
        { .symbol = "load", .action = TRIGGER_DUMP },
        { .symbol = "panic", .action = TRIGGER_DUMP },
    };
    struct triggers *t = make(list, 2);

    tell(t, 1, "ffffffff81000040 T panic\n");
    tell(t, 1, "ffffffffc0000010 t load\t[mod]\n");
    pass(t, 0x5000, UINT64_C(0xffffffffc0000010));
    pass(t, 0x5000, K);
    g_assert_cmpuint(fired_n[0], ==, 1);
    g_assert_cmpuint(fired_n[1], ==, 1);
    tell(t, 1, "ffffffffc0000010 t other\t[new]\n");
    g_assert_cmpuint(triggers_places(t, 0), ==, 0);
    pass(t, 0x5000, UINT64_C(0xffffffffc0000010));
    pass(t, 0x5000, K);
    g_assert_cmpuint(fired_n[0], ==, 1);
    g_assert_cmpuint(fired_n[1], ==, 2);
    /* It is loaded elsewhere, and then nothing is. */
    tell(t, 1, "ffffffffc0000020 t load\t[mod]\n");
    pass(t, 0x5000, UINT64_C(0xffffffffc0000020));
    g_assert_cmpuint(fired_n[0], ==, 2);
    tell(t, 1, "");
    pass(t, 0x5000, UINT64_C(0xffffffffc0000020));
    pass(t, 0x5000, K);
    g_assert_cmpuint(fired_n[0], ==, 2);
    g_assert_cmpuint(fired_n[1], ==, 3);
    triggers_unref(t);
}

/* A name can be that of several functions, and it acts at each of them. */
static void test_several(void)
{
    static const struct trigger list[] = {
        { .symbol = "copy", .action = TRIGGER_DUMP },
        { .process = "nginx", .symbol = "copy", .action = TRIGGER_DUMP },
        { .symbol = "shop::cart::after", .action = TRIGGER_DUMP },
    };
    struct btrail_process p = { .pgd = 0x5000, .mm = 1, .comm = "nginx" };
    const struct btrail_snapshot snapshot = { .n = 1, .processes = &p };
    struct triggers *t = make(list, G_N_ELEMENTS(list));

    tell(t, 1, "ffffffff81000040 t copy\nffffffff81000080 t copy.isra.0\n"
               "ffffffff810000c0 t copy.cold\n"
               "ffffffff81000100 t _RNvNtCsbxQjNsTKZZh_4shop4cart5after\n");
    tell(t, 1, "ffffffffc0000010 t copy\t[mod]\n");
    triggers_snapshot(t, &snapshot);
    g_assert_cmpuint(triggers_places(t, 0), ==, 3);
    g_assert_cmpuint(triggers_places(t, 1), ==, 3);
    g_assert_cmpuint(triggers_places(t, 2), ==, 1);
    g_assert_false(triggers_capped(t, 0));
    pass(t, 0x6000, K);
    pass(t, 0x6000, K + 0x40);
    pass(t, 0x5000, UINT64_C(0xffffffffc0000010));
    pass(t, 0x5000, K + 0x80);
    g_assert_cmpuint(fired_n[0], ==, 3);
    g_assert_cmpuint(fired_n[1], ==, 1);
    pass(t, 0x5000, K + 0xc0);
    g_assert_cmpuint(fired_n[2], ==, 1);
    triggers_unref(t);
}

static void run_kernel(struct triggers *t, uint16_t flags,
                       uint16_t number)
{
    const struct btrail_event e = {
        .type = BTRAIL_EVENT_KERNEL, .reason = flags, .data = { number },
    };

    gate.event(gate.opaque, 0, &e);
}

/* A symbol is of one kernel; another one, or a nested guest, has other code. */
static void test_kernels(void)
{
    static const struct trigger list[] = {
        { .symbol = "panic", .action = TRIGGER_DUMP },
        { .address = K, .action = TRIGGER_DUMP },
    };
    struct triggers *t = make(list, 2);
    unsigned passed = 0;

    tell(t, 1, "ffffffff81000040 T panic\n");
    run_kernel(t, 0, 1);
    passed += pass(t, 0x5000, K);
    g_assert_cmpuint(fired_n[0], ==, 1);
    run_kernel(t, BTRAIL_KERNEL_NESTED, 0);
    passed += pass(t, 0x5000 | BTRAIL_CR3_NESTED, K);
    run_kernel(t, 0, 0);
    passed += pass(t, 0x5000, K);
    g_assert_cmpuint(fired_n[0], ==, 1);
    run_kernel(t, 0, 1);
    passed += pass(t, 0x5000, K);
    g_assert_cmpuint(fired_n[0], ==, 2);
    /* The next one has no such function, and another one has it elsewhere. */
    tell(t, 2, "ffffffff81000080 T other\n");
    run_kernel(t, 0, 2);
    passed += pass(t, 0x5000, K);
    g_assert_cmpuint(fired_n[0], ==, 2);
    tell(t, 3, "ffffffff81000080 T panic\n");
    run_kernel(t, 0, 3);
    passed += pass(t, 0x5000, K);
    g_assert_cmpuint(fired_n[0], ==, 2);
    passed += pass(t, 0x5000, K + 0x40);
    g_assert_cmpuint(fired_n[0], ==, 3);
    /* Nobody says which one runs. */
    run_kernel(t, BTRAIL_KERNEL_UNKNOWN, 0);
    passed += pass(t, 0x5000, K + 0x40);
    g_assert_cmpuint(fired_n[0], ==, 4);
    /* An address is one of any. */
    g_assert_cmpuint(fired_n[1], ==, passed - 2);
    triggers_unref(t);
}

/*
 * One function in two processes, at addresses of their own: see symbol-places.
 * Once its file is known, it has places.
 */
static enum symbol_answer
find_file(void *opaque, const char *path, const uint8_t *build_id,
          size_t build_id_size, const char *symbol, GArray *offsets)
{
    static const uint64_t offset = 0x1010;

    g_array_append_val(offsets, offset);
    return strcmp(symbol, "main") ? SYMBOL_NONE : SYMBOL_FOUND;
}

static void test_spaces(void)
{
    static const struct trigger list[] = {
        { .process = "one", .symbol = "main", .user = true, .hits = 2,
          .action = TRIGGER_DUMP },
        { .process = "two", .symbol = "main", .user = true,
          .action = TRIGGER_STOP },
        { .process = "two", .symbol = "nowhere", .user = true,
          .action = TRIGGER_STOP },
        { .process = "two", .symbol = "panic",
          .action = TRIGGER_DUMP },
    };
    static const char text[] = "ffffffff81000040 T panic\n"
                               "ffffffff81000080 T main\n";
    const struct symbol_files files = { find_file, NULL };
    struct btrail_mapping maps[] = {
        { .start = 0x550000001000, .end = 0x550000002000, .offset = 0x1000,
          .flags = BTRAIL_MAPPING_FILE | BTRAIL_MAPPING_EXEC,
          .path = "/bin/x" },
        { .start = 0x560000001000, .end = 0x560000002000, .offset = 0x1000,
          .flags = BTRAIL_MAPPING_FILE | BTRAIL_MAPPING_EXEC,
          .path = "/bin/x" },
    };
    struct btrail_process p[] = {
        { .pid = 1, .pgd = 0x5000, .mm = 1, .comm = "one", .n_mappings = 1,
          .mappings = &maps[0] },
        { .pid = 2, .pgd = 0x6000, .mm = 2, .comm = "two", .n_mappings = 1,
          .mappings = &maps[1] },
    };
    struct btrail_snapshot snapshot = {
        .flags = BTRAIL_SNAPSHOT_WHOLE, .n = 2, .processes = p,
    };
    const uint64_t one = 0x550000001010, two = 0x560000001010;
    struct guest_memory *memory = guest_memory_new();
    struct triggers *t, *ref;

    t = make_with(list, 4, &files);
    g_assert_true(triggers_want_names(t));
    g_assert_false(triggers_new_places(t));
    pass(t, 0x5000, one);
    triggers_find(t, &snapshot, memory, 4);
    triggers_snapshot(t, &snapshot);
    g_assert_true(triggers_new_places(t));
    g_assert_false(triggers_new_places(t));
    triggers_symbols(t, 0, text, strlen(text));
    g_assert_true(triggers_new_places(t));
    g_assert_cmpuint(triggers_places(t, 0), ==, 1);
    g_assert_cmpuint(triggers_places(t, 1), ==, 1);
    g_assert_cmpuint(triggers_places(t, 2), ==, 0);
    g_assert_cmpuint(triggers_places(t, 3), ==, 1);
    /* Each at its own address alone, and not at the kernel's main */
    pass(t, 0x5000, two);
    pass(t, 0x6000, one);
    pass(t, 0x6000, UINT64_C(0xffffffff81000080));
    pass(t, 0x5000, K);
    g_assert_cmpuint(fired_n[0] + fired_n[1] + fired_n[2] + fired_n[3], ==,
                     0);
    pass(t, 0x5000, one);
    g_assert_cmpuint(fired_n[0], ==, 0);
    pass(t, 0x5000, one);
    g_assert_cmpuint(fired_n[0], ==, 1);
    pass(t, 0x6000, K);
    g_assert_cmpuint(fired_n[3], ==, 1);
    /* The process has ended: no process has the address. */
    snapshot.n = 1;
    triggers_find(t, &snapshot, memory, 4);
    g_assert_cmpuint(triggers_places(t, 1), ==, 0);
    pass(t, 0x6000, two);
    g_assert_cmpuint(fired_n[1], ==, 0);
    g_assert_false(triggers_over(t));
    snapshot.n = 2;
    triggers_find(t, &snapshot, memory, 4);
    /* The scanner may still search while the session ends. */
    ref = triggers_ref(t);
    g_assert_true(pass(t, 0x6000, two));
    g_assert_true(triggers_over(t));
    triggers_unref(t);
    triggers_find(ref, &snapshot, memory, 4);
    triggers_unref(ref);
    guest_memory_free(memory);
}

static void put_event(struct triggers *t, uint16_t type, uint64_t data)
{
    const struct btrail_event e = { .type = type, .data = { data } };

    gate.event(gate.opaque, 0, &e);
}

/* A trigger that measures counts calls that are too long, and no others. */
static void test_longer(void)
{
    static const struct trigger list[] = {
        { .address = A, .action = TRIGGER_DUMP,
          .longer_ns = 5000000, .hits = 2 },
        { .address = A, .action = TRIGGER_START },
    };
    struct triggers *t = make(list, 2);
    uint64_t ms = 1000000, now = 0;

    put_event(t, BTRAIL_EVENT_TASK, 7);
    for (unsigned i = 0; i < 4; i++) {
        put_event(t, BTRAIL_EVENT_TIME, now += 100 * ms);
        g_assert_cmpint(pass(t, 0, A), ==, true);
        put_event(t, BTRAIL_EVENT_TIME, now + ms);
        put_event(t, BTRAIL_EVENT_TIME, now += i % 2 ? 20 * ms : 4 * ms);
        pass(t, 0, 1 + 5);
    }
    g_assert_cmpuint(fired_n[0], ==, 1);
    g_assert_cmpuint(fired_n[1], ==, 4);
    /* Its thread waits. */
    pass(t, 0, A);
    put_event(t, BTRAIL_EVENT_TASK, 8);
    triggers_passed(t, 0, now + 5 * ms);
    triggers_tick(t);
    triggers_passed(t, 0, now + 500 * ms);
    triggers_tick(t);
    triggers_passed(t, 0, now + 900 * ms);
    triggers_tick(t);
    pass(t, 0, A);
    put_event(t, BTRAIL_EVENT_TIME, now + ms);
    put_event(t, BTRAIL_EVENT_TIME, now += 20 * ms);
    g_assert_cmpuint(fired_n[0], ==, 2);
    triggers_unref(t);
}

/*
 * Marks, whose code comes before their records: with a process, with hits, and
 * with a value; beside a trigger of another kind
 */
static void test_marks(void)
{
    struct trigger list[] = {
        { .address = B, .action = TRIGGER_DUMP },
        { .action = TRIGGER_START, .hits = 2 },
        { .action = TRIGGER_STOP },
        { .process = "nginx", .action = TRIGGER_DUMP },
    };
    static const char *const texts[] = {
        NULL, "mark:one", "mark:one=0", "mark:one",
    };
    struct btrail_process p = { .pgd = 0x6000, .mm = 1, .comm = "nginx" };
    const struct btrail_snapshot snapshot = { .n = 1, .processes = &p };
    const uint64_t at = A + 0x80, code = at + 16;
    uint8_t page[BTRAIL_CODE_PAGE_SIZE] = { 0 };
    struct btrail_code_item item = sample_code_bytes(1);
    struct triggers *t;

    for (unsigned i = 1; i < G_N_ELEMENTS(list); i++) {
        mark_wanted_parse(texts[i], &list[i].mark);
    }
    t = make(list, G_N_ELEMENTS(list));
    for (unsigned i = 1; i < G_N_ELEMENTS(list); i++) {
        mark_wanted_clear(&list[i].mark);
    }
    g_assert_true(triggers_want_code(t));
    g_assert_cmpuint(triggers_places(t, 1), ==, 0);
    sample_mark(page + 0x80, "one", true);
    g_assert_true(triggers_code(t, 0, &item, page));
    for (unsigned i = 0; i < 2; i++) {
        item = sample_code_page(10, 0x5000 + i * 0x1000, A, 1);
        g_assert_false(triggers_code(t, 0, &item, NULL));
    }
    g_assert_false(triggers_lack_code(t));
    g_assert_cmpuint(triggers_places(t, 0), ==, 1);
    g_assert_cmpuint(triggers_places(t, 3), ==, 1);
    triggers_snapshot(t, &snapshot);

    /* Before its code it is a jump as others are. */
    g_assert_false(gate.record(gate.opaque, 0, 9, 0x5000, at, code));
    g_assert_false(gate.record(gate.opaque, 0, 10, 0x5000, at, code));
    g_assert_true(gate.record(gate.opaque, 0, 11, 0x5000, at, code));
    g_assert_cmpuint(fired_n[1], ==, 1);
    g_assert_true(gate.record(gate.opaque, 0, 12, 0x5000, code + 5, code));
    g_assert_true(gate.record(gate.opaque, 0, 13, 0x5000, code + 7,
                              code + 11));
    g_assert_true(gate.record(gate.opaque, 0, 14, 0x6000, at, code));
    g_assert_cmpuint(fired_n[3], ==, 1);
    g_assert_cmpuint(fired_n[2], ==, 0);
    /* The last record of the value is kept. */
    g_assert_true(gate.record(gate.opaque, 0, 15, 0x6000, code + 9,
                              code + 11));
    g_assert_cmpuint(fired_n[2], ==, 1);
    g_assert_false(gate.record(gate.opaque, 0, 16, 0x6000, A, B));
    g_assert_cmpuint(fired_n[0], ==, 1);
    g_assert_false(triggers_over(t));
    triggers_unref(t);
}

/*
 * Spans between marks: of one thread, of the process of the first mark; and
 * marks that are both
 */

#define SPAN_CR3    0x6000
#define MS          UINT64_C(1000000)

static uint64_t span_index;

static void put_mark(unsigned offset)
{
    const uint64_t at = A + offset;

    gate.record(gate.opaque, 0, ++span_index, SPAN_CR3, at, at + 16);
}

static struct triggers *make_spans(struct trigger *list, unsigned n)
{
    static const char *const names[] = { "one", "two" };
    uint8_t page[BTRAIL_CODE_PAGE_SIZE] = { 0 };
    struct btrail_code_item item = sample_code_bytes(1);
    struct triggers *t = make(list, n);

    for (unsigned i = 0; i < n; i++) {
        mark_wanted_clear(&list[i].mark);
        mark_wanted_clear(&list[i].until);
    }
    span_index = 10;
    sample_mark(page + 0x80, names[0], false);
    sample_mark(page + 0x180, names[1], false);
    triggers_code(t, 0, &item, page);
    item = sample_code_page(span_index, SPAN_CR3, A, 1);
    triggers_code(t, 0, &item, NULL);
    put_event(t, BTRAIL_EVENT_TASK, 7);
    return t;
}

static void test_spans(void)
{
    struct trigger list[] = {
        { .action = TRIGGER_DUMP, .longer_ns = 5 * MS },
        { .process = "nginx", .action = TRIGGER_DUMP, .longer_ns = 5 * MS },
        { .action = TRIGGER_DUMP, .longer_ns = 40 * MS },
    };
    struct btrail_process p = { .pgd = SPAN_CR3, .mm = 1, .comm = "nginx" };
    const struct btrail_snapshot snapshot = { .n = 1, .processes = &p };
    struct triggers *t;

    for (unsigned i = 0; i < 3; i++) {
        mark_wanted_parse("mark:one", &list[i].mark);
        mark_wanted_parse(i == 2 ? "mark:one" : "mark:two", &list[i].until);
    }
    t = make_spans(list, 3);
    g_assert_true(triggers_want_code(t));
    g_assert_cmpuint(triggers_places(t, 0), ==, 1);
    g_assert_cmpuint(triggers_ends(t, 0), ==, 1);
    put_event(t, BTRAIL_EVENT_TIME, 100 * MS);
    put_mark(0x80);
    put_event(t, BTRAIL_EVENT_TIME, 101 * MS);
    put_event(t, BTRAIL_EVENT_TIME, 105 * MS);
    put_mark(0x180);
    g_assert_cmpuint(fired_n[0] + fired_n[1] + fired_n[2], ==, 0);
    /* It is too long. */
    triggers_snapshot(t, &snapshot);
    put_mark(0x80);
    put_event(t, BTRAIL_EVENT_TIME, 106 * MS);
    put_event(t, BTRAIL_EVENT_TIME, 111 * MS);
    g_assert_cmpuint(fired_n[0] + fired_n[1], ==, 0);
    put_event(t, BTRAIL_EVENT_TIME, 113 * MS);
    g_assert_cmpuint(fired_n[0], ==, 1);
    g_assert_cmpuint(fired_n[1], ==, 1);
    g_assert_cmpuint(last.took.ns, ==, 7 * MS);
    g_assert_true(last.took.lasts);
    g_assert_false(last.unsure);
    put_mark(0x180);
    /* From a mark to the next one of the same name */
    g_assert_cmpuint(fired_n[2], ==, 0);
    put_event(t, BTRAIL_EVENT_TIME, 140 * MS);
    put_mark(0x80);
    g_assert_cmpuint(fired_n[2], ==, 0);
    put_mark(0x180);
    put_event(t, BTRAIL_EVENT_TIME, 141 * MS);
    put_event(t, BTRAIL_EVENT_TIME, 190 * MS);
    g_assert_cmpuint(fired_n[2], ==, 1);
    put_mark(0x80);
    g_assert_cmpuint(fired_n[0], ==, 1);
    g_assert_cmpuint(triggers_left_out(t, 0), ==, 0);
    triggers_unref(t);
}

/* A mark that may have been missed leaves no span that it may have ended. */
static void test_missed(void)
{
    struct trigger list[] = {
        { .action = TRIGGER_DUMP, .longer_ns = 5 * MS },
    };
    struct btrail_code_item item = { .type = BTRAIL_CODE_LOST };
    struct triggers *t;

    mark_wanted_parse("mark:one", &list[0].mark);
    mark_wanted_parse("mark:two", &list[0].until);
    t = make_spans(list, 1);
    put_event(t, BTRAIL_EVENT_TIME, 100 * MS);
    put_mark(0x80);
    item.linear = span_index;
    item.index = span_index + 2;
    triggers_code(t, 0, &item, NULL);
    put_mark(0x180);
    put_event(t, BTRAIL_EVENT_TIME, 101 * MS);
    put_event(t, BTRAIL_EVENT_TIME, 200 * MS);
    g_assert_cmpuint(fired_n[0], ==, 0);
    g_assert_cmpuint(triggers_left_out(t, 0), ==, 1);
    /* All is reported again after that. */
    item = sample_code_page(span_index + 1, SPAN_CR3, A, 1);
    triggers_code(t, 0, &item, NULL);
    put_mark(0);
    put_event(t, BTRAIL_EVENT_TASK, 7);
    put_mark(0x80);
    put_event(t, BTRAIL_EVENT_TIME, 201 * MS);
    put_event(t, BTRAIL_EVENT_TIME, 210 * MS);
    g_assert_cmpuint(fired_n[0], ==, 1);
    g_assert_false(triggers_capped(t, 0));
    triggers_unref(t);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/trigger/start-stop", test_start_stop);
    g_test_add_func("/trigger/once", test_once);
    g_test_add_func("/trigger/stop-alone", test_stop_alone);
    g_test_add_func("/trigger/keep", test_keep);
    g_test_add_func("/trigger/names", test_names);
    g_test_add_func("/trigger/loaded", test_loaded);
    g_test_add_func("/trigger/several", test_several);
    g_test_add_func("/trigger/kernels", test_kernels);
    g_test_add_func("/trigger/longer", test_longer);
    g_test_add_func("/trigger/spaces", test_spaces);
    g_test_add_func("/trigger/marks", test_marks);
    g_test_add_func("/trigger/spans", test_spans);
    g_test_add_func("/trigger/missed", test_missed);
    return g_test_run();
}
