/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code in the memory of a guest that stands still: by which tables, and how
 * much
 */

#include <glib.h>
#include <string.h>

#include "fake-space.h"
#include "pt/frozen-code.h"

#define USER    UINT64_C(0x400000)
#define KERNEL  UINT64_C(0xffffffff81000000)
#define PAGES   128
#define PAGE    GUEST_PAGE_SIZE
#define P       UINT64_C(1)
#define PS      UINT64_C(128)
#define A       UINT64_C(32)
#define XD      (UINT64_C(1) << 63)

/* @a, @b: roots of two spaces that map nothing yet */
struct guest {
    struct fake_space space;
    struct guest_memory *memory;
    struct frozen_code *code;
    uint64_t a, b;
};

static void ask(struct guest *g, const struct frozen_code_options *o)
{
    frozen_code_free(g->code);
    g->code = frozen_code_new(g->memory, o);
}

static uint64_t *table(struct guest *g, uint64_t physical)
{
    return (uint64_t *)(g->space.memory + physical);
}

static void check(struct guest *g, uint64_t cr3, uint64_t address,
                  unsigned byte)
{
    static const struct pt_moment moment = { .tsc = 5, .records = 7 };

    /* The second time it is known. */
    for (unsigned i = 0; i < 2; i++) {
        struct pt_code code = { 0 };

        g_assert_cmpint(frozen_code_read(g->code, cr3, address, &moment,
                                         &code), ==, PT_CODE_READ);
        g_assert_cmpuint(code.size, ==, PAGE - address % PAGE);
        g_assert_cmphex(code.bytes[0], ==, byte);
        g_assert_cmphex(code.bytes[code.size - 1], ==, byte);
        g_assert_cmphex(code.tsc, ==, UINT64_MAX);
        g_assert_cmphex(code.records, ==, UINT64_MAX);
    }
}

static void check_none(struct guest *g, uint64_t cr3, uint64_t address)
{
    static const struct pt_moment moment;

    for (unsigned i = 0; i < 2; i++) {
        struct pt_code code;

        g_assert_cmpint(frozen_code_read(g->code, cr3, address, &moment,
                                         &code), ==, PT_CODE_UNREADABLE);
    }
}

static void put(struct guest *g, uint64_t root, uint64_t address,
                unsigned byte)
{
    memset(fake_space_page(&g->space, root, address), (int)byte, PAGE);
}

static void test_spaces(struct guest *g)
{
    const struct frozen_code_count *count;
    const uint64_t a = g->a, b = g->b;

    put(g, a, USER, 0x11);
    put(g, b, USER, 0x22);
    put(g, a, KERNEL, 0x33);
    ask(g, &(struct frozen_code_options){ .levels = 4 });
    check(g, a, USER + 5, 0x11);
    check(g, b, USER, 0x22);
    /* Bits that are no address: a PCID, and LAM */
    check(g, a | 0x123 | UINT64_C(1) << 61, USER, 0x11);
    check_none(g, b, USER + PAGE);
    check_none(g, b, USER - 1);
    /* Kernel code is that of all spaces, */
    check_none(g, b, KERNEL);
    check(g, a, KERNEL + 0xfff, 0x33);
    check(g, b, KERNEL, 0x33);
    /* even those whose tables are gone. */
    check(g, (PAGES - 1) * PAGE, KERNEL, 0x33);
    check(g, UINT64_MAX, KERNEL, 0x33);
    check_none(g, UINT64_MAX, USER);
    check_none(g, (PAGES - 1) * PAGE, USER);
    /* Not canonical, and the last page */
    check_none(g, a, UINT64_C(1) << 47);
    check_none(g, a, USER | UINT64_C(0xfffe) << 48);
    check_none(g, a, UINT64_MAX);

    count = frozen_code_counted(g->code);
    g_assert_cmpuint(count->pages, ==, 3);
    g_assert_cmpuint(count->places, ==, 3);
    g_assert_cmpuint(count->unreadable, ==, 7);
    g_assert_cmpuint(count->refused, ==, 0);
}

