/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of util/entry-names.h: names of the entries of Linux
 */

#include <glib.h>
#include <string.h>

#include "backtrail/trace.h"
#include "util/entry-names.h"

static uint64_t kind(const char *name)
{
    return entry_kind(name, strlen(name));
}

static void test_kinds(void)
{
    g_assert_cmphex(kind("entry_SYSCALL_64"), ==, BTRAIL_PSEUDO_SYSCALL);
    g_assert_cmphex(kind("asm_int80_emulation"), ==, BTRAIL_PSEUDO_SYSCALL);
    g_assert_cmphex(kind("asm_exc_page_fault"), ==, BTRAIL_PSEUDO_PAGE_FAULT);
    g_assert_cmphex(kind("asm_exc_nmi"), ==, BTRAIL_PSEUDO_INTERRUPT);
    g_assert_cmphex(kind("asm_exc_int3"), ==, BTRAIL_PSEUDO_EXCEPTION);
    g_assert_cmphex(kind("asm_sysvec_reboot"), ==, BTRAIL_PSEUDO_INTERRUPT);
    g_assert_cmphex(kind("irq_entries_start"), ==, BTRAIL_PSEUDO_INTERRUPT);
}

/* Linux before 5.8 */
static void test_old(void)
{
    g_assert_cmphex(kind("page_fault"), ==, BTRAIL_PSEUDO_PAGE_FAULT);
    g_assert_cmphex(kind("divide_error"), ==, BTRAIL_PSEUDO_EXCEPTION);
    g_assert_cmphex(kind("nmi"), ==, BTRAIL_PSEUDO_INTERRUPT);
    g_assert_cmphex(kind("apic_timer_interrupt"), ==,
                    BTRAIL_PSEUDO_INTERRUPT);
}

/* The kernel branches to these, or they only begin like one. */
static void test_others(void)
{
    static const char *const names[] = {
        "", "e", "do_page_fault", "page_fault_oops", "entry_SYSCALL_64_x",
        "asm_common_interrupt", "asm_spurious_interrupt", "common_interrupt",
        "asm_load_gs_index", "asm_exc", "nmi_restore", "irq_entries",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        g_assert_cmphex(kind(names[i]), ==, 0);
    }
    g_assert_cmphex(entry_kind("nmi_restore", 3), ==,
                    BTRAIL_PSEUDO_INTERRUPT);
}

static void test_tables(void)
{
    g_assert_true(entry_is_table("irq_entries_start", 17));
    g_assert_true(entry_is_table("spurious_entries_start", 22));
    g_assert_false(entry_is_table("asm_exc_nmi", 11));
    g_assert_false(entry_is_table("other", 5));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/entry-names/kinds", test_kinds);
    g_test_add_func("/entry-names/old", test_old);
    g_test_add_func("/entry-names/others", test_others);
    g_test_add_func("/entry-names/tables", test_tables);
    return g_test_run();
}
