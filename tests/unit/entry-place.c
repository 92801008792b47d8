/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For what the CPU goes to places of the kernel
 */

#include "backtrail/trace.h"
#include "symbolize/entry-place.h"

static void check(const char *name, bool known, uint64_t offset, uint64_t kind,
                  uint64_t handler)
{
    const struct function f = { .name = name, .known = known };
    const struct place to = { .function = &f, .offset = offset };

    g_assert_cmphex(entry_place_kind(&to), ==, kind);
    g_assert_cmphex(entry_place_handler(&to), ==, handler);
}

/* The begin of an entry; no instruction asks for the last three. */
static void test_begins(void)
{
    check("entry_SYSCALL_64", true, 0, BTRAIL_PSEUDO_SYSCALL, 0);
    check("asm_exc_page_fault", true, 0, BTRAIL_PSEUDO_PAGE_FAULT,
          BTRAIL_PSEUDO_PAGE_FAULT);
    check("asm_exc_int3", true, 0, BTRAIL_PSEUDO_EXCEPTION,
          BTRAIL_PSEUDO_EXCEPTION);
    check("asm_sysvec_reboot", true, 0, BTRAIL_PSEUDO_INTERRUPT,
          BTRAIL_PSEUDO_INTERRUPT);
    check("vfs_read", true, 0, 0, 0);
    check("", true, 0, 0, 0);
}

/* What a handler has called returns to after the begin. */
static void test_within(void)
{
    check("entry_SYSCALL_64", true, 1, 0, 0);
    check("asm_exc_page_fault", true, 16, 0, 0);
    check("asm_sysvec_reboot", true, UINT64_MAX, 0, 0);
}

/* Each vector has an entry of its own in these. */
static void test_tables(void)
{
    check("irq_entries_start", true, 0, BTRAIL_PSEUDO_INTERRUPT,
          BTRAIL_PSEUDO_INTERRUPT);
    check("irq_entries_start", true, 0x70, BTRAIL_PSEUDO_INTERRUPT,
          BTRAIL_PSEUDO_INTERRUPT);
    check("spurious_entries_start", true, 8, BTRAIL_PSEUDO_INTERRUPT,
          BTRAIL_PSEUDO_INTERRUPT);
}

/* A module can have the name of an entry. */
static void test_unknown(void)
{
    check("entry_SYSCALL_64", false, 0, 0, 0);
    check("irq_entries_start", false, 8, 0, 0);
    check("nmi", false, 0, 0, 0);
    check("nmi", true, 0, BTRAIL_PSEUDO_INTERRUPT, BTRAIL_PSEUDO_INTERRUPT);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/entry-place/begins", test_begins);
    g_test_add_func("/entry-place/within", test_within);
    g_test_add_func("/entry-place/tables", test_tables);
    g_test_add_func("/entry-place/unknown", test_unknown);
    return g_test_run();
}
