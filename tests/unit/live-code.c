/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code that is read while a guest changes it, against all that it ever was
 */

#include <glib.h>
#include <string.h>

#include "fake-space.h"
#include "pt/live-code.h"

#define USER    UINT64_C(0x400000)
#define KERNEL  UINT64_C(0xffffffff81000000)
#define PAGES   256
#define PAGE    GUEST_PAGE_SIZE
#define FRAME   UINT64_C(0x000ffffffffff000)
#define U       UINT64_C(4)
#define D       UINT64_C(64)
#define XD      (UINT64_C(1) << 63)

struct guest {
    struct fake_space space;
    struct guest_memory *memory;
    struct live_code *code;
    struct live_code_view view;
    uint64_t now;
    unsigned changes;           /* pages that were said to have changed */
    uint64_t changed;           /* the last one */
    unsigned user;              /* how often it was the one at USER */
};

static uint64_t now(void *opaque)
{
    struct guest *g = opaque;

    return g->now++;
}

static void change(void *opaque, uint64_t cr3, uint64_t page)
{
    struct guest *g = opaque;

    g->changes++;
    g->changed = page;
    g->user += page == USER;
}

static void begin(struct guest *g, struct live_code_options o)
{
    *g = (struct guest){ .now = 1000 };
    fake_space_init(&g->space, PAGES);
    g->memory = fake_space_memory(&g->space);
    o.now = now;
    o.now_opaque = g;
    o.levels = o.levels ? o.levels : 4;
    g->code = live_code_new(g->memory, &o, change, g);
    g->view = (struct live_code_view){
        .code = g->code,
        .passing = g_array_new(FALSE, FALSE, sizeof(struct live_code_place)),
    };
}

static void end(struct guest *g)
{
    g_array_free(g->view.passing, TRUE);
    live_code_free(g->code);
    guest_memory_free(g->memory);
    fake_space_clear(&g->space);
}

/* The entry of a page; those above it are of user mode if it is. */
static uint64_t *entry_of(struct guest *g, uint64_t root, uint64_t address)
{
    uint64_t table = root, *entry = NULL;

    fake_space_page(&g->space, root, address);
    for (unsigned shift = 39; shift >= 12; shift -= 9) {
        entry = (uint64_t *)(g->space.memory + table) +
                (address >> shift & 511);
        *entry |= address >> 63 ? 0 : U;
        table = *entry & FRAME;
    }
    return entry;
}

/* Has a page of this byte. */
static void put(struct guest *g, uint64_t root, uint64_t address, uint8_t byte)
{
    entry_of(g, root, address);
    memset(fake_space_page(&g->space, root, address), byte, PAGE);
}

/* Another page in memory, of threes, which is mapped elsewhere */
static uint64_t other_page(struct guest *g, uint64_t root)
{
    put(g, root, USER + 8 * PAGE, 3);
    return *entry_of(g, root, USER + 8 * PAGE) & FRAME;
}

/* Returns the byte that code has between these times; -1: it is not known, -2:
 * it has changed. */
static int ask(struct guest *g, uint64_t cr3, uint64_t address, uint64_t from,
               uint64_t until)
{
    static const struct pt_moment moment;
    struct pt_code code;

    g->view.from = from;
    g->view.until = until;
    g->view.chosen = false;
    g_array_set_size(g->view.passing, 0);
    switch (live_code_read(&g->view, cr3, address, &moment, &code)) {
    case PT_CODE_UNREADABLE:
        return -1;
    case PT_CODE_CHANGED:
        return -2;
    default:
        g_assert_cmpuint(code.size, ==, PAGE - address % PAGE);
        return code.bytes[0];
    }
}

