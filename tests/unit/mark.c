/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Marks: bytes that are written here by hand, and those that the compiler makes
 * of the guest's header; records of values
 */

#include <glib.h>
#include <string.h>

#include "backtrail-mark.h"
#include "mark-packed.h"
#include "util/mark.h"

#define FROM    UINT64_C(0x401000)

#define LONGEST "123456789012345678901234567890123456789012345678901234567890"

static const uint8_t plain[] = {
    0xeb, 0x0f, 0x0f, 0x0b, 0x42, 0x74, 0x6d, 0x6b, 0x9a, 0xc5, 1, 1,
    'n', 'a', 'm', 'e', 0,
};
static const uint8_t packed[] = {
    0xeb, 0x1c, 0x0f, 0x1f, 0x80, 0x0f, 0x0b, 0x42, 0x74,
    0x0f, 0x1f, 0x80, 0x6d, 0x6b, 0x9a, 0xc5,
    0x0f, 0x1f, 0x80, 1, 0, 'n', 'a',
    0x0f, 0x1f, 0x80, 'm', 'e', 0, 0,
};

static void test_decode(void)
{
    struct mark mark;

    g_assert_true(mark_decode(plain, sizeof(plain), FROM, &mark));
    g_assert_cmphex(mark.from, ==, FROM);
    g_assert_cmphex(mark.to, ==, FROM + sizeof(plain));
    g_assert_cmpstr(mark.name, ==, "name");
    g_assert_true(mark.has_value);
    g_assert_true(mark_fits(FROM, FROM + sizeof(plain)));

    g_assert_true(mark_decode(packed, sizeof(packed), FROM, &mark));
    g_assert_cmphex(mark.to, ==, FROM + sizeof(packed));
    g_assert_cmpstr(mark.name, ==, "name");
    g_assert_false(mark.has_value);
    g_assert_true(mark_fits(FROM, FROM + sizeof(packed)));
}

/* A byte of a mark that is another one, and a mark that is cut off */
static void check_damaged(const uint8_t *good, size_t n, size_t name)
{
    g_autofree uint8_t *bytes = g_memdup2(good, n);
    struct mark mark;

    for (size_t i = 0; i < n; i++) {
        g_assert_false(mark_decode(good, i, FROM, &mark));
    }
    for (size_t i = 0; i < n; i++) {
        for (unsigned byte = 0; byte < 256; byte++) {
            bool ok;

            bytes[i] = byte;
            ok = mark_decode(bytes, n, FROM, &mark);
            if (i < name - 1) {
                g_assert_cmpint(ok, ==, byte == good[i]);
            } else if (i == name - 1) {
                g_assert_cmpint(ok, ==, byte < 2);
            }
        }
        bytes[i] = good[i];
    }
}

static void test_damaged(void)
{
    struct mark mark;
    uint8_t bytes[sizeof(packed)];

    check_damaged(plain, sizeof(plain), 12);
    check_damaged(packed, sizeof(packed), 21);
    /* Names that are empty, have a NUL in them, or have no NUL after them */
    memcpy(bytes, plain, sizeof(plain));
    bytes[12] = 0;
    g_assert_false(mark_decode(bytes, sizeof(plain), FROM, &mark));
    memcpy(bytes, plain, sizeof(plain));
    bytes[14] = 0;
    g_assert_false(mark_decode(bytes, sizeof(plain), FROM, &mark));
    memcpy(bytes, plain, sizeof(plain));
    bytes[16] = 'x';
    g_assert_false(mark_decode(bytes, sizeof(plain), FROM, &mark));
    /* One more instruction than the name needs, and bytes after its end */
    memcpy(bytes, packed, sizeof(packed));
    memset(bytes + 26, 0, 2);
    bytes[22] = 0;
    g_assert_false(mark_decode(bytes, sizeof(packed), FROM, &mark));
    memcpy(bytes, packed, sizeof(packed));
    bytes[29] = 'x';
    g_assert_false(mark_decode(bytes, sizeof(packed), FROM, &mark));
}

