/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Blocks of gdb: the instructions between two records, in code that the test
 * has made of instructions whose lengths it knows
 */

#include <glib.h>
#include <string.h>

#include "code-samples.h"
#include "gdb/code-block.h"
#include "trace-samples.h"

#define PAGE    4096u
#define KERNEL  UINT64_C(0xffffffff81000000)
/* These have names, and no code. */
#define TIMER   (KERNEL + 0x10000)
#define FAULT   (KERNEL + 0x10100)
#define TABLE   (KERNEL + 0x10200)
#define NMI     (KERNEL + 0x10300)
#define ENTRY   (KERNEL + 0x10400)
/* Code of the kernel */
#define THUNK   (KERNEL + 0x100)
#define IRET    (KERNEL + 0x200)
#define CALLER  (KERNEL + 0x300)
#define CALLEE  (CALLER + 11)
#define USER    UINT64_C(0x10000000000)
#define NEARBY  (USER + 2 * PAGE)
#define NAMED   (USER + 4 * PAGE)
#define LONG    UINT64_C(0x20000000000)
#define LOW     UINT64_C(0x8048000)
#define CR3     0x1000
#define CR3_32  0x2000
/* From these records on vCPU 0 has the code of a page, and other code. */
#define FIRST   10
#define OTHER   30

/* Instructions of each length, which go to the next one */
static const char *const instructions[] = {
    "\x90",                             /* nop */
    "\x89\xc8",                         /* mov eax, ecx */
    "\x48\x89\xc8",                     /* mov rax, rcx */
    "\x0f\x1f\x40\x01",                 /* nop [rax+1] */
    "\xb8\x01\x02\x03\x04",             /* mov eax, ... */
    "\x66\x0f\x1f\x44\x01\x01",         /* nop [rax+rax+1] */
    "\x48\xc7\xc0\x01\x02\x03\x04",     /* mov rax, ... */
    "\x75\x11",                         /* jnz, which does not jump */
};

static struct btrail_trace *trace;
static struct symbolizer *names;
/* Where instructions of the user's page begin, and of its other code */
static GArray *starts, *other_starts;

/* Fills @n bytes with instructions at random. */
static GArray *make_code(uint8_t *bytes, unsigned n)
{
    GArray *offsets = g_array_new(FALSE, FALSE, sizeof(unsigned));
    unsigned at = 0;

    while (at + 8 < n) {
        const char *insn = instructions[
            g_test_rand_int_range(0, G_N_ELEMENTS(instructions))];

        g_array_append_val(offsets, at);
        memcpy(bytes + at, insn, strlen(insn));
        at += strlen(insn);
    }
    return offsets;
}

/* At its beginning its code is other than before, too. */
static void make_other(uint8_t *bytes, const uint8_t *before)
{
    do {
        g_clear_pointer(&other_starts, g_array_unref);
        other_starts = make_code(bytes, PAGE);
    } while (!memcmp(bytes, before, 16));
}

static void make_kernel(uint8_t *page)
{
    /* call 1f; pause; lfence; jmp; 1: mov [rsp], rax; ret */
    memcpy(page + 0x100, "\xe8\x07\0\0\0\xf3\x90\x0f\xae\xe8\xeb\xf9"
           "\x48\x89\x04\x24\xc3", 17);
    memcpy(page + 0x200, "\x48\xcf", 2);
    memcpy(page + 0x300, "\xe8\x06\0\0\0\xc3", 6);
}

