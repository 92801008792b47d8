/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interrupts and exceptions: each vector by all that it is called, in kernels
 * with either names
 */

#include <string.h>

#include "symbolize/vectors.h"
#include "trace-samples.h"

/* @second: of another kernel, or NULL */
static struct btrail_names *open_two(const char *symbols, const char *second)
{
    const struct btrail_sideband_info info[] = {
        { .kind = BTRAIL_SIDEBAND_SYMBOLS, .kernel = 1, .time = 100,
          .size = strlen(symbols) },
        { .kind = BTRAIL_SIDEBAND_SYMBOLS, .kernel = 2, .time = 200,
          .size = second ? strlen(second) : 0 },
    };
    char *path = sample_path();
    struct btrail_trace *trace;
    struct btrail_names *names;
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_sideband(w, &info[0], symbols), ==, 0);
    if (second) {
        g_assert_cmpint(btrail_writer_sideband(w, &info[1], second), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_names_open(&names, trace), ==, 0);
    btrail_trace_close(trace);
    sample_remove(path);
    return names;
}

static struct btrail_names *open_names(const char *symbols)
{
    return open_two(symbols, NULL);
}

/* The only address of the kernel that is found; 0 for none */
static uint64_t find(const struct btrail_names *names, bool exceptions,
                     const char *name)
{
    g_autoptr(GArray) found = g_array_new(FALSE, FALSE,
                                          sizeof(struct kernel_start));
    uint64_t address = 0;
    unsigned n = 0;

    vectors_find(names, exceptions, name, found);
    for (unsigned i = 0; i < found->len; i++) {
        const struct kernel_start *start =
            &g_array_index(found, struct kernel_start, i);

        g_assert_true(start->always == !!btrail_pseudo_name(start->address));
        if (!start->always) {
            address = start->address;
            n++;
        }
    }
    g_assert_cmpuint(n, <=, 1);
    return address;
}

/* From the SDM, vol. 3, table 6-1, and <asm/irq_vectors.h> */
static const struct {
    bool exception;
    const char *number;
    const char *mnemonic;
    const char *function;       /* since Linux 5.8 */
    const char *old;
} vectors[] = {
    { true, "0", "#DE", "asm_exc_divide_error", "divide_error" },
    { true, "1", "#DB", "asm_exc_debug", "debug" },
    { false, "2", "NMI", "asm_exc_nmi", "nmi" },
    { true, "3", "#BP", "asm_exc_int3", "int3" },
    { true, "4", "#OF", "asm_exc_overflow", "overflow" },
    { true, "5", "#BR", "asm_exc_bounds", "bounds" },
    { true, "6", "#UD", "asm_exc_invalid_op", "invalid_op" },
    { true, "7", "#NM", "asm_exc_device_not_available",
      "device_not_available" },
    { true, "8", "#DF", "asm_exc_double_fault", "double_fault" },
    { true, "10", "#TS", "asm_exc_invalid_tss", "invalid_TSS" },
    { true, "11", "#NP", "asm_exc_segment_not_present",
      "segment_not_present" },
    { true, "12", "#SS", "asm_exc_stack_segment", "stack_segment" },
    { true, "13", "#GP", "asm_exc_general_protection", "general_protection" },
    { true, "0xe", "#PF", "asm_exc_page_fault", "page_fault" },
    { true, "16", "#MF", "asm_exc_coprocessor_error", "coprocessor_error" },
    { true, "17", "#AC", "asm_exc_alignment_check", "alignment_check" },
    { true, "18", "#MC", "asm_exc_machine_check", "machine_check" },
    { true, "19", "#XM", "asm_exc_simd_coprocessor_error",
      "simd_coprocessor_error" },
    { true, "21", "#CP", "asm_exc_control_protection", "control_protection" },
    { false, "0xec", NULL, "asm_sysvec_apic_timer_interrupt",
      "apic_timer_interrupt" },
    { false, "0xf6", NULL, "asm_sysvec_irq_work", "irq_work_interrupt" },
    { false, "251", NULL, "asm_sysvec_call_function_single",
      "call_function_single_interrupt" },
    { false, "0xfd", NULL, "asm_sysvec_reschedule_ipi",
      "reschedule_interrupt" },
    { false, "0xff", NULL, "asm_sysvec_spurious_apic_interrupt",
      "spurious_interrupt" },
};