/* A root that has worked for another page of the kernel is tried again. */
static void test_last_root(struct guest *g)
{
    const uint64_t a = g->a, b = g->b;

    put(g, a, KERNEL, 0x33);
    put(g, a, KERNEL + PAGE, 0x44);
    ask(g, &(struct frozen_code_options){ .levels = 4 });
    check_none(g, b, KERNEL + PAGE);
    check(g, a, KERNEL, 0x33);
    check(g, b, KERNEL + PAGE, 0x44);
}

/* Tables that are in use count more than those of the stream for what all
 * spaces have; and nothing for what one has. */
static void test_roots(struct guest *g)
{
    const uint64_t a = g->a, b = g->b;

    put(g, a, KERNEL, 0x33);
    put(g, b, KERNEL, 0x66);
    put(g, b, KERNEL + PAGE, 0x77);
    put(g, a, USER, 0x11);
    ask(g, &(struct frozen_code_options){ .levels = 4 });
    check(g, b, KERNEL, 0x66);
    ask(g, &(struct frozen_code_options){
        .levels = 4, .roots = (uint64_t[]){ a | 5 }, .n_roots = 1 });
    check(g, b, KERNEL, 0x33);
    check(g, b, KERNEL + PAGE, 0x77);
    check_none(g, b, USER);
    check(g, a, USER, 0x11);
}

/* Page-table isolation: the root of user mode has little of the kernel. */
static void test_isolation(struct guest *g)
{
    struct frozen_code_options o = { .levels = 4 };
    uint64_t kernel, user, lone;

    while (g->space.used % 2) {
        g->space.used++;
    }
    kernel = fake_space_root(&g->space);
    user = fake_space_root(&g->space);
    fake_space_root(&g->space);
    lone = fake_space_root(&g->space);
    g_assert_cmphex(user, ==, kernel | PAGE);
    put(g, kernel, USER, 0x11);
    put(g, kernel, KERNEL, 0x33);
    put(g, kernel, KERNEL + PAGE, 0x44);
    put(g, kernel, KERNEL + 2 * PAGE, 0x45);
    table(g, user)[0] = table(g, kernel)[0] | A;
    table(g, kernel)[0] |= XD;
    put(g, user, KERNEL + PAGE, 0x55);
    ask(g, &o);
    check(g, user, USER, 0x11);
    check(g, user, KERNEL, 0x33);
    check(g, user, KERNEL + PAGE, 0x55);
    /* In use is user mode's. */
    o.roots = &user;
    o.n_roots = 1;
    ask(g, &o);
    check(g, lone, KERNEL + 2 * PAGE, 0x45);
    o.n_roots = 0;

    /* Another process before it: not the kernel's */
    table(g, kernel)[1] = PAGE | P;
    ask(g, &o);
    check(g, user, USER, 0x11);
    check_none(g, user, KERNEL);
    table(g, kernel)[1] = 0;
    table(g, kernel)[0] = table(g, user)[0] = 0;
    ask(g, &o);
    check_none(g, user, KERNEL);
}

static void test_large(struct guest *g)
{
    const uint64_t a = g->a;
    uint64_t *t;

    put(g, a, USER, 0x11);
    t = table(g, table(g, table(g, a)[0] & ~0xfffull)[0] & ~0xfffull);
    t[3] = P | PS | 0x1000;             /* 2 MiB at 0, PAT */
    t[4] = P | PS | 2 << 20;            /* no RAM */
    table(g, table(g, a)[0] & ~0xfffull)[1] = P | PS;     /* 1 GiB at 0 */
    memset(g->space.memory + 0x77000, 0x77, PAGE);
    ask(g, &(struct frozen_code_options){ .levels = 4 });
    check(g, a, 3 << 21 | 0x77123, 0x77);
    check(g, a, 1 << 30 | 0x77123, 0x77);
    check_none(g, a, 4 << 21);
    check_none(g, a, 3 << 21 | PAGES * PAGE);
    /* It is one page, at two places. */
    g_assert_cmpuint(frozen_code_counted(g->code)->pages, ==, 1);
    g_assert_cmpuint(frozen_code_counted(g->code)->places, ==, 2);
}