/* A process that has ended before it is asked for */
static void test_spaces(void)
{
    struct guest g;
    uint64_t root, other, from, until;

    begin(&g, (struct live_code_options){ .always = true });
    root = fake_space_root(&g.space);
    other = fake_space_root(&g.space);
    put(&g, root, USER, 1);
    put(&g, root, USER + PAGE, 2);
    put(&g, root, USER + 2 * PAGE, 3);
    put(&g, root, USER + 3 * PAGE, 4);
    put(&g, root, KERNEL, 5);
    *entry_of(&g, root, USER + 2 * PAGE) |= XD;
    *entry_of(&g, root, USER + 3 * PAGE) |= D;
    live_code_see(g.code, root | 0x5);      /* and a PCID */
    g_assert_cmpuint(live_code_counted(g.code)->read, ==, 2);
    from = g.now;
    /* It is young: what comes now is read when it is looked at next. */
    put(&g, root, USER + 4 * PAGE, 6);
    live_code_poll(g.code);
    g_assert_cmpuint(live_code_counted(g.code)->read, ==, 2);
    until = g.now += 1000000;
    live_code_poll(g.code);
    g_assert_cmpuint(live_code_counted(g.code)->read, ==, 3);
    live_code_see(g.code, other);
    memset(g.space.memory + root, 0, PAGE / 2);

    g_assert_cmpint(ask(&g, root, USER + 7, from, until), ==, 1);
    g_assert_cmpuint(g.view.passing->len, >, 0);
    g_assert_cmpint(ask(&g, root, USER + PAGE, from, until), ==, 2);
    g_assert_cmpint(ask(&g, root, USER + 2 * PAGE, from, until), ==, -1);
    g_assert_cmpint(ask(&g, root, USER + 3 * PAGE, from, until), ==, -1);
    g_assert_cmpint(ask(&g, root, USER + 4 * PAGE, from, until), ==, 6);
    /* Before it was seen, these tables can have been another one's. */
    g_assert_cmpint(ask(&g, root, USER + 7, 999, until), ==, -1);
    /* The kernel's are found by tables that are in use. */
    put(&g, other, KERNEL + PAGE, 7);
    g_assert_cmpint(ask(&g, root, KERNEL + PAGE, 1000, g.now), ==, 7);
    g_assert_cmpint(ask(&g, other, USER, 1000, g.now), ==, -1);
    /* What was executed after it was seen to be gone is another one's. */
    g_assert_cmpint(ask(&g, root, USER, g.now, g.now + 10), ==, -1);
    end(&g);
}

/* Two that were in use say other things of the kernel: one of them is gone. */
static void test_contradiction(void)
{
    struct guest g;
    uint64_t root, other;

    begin(&g, (struct live_code_options){ .always = true });
    root = fake_space_root(&g.space);
    other = fake_space_root(&g.space);
    put(&g, root, KERNEL, 1);
    put(&g, other, KERNEL, 2);
    live_code_see(g.code, root);
    g_assert_cmpint(ask(&g, root, KERNEL, 1000, g.now), ==, 1);
    live_code_see(g.code, other);
    live_code_check(g.code);
    g_assert_cmpint(ask(&g, root, KERNEL, g.now, g.now + 1), ==, -1);
    end(&g);
}

static void test_changes(void)
{
    struct guest g;
    uint64_t root, t, first;

    begin(&g, (struct live_code_options){ .always = true });
    root = fake_space_root(&g.space);
    put(&g, root, KERNEL, 1);
    live_code_see(g.code, root);
    g_assert_cmpint(ask(&g, root, KERNEL, g.now, g.now), ==, 1);
    g_assert_cmpuint(g.view.passing->len, ==, 0);
    first = g.now;
    live_code_check(g.code);
    g_assert_cmpuint(g.changes, ==, 0);
    t = g.now;
    g_assert_false(live_code_has_changed(g.code, 1000, t));
    put(&g, root, KERNEL, 2);
    live_code_check(g.code);
    g_assert_cmpuint(g.changes, ==, 1);
    g_assert_cmphex(g.changed, ==, KERNEL);
    g_assert_true(live_code_has_changed(g.code, t, t + 1));
    g_assert_false(live_code_has_changed(g.code, g.now, g.now + 1));

    g_assert_cmpint(ask(&g, root, KERNEL, t, t + 1), ==, -2);
    g_assert_true(g.view.chosen);
    g.view.choice = LIVE_CODE_BEFORE;
    g_assert_cmpint(ask(&g, root, KERNEL, t, t + 1), ==, 1);
    g_assert_cmpuint(g.view.passing->len, ==, 1);
    g.view.choice = LIVE_CODE_AFTER;
    g_assert_cmpint(ask(&g, root, KERNEL, t, t + 1), ==, 2);
    g_assert_cmpuint(g.view.passing->len, ==, 1);
    g.view.choice = LIVE_CODE_NEITHER;
    /* Before it, the first one is right; but for this time alone. */
    g_assert_cmpint(ask(&g, root, KERNEL, first, first), ==, 1);
    g_assert_false(g.view.chosen);
    g_assert_cmpuint(g.view.passing->len, ==, 1);

    end(&g);
}

/* A program writes to its code: from when on is not known. */
static void test_written(void)
{
    struct guest g;
    uint64_t root, t;

    begin(&g, (struct live_code_options){ 0 });
    root = fake_space_root(&g.space);
    put(&g, root, USER, 1);
    live_code_see(g.code, root);
    g_assert_cmpint(ask(&g, root, USER, g.now, g.now), ==, 1);
    live_code_check(g.code);
    t = g.now;
    *entry_of(&g, root, USER) |= D;
    live_code_check(g.code);
    g_assert_cmpuint(g.changes, ==, 1);
    g_assert_cmpint(ask(&g, root, USER, t, t), ==, -2);
    g_assert_false(g.view.chosen);
    g_assert_cmpint(ask(&g, root, USER, g.now, g.now), ==, -2);
    end(&g);
}