static uint64_t address_of(unsigned i)
{
    return UINT64_C(0xffffffff81000000) + 0x100 * i;
}

/* Symbols of a kernel, at @add more */
static char *symbols_of(bool old, unsigned add)
{
    GString *text = g_string_new(NULL);

    for (unsigned i = 0; i < G_N_ELEMENTS(vectors); i++) {
        g_string_append_printf(text, "%" G_GINT64_MODIFIER "x T %s\n",
                               address_of(i) + add, old ? vectors[i].old :
                               vectors[i].function);
    }
    return g_string_free(text, FALSE);
}

static void test_names(void)
{
    for (unsigned old = 0; old < 2; old++) {
        g_autofree char *symbols = symbols_of(old, 0);
        struct btrail_names *names = open_names(symbols);

        for (unsigned i = 0; i < G_N_ELEMENTS(vectors); i++) {
            const char *const words[] = {
                vectors[i].number, vectors[i].mnemonic,
                old ? vectors[i].old : vectors[i].function,
            };

            for (unsigned k = 0; k < G_N_ELEMENTS(words); k++) {
                bool exception = vectors[i].exception;

                if (words[k]) {
                    g_assert_cmphex(find(names, exception, words[k]), ==,
                                    address_of(i));
                    g_assert_cmphex(find(names, !exception, words[k]), ==, 0);
                }
            }
        }
        g_assert_cmphex(find(names, true, "nothing"), ==, 0);
        g_assert_cmphex(find(names, false, ""), ==, 0);
        btrail_names_close(names);
    }
}

/* How many are found: those of the kernel's code, and pseudo-addresses */
static void check_all(const struct btrail_names *names, bool exceptions,
                      unsigned kernels, unsigned pseudos)
{
    g_autoptr(GArray) found = g_array_new(FALSE, FALSE,
                                          sizeof(struct kernel_start));
    unsigned n[3] = { 0 }, want = 0;

    for (unsigned i = 0; i < G_N_ELEMENTS(vectors); i++) {
        want += vectors[i].exception == exceptions;
    }
    vectors_find(names, exceptions, NULL, found);
    for (unsigned i = 0; i < found->len; i++) {
        const struct kernel_start *s =
            &g_array_index(found, struct kernel_start, i);

        n[s->always ? 0 : s->kernel]++;
    }
    g_assert_cmpuint(n[0], ==, pseudos);
    for (unsigned k = 1; k <= 2; k++) {
        g_assert_cmpuint(n[k], ==, k <= kernels ? want : 0);
    }
}

/* Each of two kernels has the names of its time. */
static void test_all(void)
{
    for (unsigned i = 0; i < 4; i++) {
        g_autofree char *first = symbols_of(i & 1, 0);
        g_autofree char *second = symbols_of(i & 2, 0x10);
        struct btrail_names *names = open_two(first, second);

        check_all(names, true, 2, 2);
        check_all(names, false, 2, 1);
        btrail_names_close(names);
    }
}

/* What a module, or data, is called is no entry. */
static void test_others(void)
{
    struct btrail_names *names = open_names(
        "ffffffff81000000 T _text\n"
        "ffffffff81000100 d debug\n"
        "ffffffff81000200 T overflow\n"
        "ffffffffc0000000 t overflow\t[mod]\n"
        "ffffffffc0000100 t nmi\t[mod]\n");

    g_assert_cmphex(find(names, true, "#DB"), ==, 0);
    g_assert_cmphex(find(names, true, "#OF"), ==, 0xffffffff81000200);
    g_assert_cmphex(find(names, false, "2"), ==, 0);
    btrail_names_close(names);
}

