/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registers of CPUs whose values are known, in the words of QEMU's
 * target/i386/cpu-dump.c
 */

#include <glib.h>
#include <inttypes.h>
#include <string.h>

#include "cli/rr/rr-registers.h"

/* What is printed, and what is to be found in it, in order */
struct dump {
    GString *text;
    GPtrArray *names;
    GPtrArray *values;
};

static uint64_t any64(void)
{
    uint64_t value = (uint64_t)g_test_rand_int() << 32 |
                     (uint32_t)g_test_rand_int();

    switch (g_test_rand_int_range(0, 4)) {
    case 0:
        return 0;
    case 1:
        return UINT64_MAX;
    default:
        return value;
    }
}

static void expect(struct dump *d, const char *name, const char *value)
{
    g_ptr_array_add(d->names, g_ascii_strdown(name, -1));
    g_ptr_array_add(d->values, g_strdup(value));
}

/* Prints one of 64 or 32 bits; @format: of its name */
static void put(struct dump *d, const char *format, const char *name,
                bool wide)
{
    uint64_t n = wide ? any64() : (uint32_t)any64();
    g_autofree char *value = g_strdup_printf("0x%016" PRIx64, n);

    g_string_append_printf(d->text, format, name);
    g_string_append_printf(d->text, wide ? "=%016" PRIx64 : "=%08" PRIx64, n);
    expect(d, name, value);
}

/* Registers, with a space or the end of the line after each of them */
static void put_line(struct dump *d, const char *names, bool wide)
{
    g_auto(GStrv) list = g_strsplit(names, " ", -1);

    for (unsigned i = 0; list[i]; i++) {
        put(d, "%-3s", list[i], wide);
        g_string_append_c(d->text, list[i + 1] ? ' ' : '\n');
    }
}

static void put_segments(struct dump *d, bool wide)
{
    static const char *const names[] = {
        "ES", "CS", "SS", "DS", "FS", "GS", "LDT", "TR",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        g_string_append_printf(d->text, wide ? "%-3s=%04x %016" PRIx64
                               " %08x %08x" : "%-3s=%04x %08" PRIx64
                               " %08x %08x", names[i],
                               (uint16_t)g_test_rand_int(),
                               wide ? any64() : (uint32_t)any64(),
                               (uint32_t)any64(), (uint32_t)any64());
        g_string_append(d->text, g_test_rand_bit() ? " DPL=0 CS64 [-RA]\n" :
                        "\n");
    }
    for (unsigned i = 0; i < 2; i++) {
        g_string_append_printf(d->text, wide ? "%s=     %016" PRIx64 " %08x\n" :
                               "%s=     %08" PRIx64 " %08x\n",
                               i ? "IDT" : "GDT", wide ? any64() :
                               (uint32_t)any64(), (uint32_t)any64());
    }
}

static void put_x87(struct dump *d)
{
    g_string_append_printf(d->text, "FCW=%04x FSW=%04x [ST=%d] FTW=%02x ",
                           0x37f, 0, 0, 0xff);
    put_line(d, "MXCSR", false);
    for (unsigned i = 0; i < 8; i++) {
        uint64_t lower = any64();
        uint16_t upper = any64();
        g_autofree char *name = g_strdup_printf("FPR%u", i);
        g_autofree char *value = g_strdup_printf("0x%04x%016" PRIx64, upper,
                                                 lower);

        g_string_append_printf(d->text, "%s=%016" PRIx64 " %04x%s", name, lower,
                               upper, i & 1 ? "\n" : " ");
        expect(d, name, value);
    }
}

/* Vectors of some quadwords, the highest one first; some to a line */
static void put_vectors(struct dump *d, const char *kind, unsigned n,
                        unsigned quads, unsigned in_line)
{
    for (unsigned i = 0; i < n; i++) {
        g_autofree char *name = g_strdup_printf("%s%02u", kind, i);
        g_autoptr(GString) value = g_string_new("0x");

        g_string_append_printf(d->text, "%s=", name);
        for (unsigned k = 0; k < quads; k++) {
            uint64_t quad = any64();

            g_string_append_printf(d->text, "%s%016" PRIx64, k ? " " : "",
                                   quad);
            g_string_append_printf(value, "%016" PRIx64, quad);
        }
        g_string_append(d->text, (i + 1) % in_line ? " " : "\n");
        expect(d, name, value->str);
    }
}