/* It writes to it through another mapping, so that no page table says it. */
static void test_alias(void)
{
    struct guest g;
    uint64_t root;

    begin(&g, (struct live_code_options){ .quiet = 100 });
    root = fake_space_root(&g.space);
    put(&g, root, USER, 1);
    live_code_see(g.code, root);
    g_assert_cmpint(ask(&g, root, USER, g.now, g.now), ==, 1);
    live_code_check(g.code);
    put(&g, root, USER, 2);
    live_code_check(g.code);
    for (unsigned i = 0; i < 10; i++) {
        /* As long as it is the same page, whatever it has by then */
        g_assert_cmpint(ask(&g, root, USER, g.now, g.now), ==, -2);
        g_assert_false(g.view.chosen);
        g.now += 1000;
        live_code_check(g.code);
    }
    /* Another one is mapped there. */
    *entry_of(&g, root, USER) = other_page(&g, root) | U | 1;
    live_code_check(g.code);
    g.now += 1000;
    live_code_check(g.code);
    g_assert_cmpint(ask(&g, root, USER, g.now, g.now), ==, 3);
    end(&g);
}

/* It has written to it there before it was seen for the first time. */
static void test_data(void)
{
    const uint64_t elsewhere = USER + 16 * PAGE;
    struct guest g;
    uint64_t root, t;

    begin(&g, (struct live_code_options){ 0 });
    root = fake_space_root(&g.space);
    put(&g, root, USER, 1);
    put(&g, root, USER + PAGE, 2);
    entry_of(&g, root, elsewhere);
    *entry_of(&g, root, elsewhere) = *entry_of(&g, root, USER) | XD | D;
    entry_of(&g, root, elsewhere + PAGE);
    *entry_of(&g, root, elsewhere + PAGE) =
        *entry_of(&g, root, USER + PAGE) | XD;
    live_code_see(g.code, root);
    live_code_check(g.code);
    g_assert_cmpint(ask(&g, root, USER, g.now, g.now), ==, -2);
    /* That one is mapped twice, too, but nobody has written to it. */
    g_assert_cmpint(ask(&g, root, USER + PAGE, g.now, g.now), ==, 2);
    /* It is written to, and as it was by when it is looked at again. */
    t = g.now;
    *entry_of(&g, root, elsewhere + PAGE) |= D;
    g.now += 1000;
    live_code_check(g.code);
    g_assert_cmpint(ask(&g, root, USER + PAGE, t + 500, t + 500), ==, -2);
    end(&g);
}

/* Other files take each other's place: once that was seen, none is taken to
 * have been there until there was only one for a time. */
static void test_quiet(void)
{
    struct guest g;
    uint64_t root, t, frames[2];

    begin(&g, (struct live_code_options){ .quiet = 500 });
    root = fake_space_root(&g.space);
    put(&g, root, USER, 1);
    frames[0] = *entry_of(&g, root, USER);
    frames[1] = other_page(&g, root) | U | 1;
    live_code_see(g.code, root);
    t = g.now;
    g_assert_cmpint(ask(&g, root, USER, t, t), ==, 1);
    live_code_check(g.code);
    *entry_of(&g, root, USER) = frames[1];
    live_code_check(g.code);
    g_assert_cmpint(ask(&g, root, USER, g.now, g.now), ==, -2);
    *entry_of(&g, root, USER) = frames[0];
    live_code_check(g.code);
    g_assert_cmpint(ask(&g, root, USER, g.now, g.now), ==, -2);
    g_assert_cmpint(ask(&g, root, USER, t, t), ==, -2);
    g.now += 600;
    live_code_check(g.code);
    g_assert_cmpint(ask(&g, root, USER, g.now, g.now), ==, 1);
    /* There is none for some time. */
    *entry_of(&g, root, USER) = 0;
    live_code_check(g.code);
    *entry_of(&g, root, USER) = frames[0];
    g_assert_cmpint(ask(&g, root, USER, g.now, g.now), ==, -2);
    /* What comes elsewhere can have been something else before, too. */
    put(&g, root, USER + PAGE, 4);
    g_assert_cmpint(ask(&g, root, USER + PAGE, t, g.now), ==, -1);
    g.now += 600;
    live_code_check(g.code);
    t = g.now;
    live_code_check(g.code);
    g_assert_cmpint(ask(&g, root, USER + PAGE, t, t), ==, 4);
    end(&g);
}

