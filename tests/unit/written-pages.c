/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Pages that vCPUs have written to, against a set of them; and which stops of a
 * debugger can be met, against each byte that it watches
 */

#include <glib.h>

#include "qemu/osdep.h"
#include "exec/cputlb.h"
#include "exec/written-pages.h"
#include "written-pages.h"

#define PAGE    4096u
#define MOST    (256u << 10)    /* that are known */

CPUState *first_cpu;

static unsigned resets;

void tlb_reset_dirty(CPUState *cpu, uint64_t start, uint64_t length)
{
    g_assert_cmpuint(start, ==, 0);
    g_assert_cmpuint(length, ==, RAM_ADDR_MAX);
    resets++;
}

static GHashTable *set_new(void)
{
    return g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
}

static void set_add(GHashTable *set, uint64_t page)
{
    g_hash_table_add(set, g_memdup2(&page, sizeof(page)));
}

static void require(const WrittenPages *w, GHashTable *set)
{
    size_t n;
    const uint64_t *pages = written_pages_list(w, &n);

    g_assert_nonnull(w);
    g_assert_cmpuint(n, ==, g_hash_table_size(set));
    for (size_t i = 0; i < n; i++) {
        g_assert_true(!i || pages[i] > pages[i - 1]);
        g_assert_true(g_hash_table_contains(set, &pages[i]));
    }
    g_assert_cmpuint(written_pages_size(w), >=, n * sizeof(*pages));
}

/* Any address, and often one that is near others, or at an edge */
static vaddr any_address(void)
{
    switch (g_test_rand_int_range(0, 6)) {
    case 0:
        return g_test_rand_int_range(0, 4 * PAGE);
    case 1:
        return UINT64_MAX - g_test_rand_int_range(0, 4 * PAGE);
    case 2:
        return (uint64_t)g_test_rand_int() << 32 |
               (uint32_t)g_test_rand_int();
    default:
        return UINT64_C(0x7f0000000000) + g_test_rand_int_range(0, 1 << 24);
    }
}

/* Notes some pages. */
static WrittenPages *note(GHashTable *set, unsigned n)
{
    WrittenPages *w;

    written_pages_start();
    for (unsigned i = 0; i < n; i++) {
        vaddr addr = any_address();

        written_pages_note(addr);
        set_add(set, addr / PAGE);
    }
    g_assert_cmpuint(written_pages_cost(), >=,
                     g_hash_table_size(set) * sizeof(uint64_t));
    w = written_pages_get();
    g_assert_cmpuint(written_pages_size(w), ==, written_pages_cost());
    return w;
}

static void test_noted(void)
{
    CPUState cpus[2] = { { .next = &cpus[1] }, { NULL } };

    first_cpu = cpus;
    for (unsigned i = 0; i < 60; i++) {
        g_autoptr(GHashTable) set = set_new();
        g_autoptr(GHashTable) other = set_new();
        GHashTableIter iter;
        uint64_t *page;
        WrittenPages *a, *b, *both, *again;
        const uint64_t *list;
        size_t n;

        resets = 0;
        a = note(set, g_test_rand_int_range(0, 4000));
        g_assert_cmpuint(resets, ==, 2);
        require(a, set);
        b = note(other, g_test_rand_int_range(0, 50));
        require(b, other);
        both = written_pages_union(a, b);
        list = written_pages_list(a, &n);
        again = written_pages_new(list, n);
        require(again, set);
        g_hash_table_iter_init(&iter, other);
        while (g_hash_table_iter_next(&iter, (gpointer *)&page, NULL)) {
            set_add(set, *page);
        }
        require(both, set);
        g_assert_null(written_pages_union(a, NULL));
        g_assert_null(written_pages_union(NULL, b));
        written_pages_free(a);
        written_pages_free(b);
        written_pages_free(both);
        written_pages_free(again);
    }
    first_cpu = NULL;
}