static bool has_pseudo(bool exceptions, const char *name, uint64_t address)
{
    g_autoptr(GArray) found = g_array_new(FALSE, FALSE,
                                          sizeof(struct kernel_start));
    struct btrail_names *names = open_names("ffffffff81000000 T _text\n");
    bool has = false;

    vectors_find(names, exceptions, name, found);
    btrail_names_close(names);
    for (unsigned i = 0; i < found->len; i++) {
        has |= g_array_index(found, struct kernel_start, i).address == address;
    }
    return has;
}

/* Of a trace of user mode: page faults, and all others, are told apart. */
static void test_pseudo(void)
{
    static const char *const faults[] = {
        NULL, "14", "#PF", "page_fault", "asm_exc_page_fault",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(faults); i++) {
        g_assert_true(has_pseudo(true, faults[i], BTRAIL_PSEUDO_PAGE_FAULT));
        g_assert_false(has_pseudo(false, faults[i], BTRAIL_PSEUDO_PAGE_FAULT));
        g_assert_cmpint(has_pseudo(true, faults[i], BTRAIL_PSEUDO_EXCEPTION),
                        ==, !i);
    }
    g_assert_false(has_pseudo(true, "#GP", BTRAIL_PSEUDO_PAGE_FAULT));
    g_assert_false(has_pseudo(true, "#GP", BTRAIL_PSEUDO_EXCEPTION));
    g_assert_true(has_pseudo(false, NULL, BTRAIL_PSEUDO_INTERRUPT));
    g_assert_false(has_pseudo(false, "0xec", BTRAIL_PSEUDO_INTERRUPT));
}

/* Entries of external interrupts have 8 or 16 bytes each. */
static void test_entries(void)
{
    struct btrail_names *names = open_names(
        "ffffffff81000000 T irq_entries_start\n"
        "ffffffff81000cc0 T spurious_entries_start\n"
        "ffffffff81001000 T asm_exc_page_fault\n"
        "ffffffff81001100 T asm_exc_nmi\n"
        "ffffffff81001200 T asm_exc_general_protection\n"
        "ffffffff81001300 T asm_sysvec_apic_timer_interrupt\n"
        "ffffffff81001400 T page_fault\n");

    g_assert_cmphex(find(names, true, "#PF"), ==, 0xffffffff81001000);
    g_assert_cmphex(find(names, true, "#pf"), ==, 0xffffffff81001000);
    g_assert_cmphex(find(names, true, "14"), ==, 0xffffffff81001000);
    g_assert_cmphex(find(names, true, "0xd"), ==, 0xffffffff81001200);
    g_assert_cmphex(find(names, true, "asm_exc_page_fault"), ==,
                    0xffffffff81001000);
    g_assert_cmphex(find(names, true, "#GP"), ==, 0xffffffff81001200);
    g_assert_cmphex(find(names, true, "nmi"), ==, 0);
    g_assert_cmphex(find(names, false, "nmi"), ==, 0xffffffff81001100);
    g_assert_cmphex(find(names, false, "NMI"), ==, 0xffffffff81001100);
    g_assert_cmphex(find(names, false, "2"), ==, 0xffffffff81001100);
    g_assert_cmphex(find(names, false, "0xec"), ==, 0xffffffff81001300);
    /* 204 entries of 16 bytes each */
    g_assert_cmphex(find(names, false, "0x21"), ==, 0xffffffff81000010);
    g_assert_cmphex(find(names, false, "0xeb"), ==, 0xffffffff81000cb0);
    g_assert_cmphex(find(names, false, "255"), ==, 0);
    g_assert_cmphex(find(names, false, "14"), ==, 0);
    btrail_names_close(names);

    names = open_names("ffffffff81000000 T irq_entries_start\n"
                       "ffffffff81000660 T spurious_entries_start\n"
                       "ffffffff81001000 T page_fault\n"
                       "ffffffff81001100 T nmi\n"
                       "ffffffff81001200 T apic_timer_interrupt\n");
    g_assert_cmphex(find(names, true, "#PF"), ==, 0xffffffff81001000);
    g_assert_cmphex(find(names, false, "0x21"), ==, 0xffffffff81000008);
    g_assert_cmphex(find(names, false, "apic_timer_interrupt"), ==,
                    0xffffffff81001200);
    g_assert_cmphex(find(names, false, "NMI"), ==, 0xffffffff81001100);
    btrail_names_close(names);
}