/* A module's page: it must have been there, and the same, for a time.  Linux
 * itself is in large pages. */
static void test_modules(void)
{
    const uint64_t module = UINT64_C(0xffffffffc0200000);
    struct guest g;
    uint64_t root, t, *entry, page;

    begin(&g, (struct live_code_options){ .quiet = 500 });
    root = fake_space_root(&g.space);
    put(&g, root, module, 1);
    put(&g, root, KERNEL, 0);
    /* The table's entry becomes that of a large page, from 0 on. */
    entry = (uint64_t *)(g.space.memory + root) + 511;
    entry = (uint64_t *)(g.space.memory + (*entry & FRAME)) + 510;
    entry = (uint64_t *)(g.space.memory + (*entry & FRAME)) + 8;
    *entry = 0x83;
    page = *entry_of(&g, root, module) & FRAME;
    live_code_see(g.code, root);
    t = g.now;
    g_assert_cmpint(ask(&g, root, KERNEL + page, t, t), ==, 1);
    g_assert_cmpint(ask(&g, root, module, t, t), ==, -1);
    g.now += 600;
    live_code_check(g.code);
    /* It was seen for long enough now, but not afterwards; */
    t = g.now - 1;
    g_assert_cmpint(ask(&g, root, module, 1000, t), ==, -1);
    live_code_check(g.code);
    g_assert_cmpint(ask(&g, root, module, t, t), ==, 1);
    /* and is not there for some time. */
    *entry_of(&g, root, module) &= ~UINT64_C(1);
    live_code_check(g.code);
    *entry_of(&g, root, module) |= 1;
    t = g.now;
    g_assert_cmpint(ask(&g, root, module, t, t), ==, -2);
    g.now += 600;
    live_code_check(g.code);
    t = g.now;
    live_code_check(g.code);
    g_assert_cmpint(ask(&g, root, module, t, t), ==, 1);
    end(&g);
}

/* Linux is loaded anew: elsewhere (kexec), or where it was (a reset). */
static void test_kernels(void)
{
    struct guest g;
    uint64_t root, t;

    begin(&g, (struct live_code_options){ .always = true });
    root = fake_space_root(&g.space);
    put(&g, root, KERNEL, 1);
    put(&g, root, KERNEL + PAGE, 2);
    put(&g, root, KERNEL + 2 * PAGE, 4);
    live_code_see(g.code, root);
    live_code_check(g.code);
    t = g.now;
    g_assert_cmpint(ask(&g, root, KERNEL, t, t), ==, 1);
    g_assert_cmpint(ask(&g, root, KERNEL + PAGE, t, t), ==, 2);
    live_code_check(g.code);
    *entry_of(&g, root, KERNEL) = *entry_of(&g, root, KERNEL + 2 * PAGE);
    live_code_check(g.code);
    g.view.choice = LIVE_CODE_BEFORE;
    g_assert_cmpint(ask(&g, root, KERNEL, t, t + 1), ==, -1);
    /* Also what is as it was, and what comes */
    g_assert_cmpint(ask(&g, root, KERNEL + PAGE, t, t), ==, -1);
    put(&g, root, KERNEL + 3 * PAGE, 5);
    g_assert_cmpint(ask(&g, root, KERNEL + 3 * PAGE, t, t), ==, -1);
    live_code_check(g.code);
    t = g.now;
    g_assert_cmpint(ask(&g, root, KERNEL, t, t), ==, 4);
    g_assert_cmpint(ask(&g, root, KERNEL + PAGE, t, t), ==, 2);
    end(&g);

    begin(&g, (struct live_code_options){ .always = true });
    root = fake_space_root(&g.space);
    for (unsigned i = 0; i < 20; i++) {
        put(&g, root, KERNEL + i * PAGE, i);
    }
    put(&g, root, KERNEL + 30 * PAGE, 30);
    live_code_see(g.code, root);
    for (unsigned i = 0; i < 18; i++) {
        g_assert_cmpint(ask(&g, root, KERNEL + i * PAGE, g.now, g.now), ==,
                        i);
    }
    live_code_check(g.code);
    t = g.now;
    for (unsigned i = 0; i < 7; i++) {
        put(&g, root, KERNEL + i * PAGE, 100);
    }
    live_code_check(g.code);
    /* It has patched itself; */
    g_assert_cmpint(ask(&g, root, KERNEL + 18 * PAGE, t, t), ==, 18);
    for (unsigned i = 0; i < 8; i++) {
        *entry_of(&g, root, KERNEL + i * PAGE) = 0;
    }
    live_code_check(g.code);
    /* or that was too much: what was not seen before is not known. */
    g_assert_cmpint(ask(&g, root, KERNEL + 19 * PAGE, t, t), ==, -1);
    g_assert_cmpint(ask(&g, root, KERNEL + 17 * PAGE, t, t), ==, 17);
    t = g.now;
    g_assert_cmpint(ask(&g, root, KERNEL + 30 * PAGE, t, t), ==, 30);
    end(&g);
}