static void write_code(struct btrail_writer *w)
{
    static uint8_t user[PAGE], other[PAGE], kernel[PAGE];
    static const uint8_t nop[] = { 0x90 }, call[] = "\xe8\x07\0\0\0";
    /* inc eax; mov eax, 1: in 64 bits one instruction */
    static const uint8_t low[] = "\x40\xb8\x01\0\0\0\x90\xc3";
    const unsigned n_long = BLOCK_MAX / PAGE + 1;
    g_autofree struct sample_code *code = g_new(struct sample_code, 5 + n_long);

    starts = make_code(user, PAGE);
    make_other(other, user);
    memset(kernel, 0x90, PAGE);
    make_kernel(kernel);
    code[0] = (struct sample_code) { 0, FIRST, CR3, USER, user, PAGE };
    code[1] = (struct sample_code) { 0, OTHER, CR3, USER, other, PAGE };
    code[2] = (struct sample_code) { 0, FIRST, CR3, KERNEL, kernel, PAGE };
    code[3] = (struct sample_code) {
        0, FIRST, CR3_32, LOW, low, sizeof(low) - 1,
    };
    code[4] = (struct sample_code) { 0, FIRST, CR3, NEARBY, call, 5 };
    for (unsigned i = 0; i < n_long; i++) {
        code[5 + i] = (struct sample_code) {
            0, FIRST, CR3, LONG + i * PAGE, nop, 1,
        };
    }
    sample_code(w, code, 5 + n_long);
}