/* A name that is too long, but has room in this form */
static void test_long(void)
{
    uint8_t bytes[2 + 126] = { 0xeb, 126 }, head[72] = {
        0x0f, 0x0b, 0x42, 0x74, 0x6d, 0x6b, 0x9a, 0xc5, 1, 0,
    };
    struct mark mark;

    memset(head + 10, 'x', 60);
    for (unsigned extra = 0; extra < 3; extra++) {
        for (unsigned i = 0; i < sizeof(head); i += 4) {
            memcpy(bytes + 2 + i / 4 * 7, "\x0f\x1f\x80", 3);
            memcpy(bytes + 5 + i / 4 * 7, head + i, 4);
        }
        g_assert_cmpint(mark_decode(bytes, sizeof(bytes), FROM, &mark), ==,
                        !extra);
        head[70 + extra % 2] = 'x';
    }
}

/* No jump over fewer or more bytes than a head has is a mark. */
static void test_fits(void)
{
    unsigned n = 0;

    for (unsigned size = 0; size < 300; size++) {
        bool plain_head = size >= 12 && size <= 71;
        bool packed_head = size % 7 == 0 && size >= 21 && size <= 126;

        g_assert_cmpint(mark_fits(FROM, FROM + 2 + size), ==,
                        plain_head || packed_head);
        n += plain_head || packed_head;
    }
    g_assert_cmpuint(n, ==, 60 + 8);
    g_assert_false(mark_fits(FROM, FROM - 14));
    g_assert_false(mark_fits(FROM, FROM + 1));
}

/* What a scan finds */
struct scanned {
    unsigned n;
    uint64_t from;
    uint64_t to;
    bool whole;
    char name[64];
};

static void take(void *opaque, uint64_t from, uint64_t to,
                 const struct mark *mark)
{
    struct scanned *s = opaque;

    s->n++;
    s->from = from;
    s->to = to;
    s->whole = mark;
    g_strlcpy(s->name, mark ? mark->name : "", sizeof(s->name));
}

static struct scanned scan(const uint8_t *page)
{
    struct scanned s = { .n = 0 };

    mark_scan(page, take, &s);
    return s;
}

/* A mark at any place of a page, and across its ends */
static void check_scan(const uint8_t *bytes, int n)
{
    for (int at = 1 - n; at < MARK_PAGE; at++) {
        int begin = MAX(at, 0), end = MIN(at + n, MARK_PAGE);
        uint8_t page[MARK_PAGE];
        struct scanned s;

        /* Jumps to nowhere are everywhere. */
        memset(page, 0xeb, sizeof(page));
        memcpy(page + begin, bytes + (begin - at), end - begin);
        /* What follows must not be taken for the end of another one. */
        s = scan(page);
        if (at >= -1 && at < MARK_PAGE - 1) {
            g_assert_cmpuint(s.n, ==, 1);
            g_assert_cmphex(s.from, ==, (uint64_t)(int64_t)at);
            g_assert_cmphex(s.to, ==, (uint64_t)(int64_t)(at + n));
            g_assert_cmpint(s.whole, ==, begin == at && end == at + n);
            g_assert_cmpstr(s.name, ==, s.whole ? "name" : "");
        } else {
            /* The other page has its jump. */
            g_assert_cmpuint(s.n, ==, 0);
        }
    }
}

static void test_scan(void)
{
    uint8_t page[MARK_PAGE] = { 0 };

    check_scan(plain, sizeof(plain));
    check_scan(packed, sizeof(packed));
    g_assert_cmpuint(scan(page).n, ==, 0);
    memcpy(page + 100, plain, sizeof(plain));
    memcpy(page + 100 + sizeof(plain), packed, sizeof(packed));
    g_assert_cmpuint(scan(page).n, ==, 2);
}

/* Functions with marks, of the guest's header */
static void __attribute__((noinline)) leave_value(uint64_t value)
{
    BACKTRAIL_MARK("of a program", value);
}

static void __attribute__((noinline)) leave_longest(void)
{
    BACKTRAIL_MARK(LONGEST);
}

/* The first mark in the code of a function */
static struct mark mark_of(const void *function)
{
    const uint8_t *code = function;
    struct mark mark;