/* Page tables, and all that they lead to, are another process's. */
static void test_owners(void)
{
    struct guest g;
    uint64_t root, t, *entry;

    begin(&g, (struct live_code_options){ 0 });
    root = fake_space_root(&g.space);
    put(&g, root, USER, 1);
    put(&g, root, UINT64_C(0x7ffc12345000), 0);         /* a stack */
    live_code_see(g.code, root);
    t = g.now;
    g_assert_cmpint(ask(&g, root, USER, t, t), ==, 1);
    /* More is mapped: it is the same one. */
    put(&g, root, USER + (UINT64_C(1) << 30), 2);
    g_assert_cmpint(ask(&g, root, USER, t, g.now), ==, 1);
    live_code_check(g.code);
    g_assert_cmpuint(g.changes, ==, 0);
    /* The stack is elsewhere, and the same page is at the same address. */
    entry = (uint64_t *)(g.space.memory + root) + 255;
    entry = (uint64_t *)(g.space.memory + (*entry & FRAME)) + 496;
    g_assert_cmphex(*entry, !=, 0);
    entry[1] = *entry;
    *entry = 0;
    g_assert_cmpint(ask(&g, root, USER, t, g.now), ==, -1);
    /* What is asked for of the time before it is as before. */
    g_assert_cmpint(ask(&g, root, USER, t, t), ==, 1);
    g_assert_cmpuint(g.view.passing->len, ==, 1);
    t = g.now;
    g_assert_cmpint(ask(&g, root, USER, t, t), ==, 1);
    g_assert_cmpuint(g.view.passing->len, ==, 0);
    live_code_check(g.code);
    g_assert_cmpuint(g.changes, ==, 1);
    g_assert_cmphex(g.changed, ==, USER);
    end(&g);
}

/* A page that has blocks is no more in the store when it changes. */
static void test_evicted(void)
{
    struct guest g;
    uint64_t root;

    begin(&g, (struct live_code_options){ .memory = 1 << 18 });
    root = fake_space_root(&g.space);
    put(&g, root, USER, 1);
    live_code_see(g.code, root);
    g_assert_cmpint(ask(&g, root, USER, g.now, g.now), ==, 1);
    for (unsigned i = 1; i < 100; i++) {
        put(&g, root, USER + i * PAGE, i);
        g_assert_cmpint(ask(&g, root, USER + i * PAGE, g.now, g.now), ==, i);
    }
    g_assert_cmpuint(live_code_stored(g.code)->evicted, >, 0);
    g_assert_cmpuint(g.user, ==, 0);
    put(&g, root, USER, 2);
    live_code_check(g.code);
    g_assert_cmpuint(g.user, ==, 1);
    end(&g);
}

/* With another PCID a block is another one: it is not kept. */
static void test_pcid(void)
{
    struct guest g;
    uint64_t root;

    begin(&g, (struct live_code_options){ 0 });
    root = fake_space_root(&g.space);
    put(&g, root, USER, 1);
    live_code_see(g.code, root);
    g_assert_cmpint(ask(&g, root, USER, g.now, g.now), ==, 1);
    g_assert_cmpint(ask(&g, root | 0x7e0, USER, g.now, g.now), ==, 1);
    g_assert_cmpuint(g.view.passing->len, ==, 1);
    end(&g);
}

/*
 * Pages are written to at any time, looked at at any time, and asked for at
 * times between two looks.  No content comes back, so each answer is checked
 * against the list of all writes.
 */
#define RANDOM  12u

