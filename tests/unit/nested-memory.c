/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory of a guest's guest, through nested page tables
 */

#include <glib.h>
#include <string.h>

#include "guest-linux/nested-memory.h"

#define PAGE        ((uint64_t)GUEST_PAGE_SIZE)
#define LARGE       (UINT64_C(2) << 20)
#define SIZE        (4 * LARGE)
#define HUGE        (UINT64_C(1) << 30)

/* Bits of entries, as KVM sets them */
enum { PRESENT = 7, PS = 0x80 };
#define NO_EXECUTE  (UINT64_C(1) << 63)
/* What KVM has for devices: present, and an address that nothing has */
#define DEVICE      (UINT64_C(1) << 51)

/* Tables, of the highest level first, and what is mapped */
enum { ROOT = 0x1000, L3 = 0x2000, L2 = 0x3000, L1 = 0x4000, L1B = 0x5000,
       TOP = 0x6000, DATA = 0x100000 };

struct rig {
    uint8_t *bytes;
    struct guest_memory *ram;
    struct nested_memory *nested;
    const struct guest_memory *view;
};

static void set(struct rig *r, uint64_t table, unsigned index, uint64_t entry)
{
    entry = GUINT64_TO_LE(entry);
    memcpy(r->bytes + table + index * 8, &entry, 8);
}

static void start_with(struct rig *r, uint64_t root, uint64_t pages)
{
    r->bytes = g_malloc0(SIZE);
    r->ram = guest_memory_new();
    g_assert_true(guest_memory_add_bytes(r->ram, 0, SIZE, r->bytes));
    r->nested = nested_memory_new(r->ram, root, pages);
    r->view = nested_memory_view(r->nested);
}

/*
 * Page 0 is at DATA + 3 pages, page 1 at DATA, page 2 is not there, page 3 is a
 * device; 2 MB are at LARGE from 4 MB on.
 */
static void start(struct rig *r)
{
    start_with(r, ROOT, 1 << 20);
    set(r, ROOT, 0, L3 | PRESENT);
    set(r, L3, 0, L2 | PRESENT);
    set(r, L2, 0, L1 | PRESENT);
    set(r, L2, 2, LARGE | PRESENT | PS | NO_EXECUTE);
    set(r, L1, 0, (DATA + 3 * PAGE) | PRESENT | NO_EXECUTE);
    set(r, L1, 1, DATA | PRESENT);
    set(r, L1, 3, DEVICE | PRESENT);
}

static void finish(struct rig *r)
{
    nested_memory_free(r->nested);
    guest_memory_free(r->ram);
    g_free(r->bytes);
}

static bool reads(const struct rig *r, uint64_t address, const char *text)
{
    char buf[64];

    return guest_memory_read(r->view, address, buf, strlen(text)) &&
           !memcmp(buf, text, strlen(text));
}

static bool is_mapped(const struct rig *r, uint64_t address, size_t size)
{
    g_autofree char *buf = g_malloc(size);

    return guest_memory_read(r->view, address, buf, size);
}

static void test_read(void)
{
    struct rig r;

    start(&r);
    g_assert_true(guest_memory_is_view(r.view));
    g_assert_false(guest_memory_is_view(r.ram));
    memcpy(r.bytes + DATA + 4 * PAGE - 2, "ab", 2);
    memcpy(r.bytes + DATA, "cd", 2);
    g_assert_true(reads(&r, PAGE - 2, "abcd"));
    memcpy(r.bytes + LARGE + 5 * PAGE - 1, "large", 5);
    g_assert_true(reads(&r, 2 * LARGE + 5 * PAGE - 1, "large"));
    g_assert_cmphex(nested_memory_place(r.nested, PAGE + 8), ==, DATA + 8);
    g_assert_cmphex(nested_memory_place(r.nested, 2 * LARGE), ==, LARGE);
    g_assert_cmphex(nested_memory_place(r.nested, 2 * PAGE), ==, UINT64_MAX);

    g_assert_true(is_mapped(&r, 2 * PAGE - 8, 8));
    g_assert_false(is_mapped(&r, 2 * PAGE - 8, 9));     /* not there */
    g_assert_false(is_mapped(&r, 2 * PAGE, 1));
    g_assert_false(is_mapped(&r, 3 * PAGE, 1));         /* a device */
    g_assert_false(is_mapped(&r, LARGE, 1));            /* no table */
    g_assert_true(is_mapped(&r, 2 * LARGE, LARGE));
    g_assert_false(is_mapped(&r, 3 * LARGE - 1, 2));
    g_assert_false(is_mapped(&r, UINT64_C(1) << 39, 1));
    g_assert_false(is_mapped(&r, UINT64_C(1) << 63, 1));
    g_assert_false(is_mapped(&r, UINT64_MAX, 1));
    g_assert_false(is_mapped(&r, UINT64_MAX - 3, 8));
    finish(&r);
}

/* Tables beyond RAM, and what they map there */
static void test_outside(void)
{
    struct rig r;

    start(&r);
    set(&r, L2, 3, SIZE | PRESENT);
    set(&r, L2, 4, SIZE | PRESENT | PS);
    set(&r, L1, 4, SIZE | PRESENT);
    /* A large page of which half is RAM */
    set(&r, L3, 1, PRESENT | PS);
    g_assert_false(is_mapped(&r, 3 * LARGE, 1));
    g_assert_false(is_mapped(&r, 4 * LARGE, 1));
    g_assert_false(is_mapped(&r, 4 * PAGE, 1));
    g_assert_true(is_mapped(&r, HUGE, 1));
    g_assert_true(is_mapped(&r, HUGE + SIZE - 1, 1));
    g_assert_false(is_mapped(&r, HUGE + SIZE, 1));
    finish(&r);

    start_with(&r, SIZE, 1 << 20);
    g_assert_false(is_mapped(&r, 0, 1));
    g_assert_cmphex(guest_memory_find_page(r.view, 0, "", 1), ==, UINT64_MAX);
    finish(&r);
}