    for (unsigned i = 0; i < 200; i++) {
        if (mark_decode(code + i, MARK_SIZE_MAX, (uintptr_t)code + i,
                        &mark)) {
            return mark;
        }
    }
    g_assert_not_reached();
}

static void test_header(void)
{
    const struct {
        const void *function;
        const char *name;
        bool value;
    } marks[] = {
        { (const void *)leave_value, "of a program", true },
        { (const void *)leave_longest, LONGEST, false },
        { (const void *)mark_packed, "packed", true },
        { (const void *)mark_packed_longest, LONGEST, false },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(marks); i++) {
        struct mark mark = mark_of(marks[i].function);

        g_assert_cmpstr(mark.name, ==, marks[i].name);
        g_assert_cmpint(mark.has_value, ==, marks[i].value);
    }
    /* Nothing happens. */
    leave_value(12345);
    leave_longest();
    mark_packed(12345);
    mark_packed_longest();
}

/*
 * Records of a value, as the header says that they are
 */

#define CODE    (FROM + sizeof(plain))
#define HANDLER UINT64_C(0xffffffff81000000)

static GArray *records_of(uint64_t value)
{
    GArray *records = g_array_new(FALSE, FALSE, sizeof(struct btrail_record));
    struct btrail_record r = { CODE + 9, CODE + 11 };

    for (; value > 1; value >>= 1) {
        struct btrail_record bit = { CODE + (value & 1 ? 5 : 3), CODE };

        g_array_append_val(records, bit);
    }
    if (value) {
        r.from = CODE + 7;
    }
    g_array_append_val(records, r);
    return records;
}

static void insert(GArray *records, guint at, uint64_t from, uint64_t to)
{
    const struct btrail_record r = { from, to };

    g_array_insert_val(records, at, r);
}

/* The state after all records, all of the same thread */
static enum mark_value_state read_all(const GArray *records, uint64_t *value)
{
    const struct mark mark = { .from = FROM, .to = CODE, .has_value = true };
    enum mark_value_state state = MARK_VALUE_MORE;
    struct mark_value v;

    mark_value_begin(&v, &mark);
    for (guint i = 0; i < records->len; i++) {
        g_assert_cmpint(state, ==, MARK_VALUE_MORE);
        state = mark_value_add(&v, &g_array_index(records,
                                                  struct btrail_record, i),
                               true);
        if (state == MARK_VALUE_UNKNOWN) {
            break;
        }
    }
    *value = v.value;
    return state;
}

static void check_value(const GArray *records, uint64_t want)
{
    uint64_t value;

    g_assert_cmpint(read_all(records, &value), ==, MARK_VALUE_KNOWN);
    g_assert_cmphex(value, ==, want);
}

static void check_unknown(const GArray *records)
{
    uint64_t value;

    g_assert_cmpint(read_all(records, &value), ==, MARK_VALUE_UNKNOWN);
}

static uint64_t random_value(void)
{
    uint64_t value = (uint64_t)g_test_rand_int() << 32 |
                     (uint32_t)g_test_rand_int();

    return value >> g_test_rand_int_range(0, 64);
}

static void test_values(void)
{
    static const uint64_t values[] = {
        0, 1, 2, 3, 4, 0x80, UINT64_C(1) << 63, UINT64_MAX,
        UINT64_C(0xaaaaaaaaaaaaaaaa),
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(values) + 1000; i++) {
        uint64_t value = i < G_N_ELEMENTS(values) ? values[i] :
                         random_value();
        g_autoptr(GArray) records = records_of(value);

        check_value(records, value);
    }
}

/* An interrupt before any instruction, and one in its handler */
static void test_interrupts(void)
{
    static const unsigned instructions[] = { 0, 3, 5, 7, 9 };
    const uint64_t value = UINT64_C(0x123456789abcdef5);

    for (unsigned k = 0; k < G_N_ELEMENTS(instructions) * 8; k++) {
        g_autoptr(GArray) records = records_of(value);
        guint at = k / G_N_ELEMENTS(instructions);
        uint64_t offset = instructions[k % G_N_ELEMENTS(instructions)];
        uint64_t next = g_array_index(records, struct btrail_record,
                                      at).from - CODE;

        insert(records, at, CODE + offset, HANDLER);
        insert(records, at + 1, HANDLER + 5, HANDLER + 100);
        insert(records, at + 2, HANDLER + 105, CODE + offset);
        /* An instruction after the branch that is taken did not come next. */
        if (offset <= next) {
            check_value(records, value);
        } else {
            check_unknown(records);
        }
    }
}