/* Names of functions where interrupts are taken */
static void check_entry(GHashTable *entries, const char *symbol, int number,
                        const char *name)
{
    const struct vector_entry *e = g_hash_table_lookup(entries, symbol);

    g_assert_true(!!e == !!name);
    if (e) {
        g_assert_cmpint(e->number, ==, number);
        g_assert_cmpstr(e->name, ==, name);
    }
}

static void test_interrupts(void)
{
    struct btrail_names *names = open_two(
        "ffffffff81000000 T asm_sysvec_apic_timer_interrupt\n"
        "ffffffff81000100 T asm_exc_nmi\n"
        "ffffffff81000200 T asm_exc_page_fault\n"
        "ffffffff81000300 T asm_sysvec_of_a_later_kernel\n"
        "ffffffff81000400 T irq_entries_start\n"
        "ffffffff81000500 T reschedule_interrupt\n"
        "ffffffff81000600 T do_exit\n",
        "ffffffff82000000 T call_function_interrupt\n"
        "ffffffff82000100 T page_fault\n"
        "ffffffff82000200 T common_interrupt\n");
    g_autoptr(GHashTable) entries = vectors_entries(names);

    check_entry(entries, "asm_sysvec_apic_timer_interrupt", 0xec,
                "apic_timer_interrupt");
    check_entry(entries, "asm_exc_nmi", 2, "nmi");
    check_entry(entries, "asm_sysvec_of_a_later_kernel", -1,
                "of_a_later_kernel");
    check_entry(entries, "irq_entries_start", -1, "common_interrupt");
    check_entry(entries, "call_function_interrupt", 0xfc, "call_function");
    /* What only the other kernel calls so, exceptions, and others */
    check_entry(entries, "reschedule_interrupt", 0, NULL);
    check_entry(entries, "asm_exc_page_fault", 0, NULL);
    check_entry(entries, "page_fault", 0, NULL);
    check_entry(entries, "do_exit", 0, NULL);
    g_assert_cmpuint(g_hash_table_size(entries), ==, 5);
    btrail_names_close(names);
}

/* By the name alone: entries of all kernels, and what they call */
static void test_interrupt(void)
{
    static const struct {
        const char *function, *name;
    } all[] = {
        { "asm_sysvec_apic_timer_interrupt", "apic_timer_interrupt" },
        { "sysvec_apic_timer_interrupt", "apic_timer_interrupt" },
        { "apic_timer_interrupt", "apic_timer_interrupt" },
        { "asm_sysvec_of_a_later_kernel", "of_a_later_kernel" },
        { "reschedule_interrupt", "reschedule_ipi" },
        { "asm_exc_nmi", "nmi" },
        { "nmi", "nmi" },
        { "common_interrupt", "common_interrupt" },
        { "asm_common_interrupt", "common_interrupt" },
        { "irq_entries_start", "common_interrupt" },
        { "do_IRQ", "common_interrupt" },
        { "asm_exc_page_fault", NULL },
        { "page_fault", NULL },
        { "invalid_TSS", NULL },
        { "asm_sysve", NULL },
        { "do_exit", NULL },
        { "", NULL },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++) {
        g_assert_cmpstr(vectors_interrupt(all[i].function), ==, all[i].name);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/vectors/names", test_names);
    g_test_add_func("/vectors/all", test_all);
    g_test_add_func("/vectors/others", test_others);
    g_test_add_func("/vectors/pseudo", test_pseudo);
    g_test_add_func("/vectors/entries", test_entries);
    g_test_add_func("/vectors/interrupts", test_interrupts);
    g_test_add_func("/vectors/interrupt", test_interrupt);
    return g_test_run();
}