static uint64_t find(const struct rig *r, uint64_t from)
{
    return guest_memory_find_page(r->view, from, "SOUGHT", 6);
}

/* In the order of the nested guest's addresses, wherever they are in RAM */
static void test_find(void)
{
    struct rig r;

    start(&r);
    g_assert_cmphex(find(&r, 0), ==, UINT64_MAX);
    memcpy(r.bytes + DATA, "SOUGHT", 6);                /* page 1 */
    memcpy(r.bytes + DATA + 3 * PAGE, "SOUGHT", 6);     /* page 0 */
    memcpy(r.bytes + DATA + PAGE, "SOUGHT", 6);         /* not mapped */
    memcpy(r.bytes + DATA + 3 * PAGE + 64, "SOUGHT", 6);
    memcpy(r.bytes + LARGE + 7 * PAGE, "SOUGHT", 6);
    set(&r, L3, 1, PRESENT | PS);       /* 1 GiB, of all that is RAM */
    guest_memory_begin(r.view);
    g_assert_cmphex(find(&r, 0), ==, 0);
    g_assert_cmphex(find(&r, 1), ==, PAGE);
    g_assert_cmphex(find(&r, PAGE), ==, PAGE);
    g_assert_cmphex(find(&r, PAGE + 1), ==, 2 * LARGE + 7 * PAGE);
    g_assert_cmphex(find(&r, 2 * LARGE + 7 * PAGE), ==, 2 * LARGE + 7 * PAGE);
    g_assert_cmphex(find(&r, 2 * LARGE + 8 * PAGE), ==, HUGE + DATA);
    g_assert_cmphex(find(&r, HUGE + LARGE), ==, HUGE + LARGE + 7 * PAGE);
    g_assert_cmphex(find(&r, HUGE + LARGE + 8 * PAGE), ==, UINT64_MAX);
    g_assert_cmphex(find(&r, UINT64_MAX), ==, UINT64_MAX);
    finish(&r);
}

static void test_levels(void)
{
    struct rig r;

    start_with(&r, TOP, 1 << 20);
    set(&r, TOP, 0, ROOT | PRESENT);
    set(&r, TOP, 1, ROOT | PRESENT);
    set(&r, ROOT, 0, L3 | PRESENT);
    set(&r, L3, 0, L2 | PRESENT);
    set(&r, L2, 0, L1 | PRESENT);
    set(&r, L1, 1, DATA | PRESENT);
    memcpy(r.bytes + DATA, "SOUGHT", 6);
    g_assert_false(reads(&r, PAGE, "SOUGHT"));
    nested_memory_set_levels(r.nested, 5);
    g_assert_true(reads(&r, PAGE, "SOUGHT"));
    g_assert_true(reads(&r, (UINT64_C(1) << 48) + PAGE, "SOUGHT"));
    g_assert_cmphex(find(&r, 0), ==, PAGE);
    g_assert_cmphex(find(&r, PAGE + 1), ==, (UINT64_C(1) << 48) + PAGE);
    nested_memory_set_levels(r.nested, 4);
    g_assert_false(reads(&r, PAGE, "SOUGHT"));
    finish(&r);
}

/* The hypervisor takes a page away, and puts another one in its place. */
static void test_changes(void)
{
    struct rig r;

    start(&r);
    memcpy(r.bytes + DATA, "old", 3);
    memcpy(r.bytes + DATA + PAGE, "new", 3);
    g_assert_true(reads(&r, PAGE, "old"));
    set(&r, L1, 1, (DATA + PAGE) | PRESENT);
    guest_memory_begin(r.view);
    g_assert_true(reads(&r, PAGE, "new"));
    set(&r, L1, 1, 0);
    guest_memory_begin(r.view);
    g_assert_false(is_mapped(&r, PAGE, 1));
    finish(&r);
}

/* All entries of all tables lead to one table, so that there is no end. */
static void test_circles(void)
{
    gint64 begin = g_get_monotonic_time();
    struct rig r;

    start_with(&r, ROOT, 1 << 20);
    for (unsigned i = 0; i < 512; i++) {
        set(&r, ROOT, i, ROOT | PRESENT);
    }
    g_assert_cmphex(find(&r, 0), ==, UINT64_MAX);
    /* Nothing is left for another search, until there is a new scan. */
    g_assert_true(is_mapped(&r, 5 * PAGE, 1));
    memcpy(r.bytes + ROOT, "SOUGHT", 6);
    g_assert_cmphex(find(&r, 0), ==, UINT64_MAX);
    g_assert_cmpint(g_get_monotonic_time() - begin, <,
                    20 * G_TIME_SPAN_SECOND);
    finish(&r);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/nested-memory/read", test_read);
    g_test_add_func("/nested-memory/outside", test_outside);
    g_test_add_func("/nested-memory/find", test_find);
    g_test_add_func("/nested-memory/levels", test_levels);
    g_test_add_func("/nested-memory/changes", test_changes);
    g_test_add_func("/nested-memory/circles", test_circles);
    return g_test_run();
}