static void test_random(void)
{
    struct guest g;
    uint64_t roots[3], times[255], looked[64];
    unsigned pages[255], n = 0, n_looked = 0, read = 0, changed = 0;

    begin(&g, (struct live_code_options){ .quiet = 1 });
    for (unsigned i = 0; i < 3; i++) {
        roots[i] = fake_space_root(&g.space);
    }
    for (unsigned i = 0; i < RANDOM; i++) {
        put(&g, roots[i % 3], USER + i * PAGE, 0);
    }
    for (unsigned i = 0; i < RANDOM; i++) {
        live_code_see(g.code, roots[i % 3]);
        g_assert_cmpint(ask(&g, roots[i % 3], USER + i * PAGE, g.now, g.now),
                        ==, 0);
    }
    while (n < 255 && n_looked < 64) {
        if (g_test_rand_int_range(0, 5)) {
            pages[n] = g_test_rand_int_range(0, RANDOM);
            times[n] = g.now++;
            n++;
            put(&g, roots[pages[n - 1] % 3], USER + pages[n - 1] * PAGE, n);
        } else {
            live_code_check(g.code);
            looked[n_looked++] = g.now;
        }
        for (unsigned k = 0; k < 8 && n_looked > 1; k++) {
            unsigned page = g_test_rand_int_range(0, RANDOM);
            uint64_t from = looked[0] + g_test_rand_int_range(
                0, looked[n_looked - 1] - looked[0]);
            uint64_t until = from + g_test_rand_int_range(0, 40);
            bool other = false;
            int byte = 0, was;

            /* All were looked at after it. */
            until = MIN(until, looked[n_looked - 1] - 3 * RANDOM);
            if (from > until) {
                continue;
            }
            for (unsigned i = 0; i < n; i++) {
                if (pages[i] == page && times[i] <= until) {
                    other |= times[i] >= from;
                    byte = i + 1;
                }
            }
            was = ask(&g, roots[page % 3], USER + page * PAGE, from, until);
            g_assert_cmpint(was, >=, -2);
            if (was >= 0) {
                g_assert_false(other);
                g_assert_cmpint(was, ==, byte);
                read++;
            } else {
                changed++;
            }
        }
    }
    g_assert_cmpuint(read, >, 0);
    g_assert_cmpuint(changed, >, 0);
    end(&g);
}

/* A guest that changes a page table whenever it is read */
struct racing {
    struct guest g;
    uint64_t *entry;
    uint64_t entries[2];
    unsigned reads;
};

static bool read_racing(void *opaque, uint64_t address, void *buf, size_t size)
{
    struct racing *r = opaque;

    if (address + size > PAGES * PAGE || address > PAGES * PAGE) {
        return false;
    }
    memcpy(buf, r->g.space.memory + address, size);
    if (size == PAGE) {
        *r->entry = r->entries[r->reads++ % 2];
    }
    return true;
}

static void test_race(void)
{
    static const struct guest_memory_view view = { .read = read_racing };
    struct live_code_options o = { .levels = 4, .now = now };
    struct guest_memory *memory;
    struct racing r = { 0 };
    uint64_t root;

    begin(&r.g, (struct live_code_options){ 0 });
    root = fake_space_root(&r.g.space);
    put(&r.g, root, USER, 1);
    put(&r.g, root, USER + PAGE, 2);
    r.entry = entry_of(&r.g, root, USER);
    r.entries[0] = *entry_of(&r.g, root, USER + PAGE);
    r.entries[1] = *r.entry;
    memory = guest_memory_new_view(&view, &r);
    live_code_free(r.g.code);
    o.now_opaque = &r.g;
    r.g.code = r.g.view.code = live_code_new(memory, &o, change, &r.g);
    g_assert_cmpint(ask(&r.g, root, USER, 1000, 1000), ==, -2);
    g_assert_cmpuint(live_code_counted(r.g.code)->raced, ==, 2);
    live_code_see(r.g.code, root);
    end(&r.g);
    guest_memory_free(memory);
}

/* Tables in circles, and more address spaces and pages than are kept */
static void test_bounds(void)
{
    struct guest g;
    uint64_t root;

    begin(&g, (struct live_code_options){
        .spaces = 8, .pages = 16, .memory = 1 << 18,
    });
    root = fake_space_root(&g.space);
    for (unsigned i = 0; i < 512; i++) {
        ((uint64_t *)(g.space.memory + root))[i] = root | 1 | U;
    }
    live_code_see(g.code, root);
    g_assert_cmpuint(live_code_counted(g.code)->read, <=, 2048);
    g_assert_cmpuint(live_code_stored(g.code)->pages * PAGE, <=, 1 << 18);
    for (unsigned i = 0; i < 100; i++) {
        live_code_see(g.code, root + (UINT64_C(1) << 40) + i * PAGE);
        live_code_poll(g.code);
    }
    g_assert_cmpuint(live_code_counted(g.code)->spaces, >=, 101);
    live_code_check(g.code);
    /* Whose these are is not known. */
    g_assert_cmpint(ask(&g, root, USER, g.now, g.now), ==, -1);
    g_assert_cmpint(ask(&g, root, USER, g.now, g.now), ==, -1);
    root = fake_space_root(&g.space);
    for (unsigned i = 0; i < 17; i++) {
        put(&g, root, USER + i * PAGE, i);
    }
    live_code_see(g.code, root);
    live_code_check(g.code);
    g.changes = 0;
    for (unsigned i = 0; i < 17; i++) {
        g_assert_cmpint(ask(&g, root, USER + i * PAGE, g.now, g.now), ==, i);
    }
    live_code_check(g.code);
    /* All were dropped. */
    g_assert_cmpuint(g.changes, ==, 17);
    live_code_check(g.code);
    g_assert_cmpuint(g.changes, ==, 17);
    end(&g);

    /* Paging is off; or of a kind that is not read. */
    begin(&g, (struct live_code_options){ .levels = 1 });
    memset(g.space.memory + 5 * PAGE, 5, PAGE);
    live_code_see(g.code, 0);
    g_assert_cmpint(ask(&g, 0, 5 * PAGE, 1000, 1000), ==, 5);
    g_assert_cmpint(ask(&g, 0, UINT64_C(5) << 40, 1000, 1000), ==, -1);
    end(&g);
    begin(&g, (struct live_code_options){ .levels = 6 });
    live_code_see(g.code, PAGE);
    g_assert_cmpint(ask(&g, PAGE, 5 * PAGE, 1000, 1000), ==, -1);
    end(&g);
    live_code_free(NULL);
}