static void write_trace(const char *path)
{
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    write_code(w);
    sample_low_process(w, CR3_32, LOW);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

static struct lane_record record_in(uint64_t cr3, uint64_t index,
                                    uint64_t from, uint64_t to)
{
    const struct symbolizer_where where = {
        .index = index, .cr3 = cr3, .time = 2,
    };
    enum btrail_certainty certainty;

    return (struct lane_record) {
        .record = { from, to, 0 }, .at = { 0, index }, .cr3 = cr3,
        .process = symbolizer_process(names, &where, &certainty),
        .time = { 2, 0, BTRAIL_NO_ICOUNT },
    };
}

static struct lane_record record(uint64_t from, uint64_t to)
{
    return record_in(CR3, FIRST + 5, from, to);
}

/* The block from one address to another, which goes to a third */
static struct block block_to(uint64_t begin, uint64_t end, uint64_t to)
{
    const struct lane_record a = record(ENTRY, begin), b = record(end, to);

    return block_read(names, &a, &b);
}

static unsigned start(unsigned i)
{
    return g_array_index(starts, unsigned, i);
}

/* It has instructions [@i, @i + @n) of the user's page. */
static void require_starts(const struct block *b, unsigned i, unsigned n)
{
    g_assert_cmpuint(b->addresses->len, >=, n);
    for (unsigned k = 0; k < n; k++) {
        g_assert_cmphex(block_address(b, k), ==, USER + start(i + k));
    }
}

static void require_two(struct block *b, uint64_t first, uint64_t second)
{
    g_assert_cmpuint(b->addresses->len, ==, 2);
    g_assert_cmphex(block_address(b, 0), ==, first);
    g_assert_cmphex(block_address(b, 1), ==, second);
    g_assert_cmpuint(b->hole, ==, 1);
    block_clear(b);
}

static void require_one(struct block *b, uint64_t address)
{
    g_assert_cmpuint(b->addresses->len, ==, 1);
    g_assert_cmphex(block_address(b, 0), ==, address);
    g_assert_cmpuint(b->hole, ==, 0);
    block_clear(b);
}

static void require_none(struct block *b)
{
    g_assert_cmpuint(b->addresses->len, ==, 0);
    g_assert_cmpuint(b->hole, ==, 0);
    block_clear(b);
    g_assert_null(b->addresses);
}

static void test_whole(void)
{
    for (unsigned i = 0; i < 300; i++) {
        unsigned first = g_test_rand_int_range(0, starts->len);
        unsigned last = g_test_rand_int_range(first, starts->len);
        struct block b = block_to(USER + start(first), USER + start(last),
                                  USER + 7);

        require_starts(&b, first, last - first + 1);
        g_assert_cmpuint(b.addresses->len, ==, last - first + 1);
        g_assert_cmpuint(b.hole, ==, 0);
        g_assert_cmpuint(b.bits, ==, 64);
        block_clear(&b);
    }
}

/* The branch is within an instruction, as the code that is known says. */
static void test_within(void)
{
    for (unsigned i = 0; i < 300; i++) {
        unsigned first = g_test_rand_int_range(0, starts->len - 20);
        unsigned last = g_test_rand_int_range(first, starts->len - 1);
        uint64_t end = USER + start(last) + 1;
        struct block b;

        if (start(last) + 1 == start(last + 1)) {
            continue;
        }
        b = block_to(USER + start(first), end, USER + 7);
        require_starts(&b, first, last - first + 1);
        g_assert_cmpuint(b.addresses->len, ==, last - first + 2);
        g_assert_cmpuint(b.hole, ==, last - first + 1);
        g_assert_cmphex(block_address(&b, b.hole), ==, end);
        block_clear(&b);
    }
}

/* Which code is there when the block ends counts, on the vCPU it ends on. */
static void test_where(void)
{
    const unsigned n = 9;
    const uint64_t end = USER + g_array_index(other_starts, unsigned, n);
    struct lane_record a = record_in(CR3, OTHER - 1, ENTRY, USER);
    struct lane_record b = record_in(CR3, OTHER, end, USER);
    struct block block = block_read(names, &a, &b);
    struct symbolizer_where where = block_where(&a, &b);

    g_assert_cmpuint(where.index, ==, OTHER);
    g_assert_cmpuint(block.addresses->len, ==, n + 1);
    g_assert_cmpuint(block.hole, ==, 0);
    for (unsigned i = 0; i <= n; i++) {
        g_assert_cmphex(block_address(&block, i), ==, USER +
                        g_array_index(other_starts, unsigned, i));
    }
    block_clear(&block);
    where = block_where(&a, NULL);
    g_assert_cmpuint(where.index, ==, OTHER);
    g_assert_cmphex(where.cr3, ==, CR3);

    a.vcpu = 1;
    block = block_read(names, &a, &b);
    g_assert_cmpuint(block.addresses->len, ==, n + 1);
    block_clear(&block);
    a.vcpu = 0;
    b.vcpu = 1;
    block = block_read(names, &a, &b);
    require_two(&block, USER, end);
}

static void test_interrupted(void)
{
    const uint64_t last = USER + start(10);
    static const uint64_t before[] = { TIMER, TABLE, TABLE + 0x13, NMI };
    static const uint64_t others[] = {
        FAULT, TIMER + 4, NMI + 4, ENTRY, USER, NAMED,
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(before); i++) {
        struct block b = block_to(USER, last, before[i]);

        require_starts(&b, 0, 10);
        g_assert_cmpuint(b.addresses->len, ==, 10);
        g_assert_cmpuint(b.hole, ==, 0);
        block_clear(&b);
        b = block_to(USER, USER, before[i]);
        require_none(&b);
        /* Of what is not known, the hole is after the last one. */
        b = block_to(KERNEL + PAGE, KERNEL + PAGE + 9, before[i]);
        require_one(&b, KERNEL + PAGE);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(others); i++) {
        struct block b = block_to(USER, last, others[i]);

        require_starts(&b, 0, 11);
        g_assert_cmpuint(b.addresses->len, ==, 11);
        block_clear(&b);
    }
}

/* It returns to a handler that was interrupted as it began, or an NMI comes. */
static void test_iret(void)
{
    static const uint64_t handlers[] = { TIMER, FAULT, TABLE };

    for (unsigned i = 0; i < G_N_ELEMENTS(handlers); i++) {
        const struct lane_record r = record(IRET, handlers[i]);
        const struct lane_record n = record(IRET, NMI);
        struct block b = block_to(IRET, IRET, handlers[i]);

        require_one(&b, IRET);
        g_assert_false(block_interrupted(names, &r));
        g_assert_false(block_delivery(names, &r));
        b = block_to(IRET, IRET, NMI);
        require_none(&b);
        g_assert_true(block_interrupted(names, &n));
        g_assert_true(block_delivery(names, &n));
    }
}

/* An address of interest: of the pages, where instructions begin and do not */
static uint64_t some_address(void)
{
    static const uint64_t pages[] = {
        USER, USER, USER, KERNEL, NEARBY, LONG, LONG + BLOCK_MAX - 64,
    };
    static const uint64_t others[] = {
        0, UINT64_MAX, TIMER, NMI, IRET, BTRAIL_PSEUDO_SYSCALL,
    };
    unsigned i = g_test_rand_int_range(0, 20);

    return i < G_N_ELEMENTS(others) ? others[i] :
           pages[i % G_N_ELEMENTS(pages)] + g_test_rand_int_range(0, 128);
}

static bool has_one(const struct block *b, const uint64_t *addresses,
                    unsigned n)
{
    for (unsigned i = 0; i < b->addresses->len; i++) {
        for (unsigned k = 0; k < n; k++) {
            if (block_address(b, i) == addresses[k]) {
                return true;
            }
        }
    }
    return false;
}

/* What is kept of the code says of any block what its instructions say, at any
 * time. */
static void test_search(void)
{
    enum { SEARCHES = 300, BLOCKS = 60, N = 3 };
    unsigned found = 0;

    for (unsigned i = 0; i < SEARCHES; i++) {
        uint64_t addresses[N];
        unsigned n = g_test_rand_int_range(1, N + 1);
        struct block_search *s;

        addresses[0] = some_address();
        for (unsigned k = 1; k < n; k++) {
            addresses[k] = addresses[k - 1] + g_test_rand_int_range(1, 40);
            if (addresses[k] < addresses[k - 1]) {
                n = k;
            }
        }
        s = block_search_new(names, addresses, n);
        for (unsigned k = 0; k < BLOCKS; k++) {
            uint64_t index = g_test_rand_int_range(FIRST - 2, OTHER + 5);
            uint64_t to = g_test_rand_bit() ? some_address() :
                          addresses[0] - g_test_rand_int_range(0, 64);
            uint64_t from = g_test_rand_bit() ? some_address() :
                            to + g_test_rand_int_range(0, 200);
            struct lane_record a = record_in(CR3, index, ENTRY, to);
            struct lane_record r = record_in(CR3, index, from,
                                             some_address());
            bool last = !g_test_rand_int_range(0, 50);
            struct block b;

            if (from < to && from - to <= BLOCK_MAX) {
                continue;
            }
            r.lost = !g_test_rand_int_range(0, 20);
            b = block_read(names, &a, last ? NULL : &r);
            g_assert_cmpint(block_search_has(s, &a, last ? NULL : &r), ==,
                            has_one(&b, addresses, n));
            found += has_one(&b, addresses, n);
            block_clear(&b);
        }
        block_search_free(s);
    }
    g_assert_cmpuint(found, >, SEARCHES);
    g_assert_cmpuint(found, <, SEARCHES * BLOCKS / 2);
}

/* Code that was not captured there, or not yet, or in another space */
static void test_unknown(void)
{
    const struct lane_record a = record(ENTRY, USER);
    struct lane_record r;
    struct block b = block_to(KERNEL + PAGE, KERNEL + PAGE + 2, USER);

    require_two(&b, KERNEL + PAGE, KERNEL + PAGE + 2);
    b = block_to(KERNEL + PAGE, KERNEL + PAGE, USER);
    require_one(&b, KERNEL + PAGE);

    r = record_in(CR3, FIRST - 1, USER + start(3), USER);
    b = block_read(names, &a, &r);
    require_two(&b, USER, USER + start(3));
    r = record_in(0x5000, FIRST + 1, USER + start(3), USER);
    b = block_read(names, &a, &r);
    require_two(&b, USER, USER + start(3));

    /* It runs out of a page that is known. */
    b = block_to(KERNEL + PAGE - 2, KERNEL + PAGE + 8, USER);
    g_assert_cmpuint(b.addresses->len, ==, 4);
    g_assert_cmpuint(b.hole, ==, 3);
    g_assert_cmphex(block_address(&b, 2), ==, KERNEL + PAGE);
    g_assert_cmphex(block_address(&b, 3), ==, KERNEL + PAGE + 8);
    block_clear(&b);
}

/* Records are missing, or say of a mode only that it was there. */
static void test_missing(void)
{
    const uint64_t last = USER + start(5);
    struct lane_record a = record(ENTRY, USER), r = record(last, USER);
    struct block b;

    r.lost = true;
    b = block_read(names, &a, &r);
    require_two(&b, USER, last);
    r.record.from = USER;
    b = block_read(names, &a, &r);
    require_two(&b, USER, USER);
    b = block_read(names, &a, NULL);
    require_one(&b, USER);

    r = record(BTRAIL_PSEUDO_FROM_KERNEL, USER);
    b = block_read(names, &a, &r);
    require_one(&b, USER);
    a.record.to = BTRAIL_PSEUDO_SYSCALL;
    b = block_read(names, &a, &r);
    require_none(&b);
    b = block_read(names, &a, NULL);
    require_none(&b);
    r = record(last, USER);
    b = block_read(names, &a, &r);
    require_one(&b, last);
    r = record(last, TIMER);
    b = block_read(names, &a, &r);
    require_none(&b);
    r = record(BTRAIL_PSEUDO_FROM_USER, TIMER);
    b = block_read(names, &a, &r);
    require_none(&b);
    a.record.to = USER;
    b = block_read(names, &a, &r);
    require_one(&b, USER);
}

/* Records that cannot be, as a damaged trace can have them */
static void test_hostile(void)
{
    struct block b = block_to(USER + start(9), USER + start(2), USER);

    require_two(&b, USER + start(9), USER + start(2));
    b = block_to(USER, 0, USER);
    require_two(&b, USER, 0);
    b = block_to(0, UINT64_MAX, USER);
    require_two(&b, 0, UINT64_MAX);
    b = block_to(UINT64_MAX - 3, 5, USER);
    require_two(&b, UINT64_MAX - 3, 5);
    b = block_to(USER, USER + (UINT64_C(1) << 40), USER);
    require_two(&b, USER, USER + (UINT64_C(1) << 40));

    b = block_to(LONG, LONG + BLOCK_MAX, USER);
    g_assert_cmpuint(b.addresses->len, ==, BLOCK_MAX + 1);
    g_assert_cmpuint(b.hole, ==, 0);
    g_assert_cmphex(block_address(&b, BLOCK_MAX), ==, LONG + BLOCK_MAX);
    block_clear(&b);
    b = block_to(LONG, LONG + BLOCK_MAX + 1, USER);
    require_two(&b, LONG, LONG + BLOCK_MAX + 1);
}

static void test_bits(void)
{
    struct lane_record a = record_in(CR3_32, FIRST + 1, ENTRY, LOW);
    struct lane_record r = record_in(CR3_32, FIRST + 2, LOW + 7, LOW);
    static const unsigned want[] = { 0, 1, 6, 7 };
    /* mov ax, 1; add [bx + si], al */
    static const unsigned want16[] = { 0, 1, 4, 6, 7 };
    struct block b = block_read(names, &a, &r);

    g_assert_cmpuint(b.bits, ==, 32);
    g_assert_cmpuint(b.hole, ==, 0);
    g_assert_cmpuint(b.addresses->len, ==, G_N_ELEMENTS(want));
    for (unsigned i = 0; i < G_N_ELEMENTS(want); i++) {
        g_assert_cmphex(block_address(&b, i), ==, LOW + want[i]);
    }
    block_clear(&b);

    /* The process in which the block ends counts. */
    a = record_in(CR3, FIRST + 1, ENTRY, LOW);
    b = block_read(names, &a, &r);
    g_assert_cmpuint(b.bits, ==, 32);
    g_assert_cmpuint(b.addresses->len, ==, G_N_ELEMENTS(want));
    block_clear(&b);

    /* The same where only one end is known */
    a = record_in(CR3_32, FIRST + 1, ENTRY, LOW);
    a.record.to = BTRAIL_PSEUDO_FROM_KERNEL;
    b = block_read(names, &a, &r);
    g_assert_cmpuint(b.bits, ==, 32);
    require_one(&b, LOW + 7);
    a.record.to = LOW;
    b = block_read(names, &a, NULL);
    g_assert_cmpuint(b.bits, ==, 32);
    require_one(&b, LOW);
    /* What CR3 says comes first, and that of the record that ends the block. */
    a = record_in(CR3_32 | BTRAIL_CR3_CODE32, FIRST + 1, ENTRY, LOW);
    r = record_in(CR3_32 | BTRAIL_CR3_CODE16, FIRST + 2, LOW + 7, LOW);
    b = block_read(names, &a, &r);
    g_assert_cmpuint(b.bits, ==, 16);
    g_assert_cmpuint(b.hole, ==, 0);
    g_assert_cmpuint(b.addresses->len, ==, G_N_ELEMENTS(want16));
    for (unsigned i = 0; i < G_N_ELEMENTS(want16); i++) {
        g_assert_cmphex(block_address(&b, i), ==, LOW + want16[i]);
    }
    block_clear(&b);
    /* The kernel runs in the same address space. */
    a = record_in(CR3_32, FIRST + 1, ENTRY, LOW);
    r = record_in(CR3_32, FIRST + 2, LOW + 7, LOW);
    a.record.to = IRET;
    r.record.from = IRET;
    b = block_read(names, &a, &r);
    g_assert_cmpuint(b.bits, ==, 64);
    block_clear(&b);
}

static bool is_near_call(uint64_t from, uint64_t to)
{
    const struct lane_record r = record(from, to);

    return block_near_call(names, &r);
}

static void test_near_call(void)
{
    g_assert_true(is_near_call(THUNK, THUNK + 12));
    g_assert_true(is_near_call(THUNK, THUNK + 6));
    g_assert_true(is_near_call(THUNK, THUNK + 31));
    g_assert_false(is_near_call(THUNK, THUNK + 5));
    g_assert_false(is_near_call(THUNK, THUNK + 32));
    g_assert_false(is_near_call(THUNK, THUNK - 12));
    g_assert_false(is_near_call(THUNK, TIMER));
    /* No call, or not known to be one */
    g_assert_false(is_near_call(THUNK + 12, THUNK + 24));
    g_assert_false(is_near_call(KERNEL + PAGE, KERNEL + PAGE + 12));
    g_assert_false(is_near_call(NEARBY, NEARBY + 12));
    /* A function can be as close. */
    g_assert_false(is_near_call(CALLER, CALLEE));
}

static bool is_retpoline(const struct btrail_record *call,
                         const struct btrail_record *ret, bool lost)
{
    const struct lane_record c = record(call->from, call->to);
    struct lane_record r = record(ret->from, ret->to);

    r.lost = lost;
    return block_retpoline(names, &c, &r);
}

static void test_retpoline(void)
{
    const struct btrail_record call = { THUNK, THUNK + 12, 0 };
    const struct btrail_record ret = { THUNK + 16, ENTRY, 0 };
    const struct btrail_record back = { THUNK + 16, THUNK + 5, 0 };
    const struct btrail_record none = { THUNK + 12, ENTRY, 0 };
    const struct btrail_record far = { KERNEL + 0x305, ENTRY, 0 };
    const struct btrail_record before = { THUNK - 1, ENTRY, 0 };
    const struct btrail_record other = { THUNK + 10, THUNK + 12, 0 };

    g_assert_true(is_retpoline(&call, &ret, false));
    g_assert_false(is_retpoline(&call, &ret, true));
    g_assert_false(is_retpoline(&call, &back, false));
    g_assert_false(is_retpoline(&call, &none, false));
    g_assert_false(is_retpoline(&call, &far, false));
    g_assert_false(is_retpoline(&call, &before, false));
    g_assert_false(is_retpoline(&other, &ret, false));
}

static bool is_delivery(uint64_t from, uint64_t to)
{
    const struct lane_record r = record(from, to);

    return block_delivery(names, &r);
}

static void test_delivery(void)
{
    g_assert_true(is_delivery(USER, TIMER));
    g_assert_true(is_delivery(USER, FAULT));
    g_assert_true(is_delivery(THUNK + 16, FAULT));
    g_assert_true(is_delivery(USER, TABLE + 0x10));
    g_assert_true(is_delivery(USER, NMI));
    g_assert_false(is_delivery(USER, FAULT + 4));
    g_assert_false(is_delivery(USER, ENTRY));
    g_assert_false(is_delivery(USER, USER));
    g_assert_false(is_delivery(USER, NAMED));
    g_assert_false(is_delivery(USER, BTRAIL_PSEUDO_PAGE_FAULT));
    g_assert_false(is_delivery(IRET, USER));
}

static bool is_iret(uint64_t from)
{
    const struct lane_record r = record(from, USER);

    return block_iret(names, &r);
}

static void test_kinds(void)
{
    g_assert_true(is_iret(IRET));
    g_assert_false(is_iret(IRET + 2));
    g_assert_false(is_iret(THUNK + 16));
    g_assert_false(is_iret(KERNEL + PAGE));
    g_assert_false(is_iret(USER));
}

static char *map_text(void)
{
    return g_strdup_printf(
        "%" G_GINT64_MODIFIER "x T caller\n"
        "%" G_GINT64_MODIFIER "x T callee\n"
        "%" G_GINT64_MODIFIER "x T asm_sysvec_apic_timer_interrupt\n"
        "%" G_GINT64_MODIFIER "x T asm_exc_page_fault\n"
        "%" G_GINT64_MODIFIER "x T irq_entries_start\n"
        "%" G_GINT64_MODIFIER "x T asm_exc_nmi\n"
        "%" G_GINT64_MODIFIER "x T entry_SYSCALL_64\n"
        "cr3 %x pid=5 sample\n"
        "%" G_GINT64_MODIFIER "x T asm_sysvec_of_a_program\n",
        CALLER, CALLEE, TIMER, FAULT, TABLE, NMI, ENTRY, CR3, NAMED);
}

int main(int argc, char **argv)
{
    g_autofree char *map = map_text();
    char *path;
    int ret;

    g_test_init(&argc, &argv, NULL);
    path = sample_path();
    write_trace(path);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    names = sample_symbolizer(trace, map);
    g_test_add_func("/gdb-block/whole", test_whole);
    g_test_add_func("/gdb-block/within", test_within);
    g_test_add_func("/gdb-block/where", test_where);
    g_test_add_func("/gdb-block/interrupted", test_interrupted);
    g_test_add_func("/gdb-block/iret", test_iret);
    g_test_add_func("/gdb-block/search", test_search);
    g_test_add_func("/gdb-block/unknown", test_unknown);
    g_test_add_func("/gdb-block/missing", test_missing);
    g_test_add_func("/gdb-block/hostile", test_hostile);
    g_test_add_func("/gdb-block/bits", test_bits);
    g_test_add_func("/gdb-block/near-call", test_near_call);
    g_test_add_func("/gdb-block/retpoline", test_retpoline);
    g_test_add_func("/gdb-block/delivery", test_delivery);
    g_test_add_func("/gdb-block/kinds", test_kinds);
    ret = g_test_run();
    symbolizer_free(names);
    btrail_trace_close(trace);
    sample_remove(path);
    g_array_unref(starts);
    g_array_unref(other_starts);
    return ret;
}