static void test_levels(struct guest *g)
{
    uint64_t top, root;
    uint32_t *words;

    /* 5 */
    root = fake_space_root(&g->space);
    top = fake_space_root(&g->space);
    put(g, root, USER, 0x11);
    put(g, root, KERNEL, 0x33);
    table(g, top)[3] = root | P;
    table(g, top)[511] = root | P;
    ask(g, &(struct frozen_code_options){ .levels = 5 });
    check(g, top, UINT64_C(3) << 48 | USER, 0x11);
    check(g, top, KERNEL, 0x33);
    check_none(g, top, USER);
    ask(g, &(struct frozen_code_options){ .levels = 4 });
    check_none(g, top, UINT64_C(3) << 48 | USER);

    /* PAE: four entries anywhere in a page */
    top = fake_space_root(&g->space);
    table(g, top)[4] = (table(g, table(g, root)[0] & ~0xfffull)[0] &
                         ~0xfffull) | P;
    ask(g, &(struct frozen_code_options){ .levels = 3 });
    check(g, top | 0x20, USER, 0x11);
    check(g, top | 0x3f, USER, 0x11);
    check_none(g, top, USER);
    check_none(g, top | 0x20, KERNEL);
    check_none(g, top | 0x20, UINT64_C(1) << 32 | USER);

    /* 2 */
    top = fake_space_root(&g->space);
    words = (uint32_t *)table(g, top);
    words[0x300] = (uint32_t)(P | PS);
    memset(g->space.memory + 0x77000, 0x77, PAGE);
    ask(g, &(struct frozen_code_options){ .levels = 2 });
    check(g, top, 0xc0077010, 0x77);
    check_none(g, top, 0xbf077010);

    /* None, and what is no number of levels */
    ask(g, &(struct frozen_code_options){ .levels = FROZEN_CODE_UNPAGED });
    check(g, 12345, 0x77010, 0x77);
    check_none(g, 12345, UINT64_C(1) << 32 | 0x77010);
    check_none(g, 12345, PAGES * PAGE);
    check_none(g, 0, UINT64_MAX);
    ask(g, &(struct frozen_code_options){ .levels = 0 });
    check_none(g, root, USER);
    ask(g, &(struct frozen_code_options){ .levels = 6 });
    check_none(g, root, USER);
}

/* Isolation with PAE: four entries at the begin of a page each */
static void test_isolation_32(struct guest *g)
{
    uint64_t scratch, kernel, user;

    while (g->space.used % 2) {
        g->space.used++;
    }
    kernel = fake_space_root(&g->space);
    user = fake_space_root(&g->space);
    scratch = fake_space_root(&g->space);
    put(g, scratch, USER, 0x11);
    put(g, scratch, 0xc1000000, 0x33);
    for (unsigned i = 0; i < 4; i++) {
        table(g, kernel)[i] =
            table(g, table(g, scratch)[0] & ~0xfffull)[i];
    }
    table(g, user)[0] = table(g, kernel)[0];
    ask(g, &(struct frozen_code_options){ .levels = 3 });
    check(g, user, USER, 0x11);
    check(g, user, 0xc1000000, 0x33);
    /* A root of 32 bytes within a page is not isolated. */
    check_none(g, user | 0x20, 0xc1000000);
}

struct pages {
    const struct guest *guest;
    unsigned n;
    uint64_t cr3[4], address[4];
    uint8_t byte[4];
};