/* PAE has four entries at any place, and no bits in them. */
static void test_32(void)
{
    uint64_t *memory, from, until;
    struct guest g;

    begin(&g, (struct live_code_options){ .levels = 3 });
    memory = (uint64_t *)g.space.memory;
    memory[PAGE / 8 + 4] = 2 * PAGE | 1;
    memory[2 * PAGE / 8 + 2] = 3 * PAGE | 1 | U;
    memory[3 * PAGE / 8] = 4 * PAGE | 1 | U;
    memory[3 * PAGE / 8 + 1] = 5 * PAGE | 1 | U | XD;
    memset(g.space.memory + 4 * PAGE, 9, PAGE);
    live_code_see(g.code, PAGE + 32);
    g_assert_cmpuint(live_code_counted(g.code)->read, ==, 1);
    from = g.now;
    until = g.now += 1000000;
    live_code_poll(g.code);
    memory[2 * PAGE / 8 + 2] = 0;
    g_assert_cmpint(ask(&g, PAGE + 32, USER, from, until), ==, 9);
    end(&g);

    begin(&g, (struct live_code_options){ .levels = 2 });
    ((uint32_t *)g.space.memory)[PAGE / 4 + 1] = 2 * PAGE | 1 | U;
    ((uint32_t *)g.space.memory)[2 * PAGE / 4] = 3 * PAGE | 1 | U;
    memset(g.space.memory + 3 * PAGE, 8, PAGE);
    live_code_see(g.code, PAGE);
    g_assert_cmpuint(live_code_counted(g.code)->read, ==, 1);
    g_assert_cmpint(ask(&g, PAGE, USER, g.now, g.now), ==, 8);
    end(&g);
}

/* Two files take each other's place before any page is asked for: nobody was
 * there to see it, or it was seen when they were looked at. */