/* A signal's handler leaves the same mark, and is interrupted in it, too. */
static void test_nested(void)
{
    const uint64_t value = 0xb5, inner = 0x2d;
    g_autoptr(GArray) records = records_of(value);
    g_autoptr(GArray) nested = records_of(inner);

    insert(nested, 0, FROM, CODE);
    insert(nested, 2, CODE, HANDLER);
    insert(nested, 3, HANDLER + 9, CODE);
    insert(nested, 0, CODE, HANDLER);
    insert(nested, 1, HANDLER + 5, FROM - 100);
    insert(nested, nested->len, FROM + 200, HANDLER + 20);
    insert(nested, nested->len, HANDLER + 30, CODE);
    g_array_insert_vals(records, 3, nested->data, nested->len);
    check_value(records, value);
}

/* Records of other threads do not count until the mark's own continue. */
static void test_others(void)
{
    const struct mark mark = { .from = FROM, .to = CODE, .has_value = true };
    const struct {
        struct btrail_record record;
        bool same;
    } steps[] = {
        { { CODE + 5, CODE }, true },
        { { CODE + 3, HANDLER }, true },
        { { HANDLER + 9, CODE + 3 }, false },
        { { CODE + 5, CODE }, false },
        { { CODE + 3, HANDLER }, false },
        { { HANDLER + 9, CODE + 3 }, true },
        { { CODE + 3, CODE }, true },
        { { CODE + 7, CODE + 11 }, true },
    };
    struct mark_value v;

    mark_value_begin(&v, &mark);
    for (unsigned i = 0; i < G_N_ELEMENTS(steps); i++) {
        g_assert_cmpint(mark_value_add(&v, &steps[i].record, steps[i].same),
                        ==, i + 1 < G_N_ELEMENTS(steps) ? MARK_VALUE_MORE :
                        MARK_VALUE_KNOWN);
    }
    g_assert_cmphex(v.value, ==, 5);

    mark_value_begin(&v, &mark);
    g_assert_cmpint(mark_value_add(&v, &steps[0].record, false), ==,
                    MARK_VALUE_UNKNOWN);
}

/* Records that the code cannot make */
static void test_impossible(void)
{
    const struct btrail_record wrong[] = {
        { CODE + 3, CODE + 11 }, { CODE + 5, CODE + 3 }, { CODE + 7, CODE },
        { CODE + 9, CODE }, { CODE + 4, CODE }, { CODE + 2, HANDLER },
        { CODE + 11, HANDLER }, { CODE - 1, CODE }, { FROM, CODE },
        { CODE + 5, FROM },
        { HANDLER, CODE },
    };
    g_autoptr(GArray) many = records_of(UINT64_MAX);
    g_autoptr(GArray) zero = records_of(0);

    for (unsigned i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autoptr(GArray) records = records_of(6);

        g_array_insert_val(records, 1, wrong[i]);
        check_unknown(records);
    }
    /* 65 bits, and no bits after some */
    insert(many, 0, CODE + 3, CODE);
    check_unknown(many);
    insert(zero, 0, CODE + 3, CODE);
    check_unknown(zero);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/decode", test_decode);
    g_test_add_func("/damaged", test_damaged);
    g_test_add_func("/long", test_long);
    g_test_add_func("/fits", test_fits);
    g_test_add_func("/scan", test_scan);
    g_test_add_func("/header", test_header);
    g_test_add_func("/values", test_values);
    g_test_add_func("/interrupts", test_interrupts);
    g_test_add_func("/nested", test_nested);
    g_test_add_func("/others", test_others);
    g_test_add_func("/impossible", test_impossible);
    return g_test_run();
}
