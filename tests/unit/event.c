/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What people look for: what texts mean, and where Linux has interrupts and
 * exceptions, by the symbols of a trace that is made here
 */

#include <string.h>

#include "find/within.h"
#include "find/vectors.h"
#include "find/event.h"
#include "trace-samples.h"

static void check(const char *text, enum find_event_kind kind, const char *name)
{
    g_autoptr(GError) error = NULL;
    struct find_event w;

    find_event_parse(text, &w, &error);
    g_assert_no_error(error);
    g_assert_cmpint(w.kind, ==, kind);
    g_assert_cmpstr(w.name, ==, name);
    find_event_clear(&w);
}

static void test_parse(void)
{
    struct find_event w;

    check("panic", FIND_EVENT_FUNCTION, NULL);
    check("my prog:main", FIND_EVENT_FUNCTION, NULL);
    check("syscalls", FIND_EVENT_FUNCTION, NULL);
    check("panic#1", FIND_EVENT_PLACE, NULL);
    check("first panic", FIND_EVENT_PLACE, NULL);
    check("last nginx:handler", FIND_EVENT_PLACE, NULL);
    check("last exit of sh", FIND_EVENT_PLACE, NULL);
    check("@7", FIND_EVENT_PLACE, NULL);
    check("1.5s", FIND_EVENT_PLACE, NULL);
    check("mark:build begins", FIND_EVENT_MARK, NULL);
    check("mark:", FIND_EVENT_MARK, NULL);
    check("mark:a#b=5", FIND_EVENT_MARK, NULL);
    check("mark:a#1", FIND_EVENT_PLACE, NULL);
    check("first mark:a", FIND_EVENT_PLACE, NULL);
    check("switch", FIND_EVENT_SWITCH, NULL);
    check("switch to my prog", FIND_EVENT_SWITCH, "my prog");
    check("syscall", FIND_EVENT_SYSCALL, NULL);
    check("syscall  openat", FIND_EVENT_SYSCALL, "openat");
    check("interrupt 0xec", FIND_EVENT_INTERRUPT, "0xec");
    check("exception #PF", FIND_EVENT_EXCEPTION, "#PF");
    g_assert_true(find_event_parse("*0xffffffff81000000", &w, NULL));
    g_assert_cmpint(w.kind, ==, FIND_EVENT_INSTRUCTION);
    g_assert_cmpuint(w.address, ==, 0xffffffff81000000);
}

static void test_wrong(void)
{
    static const char *const wrong[] = {
        "", "*", "*x", "*12x", "*-1", "* 12", "switch sh", "switch to",
        "switch to ", "a b", "1:", "panic#0",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autoptr(GError) error = NULL;
        struct find_event w;

        if (find_event_parse(wrong[i], &w, &error)) {
            g_error("'%s' is taken", wrong[i]);
        }
        g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
        find_event_clear(&w);
    }
}

static void test_inside(void)
{
    static const char *const wrong[] = {
        "", "cpu", "cpu 0", "cpu 0: in ", "cpu x: in f", "cpu 0 in f",
        "cpu 99999: in f", "cpu 0: at f", "cpu 0: in a b", "cpu -1: in f",
    };
    g_autofree char *process = NULL, *function = NULL;
    unsigned vcpu;

    g_assert_true(within_parse("cpu 12: in my prog:main", &vcpu, &process,
                               &function, NULL));
    g_assert_cmpuint(vcpu, ==, 12);
    g_assert_cmpstr(process, ==, "my prog");
    g_assert_cmpstr(function, ==, "main");
    for (unsigned i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autoptr(GError) error = NULL;
        char *p, *f;

        if (within_parse(wrong[i], &vcpu, &p, &f, &error)) {
            g_error("'%s' is taken", wrong[i]);
        }
        g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
    }
}

static struct btrail_names *open_names(const char *symbols)
{
    const struct btrail_sideband_info info = {
        .kind = BTRAIL_SIDEBAND_SYMBOLS, .size = strlen(symbols),
    };
    char *path = sample_path();
    struct btrail_trace *trace;
    struct btrail_names *names;
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_sideband(w, &info, symbols), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_names_open(&names, trace), ==, 0);
    btrail_trace_close(trace);
    sample_remove(path);
    return names;
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

static void test_vectors(void)
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

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/parse", test_parse);
    g_test_add_func("/wrong", test_wrong);
    g_test_add_func("/inside", test_inside);
    g_test_add_func("/vectors", test_vectors);
    return g_test_run();
}