static void test_alone(void)
{
    struct guest g;
    uint64_t root, t, until, frames[2];

    begin(&g, (struct live_code_options){ .quiet = 500, .alone = 100 });
    root = fake_space_root(&g.space);
    put(&g, root, USER, 1);
    put(&g, root, USER + PAGE, 2);
    frames[0] = *entry_of(&g, root, USER);
    frames[1] = other_page(&g, root) | U | 1;
    live_code_see(g.code, root);
    /* It has executed what was there for a time, and is not any more. */
    t = g.now;
    until = g.now += 150;
    g_assert_cmpint(ask(&g, root, USER, t, until), ==, -1);
    /* From then on it is looked at. */
    for (unsigned i = 0; i < 4; i++) {
        g.now += 60;
        live_code_check(g.code);
    }
    t = g.now;
    g_assert_cmpint(ask(&g, root, USER, until + 10, t), ==, 1);
    /* A page that comes, and one that was there and was not asked for */
    put(&g, root, USER + 2 * PAGE, 4);
    g_assert_cmpint(ask(&g, root, USER + 2 * PAGE, t, t + 1), ==, 4);
    g_assert_cmpint(ask(&g, root, USER + PAGE, t, t + 1), ==, 2);
    end(&g);

    /* The page that is asked for first is another one than that which is seen
     * to become others. */
    begin(&g, (struct live_code_options){ .quiet = 500, .alone = 100 });
    root = fake_space_root(&g.space);
    put(&g, root, USER, 1);
    put(&g, root, USER + PAGE, 2);
    frames[0] = *entry_of(&g, root, USER);
    frames[1] = other_page(&g, root) | U | 1;
    live_code_see(g.code, root);
    t = g.now;
    g_assert_cmpint(ask(&g, root, USER + PAGE, t, t), ==, 2);
    g.now += 60;
    *entry_of(&g, root, USER) = frames[1];
    live_code_check(g.code);
    g.now += 60;
    *entry_of(&g, root, USER) = frames[0];
    live_code_check(g.code);
    g_assert_cmpint(ask(&g, root, USER, t + 20, g.now), ==, -2);
    end(&g);

    /* It was gone in between. */
    begin(&g, (struct live_code_options){ .quiet = 500, .alone = 100 });
    root = fake_space_root(&g.space);
    put(&g, root, USER + PAGE, 2);
    put(&g, root, USER, 1);
    frames[0] = *entry_of(&g, root, USER);
    frames[1] = other_page(&g, root) | U | 1;
    live_code_see(g.code, root);
    t = g.now;
    g_assert_cmpint(ask(&g, root, USER + PAGE, t, t), ==, 2);
    *entry_of(&g, root, USER) = 0;
    live_code_check(g.code);
    *entry_of(&g, root, USER) = frames[1];
    live_code_check(g.code);
    g_assert_cmpint(ask(&g, root, USER, t, g.now), ==, -2);
    t = g.now;
    g_assert_cmpint(ask(&g, root, USER, t, t), ==, -2);
    g.now += 600;
    live_code_check(g.code);
    t = g.now;
    g_assert_cmpint(ask(&g, root, USER, t, t), ==, 3);
    end(&g);

    /* Nobody has looked so often that it is not known any more when. */
    begin(&g, (struct live_code_options){ .quiet = 5000, .alone = 100 });
    root = fake_space_root(&g.space);
    put(&g, root, USER, 1);
    live_code_see(g.code, root);
    live_code_check(g.code);
    t = g.now;
    g_assert_cmpint(ask(&g, root, USER, t, t), ==, 1);
    g_assert_cmpuint(g.view.passing->len, ==, 0);
    /* Blocks that are there are not used for such a time, either. */
    g.now += 150;
    live_code_check(g.code);
    g_assert_cmpuint(g.user, ==, 1);
    g_assert_cmpint(ask(&g, root, USER, t, t), ==, 1);
    g_assert_cmpuint(g.view.passing->len, ==, 1);
    live_code_check(g.code);
    g_assert_cmpuint(g.user, ==, 1);
    for (unsigned i = 0; i < 12; i++) {
        live_code_check(g.code);
        g.now += 150;
        live_code_check(g.code);
    }
    g_assert_cmpint(ask(&g, root, USER, t, t), ==, -1);
    live_code_check(g.code);
    t = g.now;
    live_code_check(g.code);
    g_assert_cmpint(ask(&g, root, USER, t, t), ==, 1);
    end(&g);
}

/* To see whose page tables these are, each of them is read once. */
static void test_cost(void)
{
    const struct live_code_count *count;
    struct guest g;
    uint64_t root, tables, reads;

    begin(&g, (struct live_code_options){ 0 });
    count = live_code_counted(g.code);
    root = fake_space_root(&g.space);
    put(&g, root, USER, 1);
    put(&g, root, USER + (UINT64_C(1) << 21), 2);
    put(&g, root, UINT64_C(0x7ffc12345000), 3);
    live_code_see(g.code, root);
    g_assert_cmpint(ask(&g, root, USER, g.now, g.now), ==, 1);
    live_code_check(g.code);
    tables = count->tables;
    reads = count->read;
    live_code_check(g.code);
    /* The root, two of each level, and one more of the last: before and after
     * pages are looked at */
    g_assert_cmpuint(count->tables - tables, ==, 2 * (1 + 2 + 2 + 3));
    g_assert_cmpuint(count->read, ==, reads);
    end(&g);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/live-code/spaces", test_spaces);
    g_test_add_func("/live-code/contradiction", test_contradiction);
    g_test_add_func("/live-code/changes", test_changes);
    g_test_add_func("/live-code/written", test_written);
    g_test_add_func("/live-code/alias", test_alias);
    g_test_add_func("/live-code/data", test_data);
    g_test_add_func("/live-code/quiet", test_quiet);
    g_test_add_func("/live-code/modules", test_modules);
    g_test_add_func("/live-code/kernels", test_kernels);
    g_test_add_func("/live-code/owners", test_owners);
    g_test_add_func("/live-code/evicted", test_evicted);
    g_test_add_func("/live-code/pcid", test_pcid);
    g_test_add_func("/live-code/random", test_random);
    g_test_add_func("/live-code/race", test_race);
    g_test_add_func("/live-code/bounds", test_bounds);
    g_test_add_func("/live-code/32", test_32);
    g_test_add_func("/live-code/alone", test_alone);
    g_test_add_func("/live-code/cost", test_cost);
    return g_test_run();
}