static void take(void *opaque, uint64_t cr3, uint64_t address,
                 const uint8_t *bytes)
{
    struct pages *p = opaque;

    g_assert_cmpuint(p->n, <, 4);
    p->cr3[p->n] = cr3;
    p->address[p->n] = address;
    p->byte[p->n] = bytes[PAGE - 1];
    p->n++;
}

static void test_each(struct guest *g)
{
    struct pages p = { 0 };
    const uint64_t a = g->a, b = g->b;

    put(g, a, USER, 0x11);
    put(g, b, USER, 0x22);
    put(g, b, KERNEL, 0x33);
    ask(g, &(struct frozen_code_options){ .levels = 4 });
    check_none(g, a, KERNEL);
    check(g, b, USER + 7, 0x22);
    check(g, b, KERNEL, 0x33);
    check(g, a, KERNEL, 0x33);
    check(g, a, USER, 0x11);
    frozen_code_each(g->code, take, &p);
    g_assert_cmpuint(p.n, ==, 3);
    g_assert_true(p.cr3[0] == b && p.address[0] == USER && p.byte[0] == 0x22);
    g_assert_true(p.cr3[1] == b && p.address[1] == KERNEL &&
                  p.byte[1] == 0x33);
    g_assert_true(p.cr3[2] == a && p.address[2] == USER && p.byte[2] == 0x11);
}

/* What there is too much of is not known. */
static void test_limits(struct guest *g)
{
    const uint64_t a = g->a;

    for (unsigned i = 0; i < 4; i++) {
        put(g, a, USER + i * PAGE, 0x10 + i);
    }
    ask(g, &(struct frozen_code_options){ .levels = 4, .pages = 2 });
    check(g, a, USER, 0x10);
    check(g, a, USER + PAGE, 0x11);
    check_none(g, a, USER + 2 * PAGE);
    check(g, a, USER, 0x10);
    g_assert_cmpuint(frozen_code_counted(g->code)->refused, ==, 1);
    g_assert_cmpuint(frozen_code_counted(g->code)->pages, ==, 2);
    ask(g, &(struct frozen_code_options){ .levels = 4, .places = 2 });
    check(g, a, USER, 0x10);
    check_none(g, a, USER - PAGE);
    check_none(g, a, USER + PAGE);
    check(g, a, USER, 0x10);
    g_assert_cmpuint(frozen_code_counted(g->code)->refused, ==, 2);
    ask(g, &(struct frozen_code_options){ .levels = 4, .walks = 2 });
    check(g, a, USER, 0x10);
    check_none(g, a, USER - PAGE);
    check_none(g, a, USER + PAGE);
    check(g, a, USER, 0x10);
    g_assert_cmpuint(frozen_code_counted(g->code)->refused, ==, 2);
}

typedef void guest_test(struct guest *g);

static void run_test(gconstpointer test)
{
    struct guest g = { 0 };

    fake_space_init(&g.space, PAGES);
    g.memory = fake_space_memory(&g.space);
    g.a = fake_space_root(&g.space);
    g.b = fake_space_root(&g.space);
    (*(guest_test *const *)test)(&g);
    frozen_code_free(g.code);
    guest_memory_free(g.memory);
    fake_space_clear(&g.space);
}

/* Adds a test of a guest of its own. */
static void add_test(const char *path, guest_test *test)
{
    g_test_add_data_func_full(path, g_memdup2(&test, sizeof(test)), run_test,
                              g_free);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_test("/frozen-code/spaces", test_spaces);
    add_test("/frozen-code/last-root", test_last_root);
    add_test("/frozen-code/roots", test_roots);
    add_test("/frozen-code/isolation", test_isolation);
    add_test("/frozen-code/large", test_large);
    add_test("/frozen-code/levels", test_levels);
    add_test("/frozen-code/isolation-32", test_isolation_32);
    add_test("/frozen-code/each", test_each);
    add_test("/frozen-code/limits", test_limits);
    return g_test_run();
}