static void put_flags(struct dump *d)
{
    g_string_append(d->text, "[---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=0\n");
}

/* @quads: of a vector */
static struct dump dump_new(bool wide, unsigned quads)
{
    struct dump d = {
        g_string_new("\nCPU#0\n"), g_ptr_array_new_with_free_func(g_free),
        g_ptr_array_new_with_free_func(g_free),
    };
    unsigned n = !wide ? 8 : quads == 8 ? 32 : 16;

    if (wide) {
        put_line(&d, "RAX RBX RCX RDX", true);
        put_line(&d, "RSI RDI RBP RSP", true);
        put_line(&d, "R8 R9 R10 R11", true);
        put_line(&d, "R12 R13 R14 R15", true);
        put(&d, "%s", "RIP", true);
        g_string_append_c(d.text, ' ');
        put(&d, "%s", "RFL", false);
    } else {
        put_line(&d, "EAX EBX ECX EDX", false);
        put_line(&d, "ESI EDI EBP ESP", false);
        put(&d, "%s", "EIP", false);
        g_string_append_c(d.text, ' ');
        put(&d, "%s", "EFL", false);
    }
    g_string_append_c(d.text, ' ');
    put_flags(&d);
    put_segments(&d, wide);
    put(&d, "%s", "CR0", false);
    g_string_append_c(d.text, ' ');
    put(&d, "%s", "CR2", wide);
    g_string_append_c(d.text, ' ');
    put(&d, "%s", "CR3", wide);
    g_string_append_c(d.text, ' ');
    put_line(&d, "CR4", false);
    for (unsigned i = 0; i < 4; i++) {
        g_autofree char *name = g_strdup_printf("DR%u", i);

        put(&d, "%s", name, true);
        g_string_append_c(d.text, ' ');
    }
    g_string_append_c(d.text, '\n');
    put_line(&d, "DR6 DR7", true);
    put_line(&d, "EFER", true);
    put_x87(&d);
    if (quads == 8) {
        put_vectors(&d, "Opmask", 8, 1, 4);
    }
    put_vectors(&d, quads == 8 ? "ZMM" : quads == 4 ? "YMM" : "XMM", n, quads,
                quads == 2 ? 2 : 1);
    return d;
}

static void check(bool wide, unsigned quads)
{
    struct dump d = dump_new(wide, quads);
    const char *text = d.text->str;
    struct rr_register r;

    for (guint i = 0; i < d.names->len; i++) {
        const char *value = d.values->pdata[i];
        const char *low = value + strlen(value) - 16;

        g_assert_true(rr_register_next(&text, &r));
        g_assert_cmpstr(r.name, ==, d.names->pdata[i]);
        g_assert_cmpstr(r.text, ==, value);
        g_assert_cmpuint(r.low, ==, g_ascii_strtoull(low, NULL, 16));
    }
    g_assert_false(rr_register_next(&text, &r));
    g_string_free(d.text, TRUE);
    g_ptr_array_unref(d.names);
    g_ptr_array_unref(d.values);
}

static void test_all(void)
{
    for (unsigned i = 0; i < 200; i++) {
        for (unsigned quads = 2; quads <= 8; quads *= 2) {
            check(true, quads);
            check(false, quads);
        }
    }
}

/* Text that is no such thing has none, and what is too long is not read. */
static void test_others(void)
{
    static const char *const none[] = {
        "", "=", "==", "RAX", "RAX=", "RAX=1234567", "=00000000",
        "  =00000000", "RAX=00000000000000000", "ABCDEFGHIJKLM=00000000",
        "HLT=0\n[]=00000000",
    };
    const char *text = "A=00000000 00000000 1 2 3 4 5 6 7 8 9 B=00000001";
    struct rr_register r;

    for (unsigned i = 0; i < G_N_ELEMENTS(none); i++) {
        const char *at = none[i];

        g_assert_false(rr_register_next(&at, &r));
    }
    g_assert_true(rr_register_next(&text, &r));
    g_assert_cmpstr(r.name, ==, "a");
    g_assert_true(rr_register_next(&text, &r));
    g_assert_cmpstr(r.name, ==, "b");
    g_assert_cmpuint(r.low, ==, 1);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/rr-registers/all", test_all);
    g_test_add_func("/rr-registers/others", test_others);
    return g_test_run();
}
