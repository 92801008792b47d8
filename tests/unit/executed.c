/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of symbolize/executed.h: was an instruction executed, or interrupted?
 */

#include <glib.h>

#include "code-samples.h"
#include "symbolize/executed.h"

#define KERNEL  UINT64_C(0xffffffff81000000)
#define ENTRY   (KERNEL + 0x100)
#define TIMER   (KERNEL + 0x200)
#define FAULT   (KERNEL + 0x300)
#define TABLE   (KERNEL + 0x400)
#define USER    UINT64_C(0x400000)

static struct symbolizer *names;
static const struct process *process;
static const struct symbolizer_where where = { .cr3 = 0x1000 };

static bool ran(const char *bytes, size_t n, uint64_t from, uint64_t to)
{
    struct instruction insn;

    g_assert_true(instruction_decode(bytes, n, 64, from, &insn));
    return executed(names, process, &where, &insn, 0, from, to);
}

#define RAN(bytes, from, to) ran(bytes, sizeof(bytes) - 1, from, to)

#define RET         "\xc3"
#define CALL_RAX    "\xff\xd0"
#define JMP_RAX     "\xff\xe0"
#define JMP_10      "\xeb\x0e"
#define NOP         "\x90"
#define IRETQ       "\x48\xcf"
#define SYSCALL     "\x0f\x05"
#define INT3        "\xcc"
#define INT_80      "\xcd\x80"

/* Only where a handler begins tells that these were interrupted. */
static void test_anywhere(void)
{
    g_assert_true(RAN(RET, KERNEL, KERNEL + 0x20));
    g_assert_true(RAN(RET, KERNEL, TIMER + 0x10));
    g_assert_false(RAN(RET, KERNEL, TIMER));
    g_assert_false(RAN(RET, KERNEL, FAULT));
    g_assert_false(RAN(RET, KERNEL, TABLE + 0x10));
    g_assert_true(RAN(RET, KERNEL, ENTRY));
    g_assert_false(RAN(CALL_RAX, KERNEL, TIMER));
    g_assert_false(RAN(JMP_RAX, KERNEL, FAULT));
    /* It returns to a handler that was interrupted as it began. */
    g_assert_true(RAN(IRETQ, KERNEL, TIMER));
}

static void test_direct(void)
{
    g_assert_true(RAN(JMP_10, KERNEL, KERNEL + 0x10));
    g_assert_false(RAN(JMP_10, KERNEL, KERNEL + 0x20));
    g_assert_false(RAN(NOP, KERNEL, TIMER));
    g_assert_false(RAN(NOP, USER, TIMER));
}

/* Branches of user mode do not go to the kernel. */
static void test_user(void)
{
    g_assert_true(RAN(RET, USER, USER + 0x20));
    g_assert_false(RAN(RET, USER, FAULT));
    g_assert_false(RAN(RET, USER, KERNEL + 0x20));
    g_assert_true(RAN(SYSCALL, USER, ENTRY));
    g_assert_false(RAN(SYSCALL, USER, TIMER));
    g_assert_true(RAN(INT3, USER, FAULT));
    g_assert_false(RAN(INT3, USER, TIMER));
    g_assert_true(RAN(INT_80, USER, ENTRY));
    g_assert_false(RAN(INT_80, USER, TABLE + 0x10));
}

/* The instruction was decoded in another place than it ran. */
static void test_moved(void)
{
    struct instruction insn;

    g_assert_true(instruction_decode(JMP_10, 2, 64, USER, &insn));
    g_assert_true(executed(names, process, &where, &insn, 0x1000,
                           USER + 0x1000, USER + 0x1010));
    g_assert_false(executed(names, process, &where, &insn, 0x1000,
                            USER + 0x1000, USER + 0x10));
}

int main(int argc, char **argv)
{
    enum btrail_certainty certainty;
    g_autofree char *text = NULL;
    int ret;

    g_test_init(&argc, &argv, NULL);
    text = g_strdup_printf(
        "%" G_GINT64_MODIFIER "x T function\n"
        "%" G_GINT64_MODIFIER "x T entry_SYSCALL_64\n"
        "%" G_GINT64_MODIFIER "x T asm_sysvec_apic_timer_interrupt\n"
        "%" G_GINT64_MODIFIER "x T asm_exc_page_fault\n"
        "%" G_GINT64_MODIFIER "x T irq_entries_start\n"
        "cr3 1000 pid=5 sample\n", KERNEL, ENTRY, TIMER, FAULT, TABLE);
    names = sample_symbolizer(NULL, text);
    process = symbolizer_process(names, &where, &certainty);
    g_test_add_func("/executed/anywhere", test_anywhere);
    g_test_add_func("/executed/direct", test_direct);
    g_test_add_func("/executed/user", test_user);
    g_test_add_func("/executed/moved", test_moved);
    ret = g_test_run();
    symbolizer_free(names);
    return ret;
}