/* Where not all are known, nothing is said to be. */
static void test_lost(void)
{
    WrittenPages *w;

    written_pages_start();
    written_pages_note(PAGE);
    written_pages_lose();
    written_pages_note(2 * PAGE);
    g_assert_null(written_pages_get());
    written_pages_start();
    w = written_pages_get();
    g_assert_nonnull(w);
    written_pages_free(w);
    written_pages_stop();
    written_pages_note(PAGE);
    g_assert_null(written_pages_get());
    /* More than are kept: not from the last one that is on */
    written_pages_start();
    for (uint64_t i = 0; i < MOST; i++) {
        written_pages_note(i * PAGE);
        written_pages_note(i / 2 * PAGE);
    }
    w = written_pages_get();
    g_assert_nonnull(w);
    written_pages_note(MOST * (uint64_t)PAGE);
    g_assert_null(written_pages_get());
    {
        const uint64_t more[] = { 7, MOST };
        WrittenPages *x = written_pages_new(more, 1);
        WrittenPages *y = written_pages_new(more, 2);
        WrittenPages *same = written_pages_union(w, x);

        g_assert_nonnull(same);
        g_assert_null(written_pages_union(w, y));
        written_pages_free(same);
        written_pages_free(x);
        written_pages_free(y);
    }
    written_pages_free(w);
    written_pages_stop();
}

/* What comes out of a file */
static void test_numbers(void)
{
    static const struct {
        uint64_t pages[3];
        unsigned n;
        bool good;
    } cases[] = {
        { { 0, 1, 2 }, 3, true },
        { { 0 }, 0, true },
        { { UINT64_MAX / PAGE }, 1, true },
        { { UINT64_MAX / PAGE + 1 }, 1, false },
        { { 1, 1 }, 2, false },
        { { 1, 3, 2 }, 3, false },
        { { 5, 4, 6 }, 3, false },
    };
    g_autofree uint64_t *many = g_new(uint64_t, MOST + 1);
    WrittenPages *w;

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        w = written_pages_new(cases[i].pages, cases[i].n);
        g_assert_cmpint(w != NULL, ==, cases[i].good);
        written_pages_free(w);
    }
    for (uint64_t i = 0; i <= MOST; i++) {
        many[i] = i;
    }
    g_assert_null(written_pages_new(many, MOST + 1));
    w = written_pages_new(many, MOST);
    g_assert_nonnull(w);
    written_pages_free(w);
}

/* Is a page of any byte that is watched in the set? */
static bool is_written(GHashTable *set, const CPUWatchpoint *wp)
{
    for (uint64_t i = 0; i < wp->len; i++) {
        uint64_t page = (wp->vaddr + i) / PAGE;

        if (g_hash_table_contains(set, &page)) {
            return true;
        }
    }
    return false;
}

static void test_stops(void)
{
    unsigned can = 0;

    for (unsigned i = 0; i < 3000; i++) {
        g_autoptr(GHashTable) set = set_new();
        CPUBreakpoint bp = { g_test_rand_bit() ? BP_GDB : BP_CPU, NULL };
        CPUWatchpoint wps[2];
        CPUState cpus[2] = { { .next = &cpus[1] }, { NULL } };
        bool has_break = g_test_rand_int_range(0, 20) == 0;
        bool want = has_break && bp.flags == BP_GDB, all = want;
        WrittenPages *w = note(set, g_test_rand_int_range(0, 4));

        for (unsigned k = 0; k < 2; k++) {
            CPUWatchpoint *wp = &wps[k];

            *wp = (CPUWatchpoint) {
                any_address(), 1u << g_test_rand_int_range(0, 14),
                g_test_rand_int_range(0, 4) ? BP_MEM_WRITE : BP_MEM_READ, NULL,
            };
            /* It is within the address space. */
            wp->vaddr = MIN(wp->vaddr, UINT64_MAX - wp->len + 1);
            if (g_test_rand_int_range(0, 4)) {
                wp->flags |= BP_GDB;
                all = true;
                want |= wp->flags & BP_MEM_READ || is_written(set, wp);
            }
        }
        /* Both at one vCPU, or one at each */
        cpus[1].watchpoints = wps;
        if (g_test_rand_bit()) {
            wps[0].next = &wps[1];
        } else {
            cpus[0].watchpoints = &wps[1];
        }
        cpus[1].breakpoints = has_break ? &bp : NULL;
        first_cpu = cpus;
        g_assert_cmpint(written_pages_can_stop(w), ==, want);
        g_assert_true(written_pages_can_stop(NULL) || !all);
        can += want;
        written_pages_free(w);
        first_cpu = NULL;
    }
    g_assert_cmpuint(can, >, 300);
    g_assert_cmpuint(can, <, 2700);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/written-pages/noted", test_noted);
    g_test_add_func("/written-pages/lost", test_lost);
    g_test_add_func("/written-pages/numbers", test_numbers);
    g_test_add_func("/written-pages/stops", test_stops);
    return g_test_run();
}
