/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How the guest's kernel is entered, by symbols and by instructions
 */

#include <glib.h>
#include <string.h>

#include "guest-linux/entries.h"

#define PAGE    UINT64_C(0x401000)
#define SYSCALL UINT64_C(0xffffffff81800080)

static void check(struct entries *e, uint64_t from, uint64_t to,
                  uint64_t want)
{
    g_assert_cmphex(entries_find(e, 0, 0x5007, from, to), ==, want);
}

/* Symbols in no order, aliases, data and modules among them */
static void test_symbols(void)
{
    static const char text[] =
        "ffffffff81800200 T irq_entries_start\n"
        "ffffffff81800000 T __entry_text_start\n"
        "ffffffff81800080 T entry_SYSCALL_64\n"
        "ffffffff81800080 t alias\n"
        "ffffffff818000c0 t entry_SYSCALL_64_after_hwframe\n"
        "ffffffff81800100 T asm_exc_page_fault\n"
        "ffffffff81800120 T asm_exc_general_protection\n"
        "ffffffff81800140 T asm_exc_nmi\n"
        "ffffffff81800300 T other\n"
        "ffffffff81800110 D data\n"
        "ffffffffc0000000 t page_fault\t[module]\n"
        "nonsense\n"
        "ffffffff81800400 T asm_sysvec_apic_timer_interrupt";
    static const char modules[] = "ffffffffc0000000 t page_fault\t[module]\n";
    static const char ended[] =
        "ffffffff81800400 T asm_sysvec_apic_timer_interrupt\n"
        "ffffffff81800420 e .end\n";
    struct entries *e = entries_new();
    unsigned i;

    check(e, PAGE, SYSCALL, BTRAIL_PSEUDO_TO_KERNEL);
    entries_symbols(e, text, strlen(text));
    check(e, PAGE, SYSCALL, BTRAIL_PSEUDO_SYSCALL);
    check(e, PAGE, 0xffffffff818000c0, BTRAIL_PSEUDO_TO_KERNEL);
    check(e, PAGE, 0xffffffff81800100, BTRAIL_PSEUDO_PAGE_FAULT);
    check(e, PAGE, 0xffffffff81800120, BTRAIL_PSEUDO_EXCEPTION);
    check(e, PAGE, 0xffffffff81800140, BTRAIL_PSEUDO_INTERRUPT);
    for (i = 0; i < 32; i++) {
        check(e, PAGE, 0xffffffff81800200 + i * 8, BTRAIL_PSEUDO_INTERRUPT);
    }
    check(e, PAGE, 0xffffffff81800300, BTRAIL_PSEUDO_TO_KERNEL);
    check(e, PAGE, 0xffffffff817fffff, BTRAIL_PSEUDO_TO_KERNEL);
    check(e, PAGE, 0xffffffff81800400, BTRAIL_PSEUDO_INTERRUPT);
    check(e, PAGE, 0xffffffffc0000000, BTRAIL_PSEUDO_INTERRUPT);
    /* Of the same kernel */
    entries_symbols(e, modules, strlen(modules));
    check(e, PAGE, SYSCALL, BTRAIL_PSEUDO_SYSCALL);
    /* After an end line nothing has a name. */
    entries_symbols(e, ended, strlen(ended));
    check(e, PAGE, 0xffffffff81800410, BTRAIL_PSEUDO_INTERRUPT);
    check(e, PAGE, 0xffffffff81800420, BTRAIL_PSEUDO_TO_KERNEL);
    /* Another kernel */
    entries_symbols(e, text, 40);
    check(e, PAGE, SYSCALL, BTRAIL_PSEUDO_TO_KERNEL);
    entries_free(e);
}

/* What the code says, in one address space, as long as no symbol does */
static void test_instructions(void)
{
    static const struct {
        uint8_t bytes[2];
        uint64_t want;
    } cases[] = {
        { { 0x0f, 0x05 }, BTRAIL_PSEUDO_SYSCALL },
        { { 0x0f, 0x34 }, BTRAIL_PSEUDO_SYSCALL },
        { { 0xcd, 0x80 }, BTRAIL_PSEUDO_SYSCALL },
        { { 0xcd, 0x03 }, BTRAIL_PSEUDO_EXCEPTION },
        { { 0xcc, 0x00 }, BTRAIL_PSEUDO_EXCEPTION },
        { { 0x0f, 0x0b }, BTRAIL_PSEUDO_EXCEPTION },
        { { 0x8b, 0x05 }, BTRAIL_PSEUDO_TO_KERNEL },
    };
    struct entries *e = entries_new();
    struct btrail_code_item item = {
        .type = BTRAIL_CODE_BYTES, .number = 1,
    };
    uint8_t page[BTRAIL_CODE_PAGE_SIZE] = { 0 };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        memcpy(page + i * 16, cases[i].bytes, 2);
    }
    page[4095] = 0x0f;
    entries_code(e, &item, page);
    item = (struct btrail_code_item) {
        .type = BTRAIL_CODE_PAGE, .number = 1, .cr3 = 0x5000, .linear = PAGE,
    };
    entries_code(e, &item, NULL);
    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        check(e, PAGE + i * 16, SYSCALL, cases[i].want);
    }
    check(e, PAGE + 4095, SYSCALL, BTRAIL_PSEUDO_TO_KERNEL);
    check(e, PAGE + 4096, SYSCALL, BTRAIL_PSEUDO_TO_KERNEL);
    g_assert_cmphex(entries_find(e, 0, 0x6000, PAGE, SYSCALL), ==,
                    BTRAIL_PSEUDO_TO_KERNEL);
    /* The oldest contents are forgotten, pages as well, and nothing breaks. */
    for (i = 2; i < 5000; i++) {
        item.type = BTRAIL_CODE_BYTES;
        item.number = i;
        entries_code(e, &item, page);
    }
    check(e, PAGE, SYSCALL, BTRAIL_PSEUDO_TO_KERNEL);
    item.type = BTRAIL_CODE_PAGE;
    for (i = 0; i < 70000; i++) {
        item.linear = PAGE + i * UINT64_C(4096);
        entries_code(e, &item, NULL);
    }
    check(e, PAGE + i * UINT64_C(4096) - 4096, SYSCALL, BTRAIL_PSEUDO_SYSCALL);
    entries_free(e);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/entries/symbols", test_symbols);
    g_test_add_func("/entries/instructions", test_instructions);
    return g_test_run();
}
