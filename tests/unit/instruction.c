/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of symbolize/instruction.h: kinds, targets and text of instructions
 */
#include <glib.h>
#include <string.h>

#include "symbolize/instruction.h"

#define ADDRESS UINT64_C(0xffffffff81000000)

/* By the tables of the SDM, vol. 2 */
static void test_kinds(void)
{
    static const struct {
        const char *bytes;
        unsigned length;
        unsigned bits;
        enum instruction_kind kind;
        int64_t target;         /* from ADDRESS, 0 if indirect */
    } known[] = {
        { "\x90", 1, 64, INSTRUCTION_OTHER },
        { "\xe8\xfb\xff\xff\xff", 5, 64, INSTRUCTION_CALL, -1 + 1 },
        { "\xe8\x10\0\0\0", 5, 64, INSTRUCTION_CALL, 0x15 },
        { "\xff\xd0", 2, 64, INSTRUCTION_CALL },
        { "\xff\x15\x01\0\0\0", 6, 64, INSTRUCTION_CALL },
        { "\x41\xff\x54\x24\x18", 5, 64, INSTRUCTION_CALL },
        { "\xff\x18", 2, 64, INSTRUCTION_CALL },
        { "\x9a\0\0\0\0\x08\0", 7, 32, INSTRUCTION_CALL },
        { "\xc3", 1, 64, INSTRUCTION_RET },
        { "\xf3\xc3", 2, 64, INSTRUCTION_RET },
        { "\xc2\x08\0", 3, 64, INSTRUCTION_RET },
        { "\x48\xcb", 2, 64, INSTRUCTION_RET },
        { "\xeb\x7e", 2, 64, INSTRUCTION_JUMP, 0x80 },
        { "\xe9\0\0\0\x80", 5, 64, INSTRUCTION_JUMP, -0x7ffffffbLL },
        { "\xff\xe0", 2, 64, INSTRUCTION_JUMP },
        { "\x3e\xff\xe0", 3, 64, INSTRUCTION_JUMP },
        { "\x74\x02", 2, 64, INSTRUCTION_CONDITIONAL, 4 },
        { "\x0f\x85\x10\0\0\0", 6, 64, INSTRUCTION_CONDITIONAL, 0x16 },
        { "\xe2\xfc", 2, 64, INSTRUCTION_CONDITIONAL, -2 },
        { "\xe3\x05", 2, 64, INSTRUCTION_CONDITIONAL, 7 },
        { "\x0f\x05", 2, 64, INSTRUCTION_SYSCALL },
        { "\x0f\x34", 2, 32, INSTRUCTION_SYSCALL },
        { "\x48\x0f\x07", 3, 64, INSTRUCTION_SYSRET },
        { "\x48\x0f\x35", 3, 64, INSTRUCTION_SYSRET },
        { "\xcd\x80", 2, 32, INSTRUCTION_INT },
        { "\xcc", 1, 64, INSTRUCTION_INT },
        { "\xf1", 1, 64, INSTRUCTION_INT },
        { "\x48\xcf", 2, 64, INSTRUCTION_IRET },
        { "\xcf", 1, 16, INSTRUCTION_IRET },
        { "\x0f\xaa", 2, 64, INSTRUCTION_IRET },
        { "\xf3\x0f\x01\xca", 4, 64, INSTRUCTION_IRET },
        { "\xf3\x0f\x01\xec", 4, 64, INSTRUCTION_IRET },
        { "\xd5\x10\xff\xe0", 4, 64, INSTRUCTION_JUMP },
        { "\xf2\x0f\x00\xf0", 4, 64, INSTRUCTION_OTHER },
        { "\x0f\x01\xd8", 3, 64, INSTRUCTION_VM },
        { "\xf4", 1, 64, INSTRUCTION_OTHER },
        { "\x0f\x0b", 2, 64, INSTRUCTION_OTHER },
    };
    struct instruction insn;
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(known); i++) {
        g_assert_true(instruction_decode(known[i].bytes, known[i].length,
                                         known[i].bits, ADDRESS, &insn));
        g_assert_cmpint(insn.kind, ==, known[i].kind);
        g_assert_cmpuint(insn.length, ==, known[i].length);
        if (known[i].target || i == 1) {
            uint64_t target = ADDRESS + known[i].target;

            g_assert_true(insn.direct);
            g_assert_cmphex(insn.target, ==, target);
            g_assert_true(instruction_goes(&insn, target));
            g_assert_false(instruction_goes(&insn, target + 1));
        } else {
            g_assert_false(insn.direct);
            g_assert_cmpint(instruction_goes(&insn, 5), ==,
                            insn.kind != INSTRUCTION_OTHER);
        }
        /* Cut off, it is none. */
        g_assert_false(instruction_decode(known[i].bytes,
                                          known[i].length - 1,
                                          known[i].bits, ADDRESS, &insn));
        g_assert_cmpint(insn.kind, ==, INSTRUCTION_UNKNOWN);
        g_assert_cmpuint(insn.length, ==, 0);
        g_assert_true(instruction_goes(&insn, 5));
    }
}

static bool goes_on(const char *bytes, size_t n)
{
    struct instruction insn;

    g_assert_true(instruction_decode(bytes, n, 64, ADDRESS, &insn));
    return !instruction_always_goes(&insn);
}

static void test_always(void)
{
    g_assert_true(goes_on("\x90", 1));             /* nop */
    g_assert_true(goes_on("\x75\x10", 2));         /* jne */
    g_assert_true(goes_on("\xcc", 1));             /* int3, which returns */
    g_assert_false(goes_on("\xeb\x10", 2));        /* jmp */
    g_assert_false(goes_on("\xe8\x10\0\0\0", 5)); /* call */
    g_assert_false(goes_on("\xff\xe0", 2));        /* jmp *%rax */
    g_assert_false(goes_on("\xc3", 1));            /* ret */
    g_assert_false(goes_on("\x48\xcf", 2));        /* iretq */
    g_assert_false(goes_on("\x0f\x05", 2));        /* syscall */
}

static void test_modes(void)
{
    char text[INSTRUCTION_TEXT];
    struct instruction insn;

    /* inc eax in 32-bit mode, half of an instruction in 64-bit mode */
    g_assert_true(instruction_decode("\x40", 1, 32, 0, &insn));
    g_assert_false(instruction_decode("\x40", 1, 64, 0, &insn));
    g_assert_false(instruction_decode("\x06", 1, 64, 0, &insn));
    g_assert_false(instruction_decode("\x90", 1, 8, 0, &insn));
    g_assert_false(instruction_decode("", 0, 64, 0, &insn));
    /* The same bytes in three modes */
    g_assert_true(instruction_decode("\xe9\1\0\0\0", 5, 16, 0x100, &insn));
    g_assert_cmpuint(insn.length, ==, 3);
    g_assert_cmphex(insn.target, ==, 0x104);
    g_assert_true(instruction_decode("\xe9\1\0\0\0", 5, 32, 0x100, &insn));
    g_assert_cmphex(insn.target, ==, 0x106);
    /* Addresses of 32-bit code have 32 bits. */
    g_assert_true(instruction_decode("\xeb\x7e", 2, 32, 0xffffffff, &insn));
    g_assert_cmphex(insn.target, ==, 0x7f);

    /* inc word [0x7e00]; in 64-bit mode, the displacement has 4 bytes. */
    g_assert_true(instruction_decode("\xff\x06\x00\x7e\xc3\x90", 6, 16, 0,
                                     &insn));
    g_assert_cmpuint(insn.length, ==, 4);

    g_assert_cmpuint(instruction_text("\x74\x02", 2, 64, 0x1000, text), ==,
                     2);
    g_assert_cmpstr(text, ==, "jz 0x0000000000001004");
    g_assert_cmpuint(instruction_text("\xf3\x0f\x01\xca", 4, 64, 0, text), ==,
                     4);
    g_assert_cmpstr(text, ==, "eretu");
    g_assert_cmpuint(instruction_text("\xd5\x10\x01\xc0", 4, 64, 0, text), ==,
                     4);
    g_assert_cmpstr(text, ==, "(unknown)");
    g_assert_cmpuint(instruction_text("\x06", 1, 64, 0, text), ==, 0);
    /* JKZD, which only the first Xeon Phi has, as instruction_decode() says */
    strcpy(text, "?");
    g_assert_cmpuint(instruction_text("\xc5\x78\x84\x10\0\0\0", 7, 64, 0,
                                      text), ==, 0);
    g_assert_cmpstr(text, ==, "(bad)");
    g_assert_cmpstr(text, ==, "(bad)");
}

/*
 * Where IP wraps depends on the base of CS, which no record has: 0xf0000 and
 * 0xf8000 are the bases of segments with the same code.
 */
static void test_wraps(void)
{
    char text[INSTRUCTION_TEXT];
    struct instruction insn;

    g_assert_true(instruction_decode("\xe9\0\x10", 3, 16, 0xffff0, &insn));
    g_assert_true(insn.direct && insn.wraps);
    g_assert_cmphex(insn.target, ==, 0x100ff3);
    g_assert_true(instruction_goes(&insn, 0x100ff3));
    g_assert_true(instruction_goes(&insn, 0xf0ff3));
    g_assert_false(instruction_goes(&insn, 0xe0ff3));
    g_assert_false(instruction_goes(&insn, 0xf0ff4));
    g_assert_false(instruction_goes(&insn, 0x1000f0ff3));
    g_assert_true(instruction_decode("\xeb\x80", 2, 16, 0xf0010, &insn));
    g_assert_cmphex(insn.target, ==, 0xeff92);
    g_assert_true(instruction_goes(&insn, 0xfff92));
    /* The text has the linear address, too. */
    g_assert_cmpuint(instruction_text("\xeb\x7e", 2, 16, 0xf1000, text), ==, 2);
    g_assert_cmpstr(text, ==, "jmp 0x000F1080");
    g_assert_cmpuint(instruction_text("\xe8\x7d\xff", 3, 16, 0xf1000, text), ==,
                     3);
    g_assert_cmpstr(text, ==, "call 0x000F0F80");
    /* Prefixes that change the size of ECX or CX, or of IP */
    g_assert_cmpuint(instruction_text("\x67\xe3\x02", 3, 64,
                                      0xffffffff81000000, text), ==, 3);
    g_assert_cmpstr(text, ==, "jecxz 0xFFFFFFFF81000005");
    g_assert_cmpuint(instruction_text("\x67\xe2\x02", 3, 32, 0xc1000000, text),
                     ==, 3);
    g_assert_cmpstr(text, ==, "loop 0xC1000005");
    g_assert_cmpuint(instruction_text("\x66\xe9\0\x10\0\0", 6, 16, 0xf1000,
                                      text), ==, 6);
    g_assert_cmpstr(text, ==, "jmp 0x000F2006");
    /* With a prefix, it is EIP, which does not wrap there. */
    g_assert_true(instruction_decode("\x66\xe9\0\x10\0\0", 6, 16, 0xffff0,
                                     &insn));
    g_assert_false(insn.wraps);
    g_assert_false(instruction_goes(&insn, 0xf0ff6));
    g_assert_true(instruction_decode("\xe9\0\x10\0\0", 5, 32, 0xffff0, &insn));
    g_assert_false(insn.wraps);
    g_assert_false(instruction_goes(&insn, 0xf0ff5));
}

static enum instruction_kind kind_by_name(const char *name)
{
    if (g_str_has_prefix(name, "notrack ") || g_str_has_prefix(name, "bnd ") ||
        g_str_has_prefix(name, "repz ")) {
        name = strchr(name, ' ') + 1;
    }
    if (g_str_has_prefix(name, "call")) {
        return INSTRUCTION_CALL;
    }
    if (g_str_has_prefix(name, "ret")) {
        return INSTRUCTION_RET;
    }
    if (g_str_has_prefix(name, "jmp")) {
        return INSTRUCTION_JUMP;
    }
    if (*name == 'j' || g_str_has_prefix(name, "loop")) {
        return INSTRUCTION_CONDITIONAL;
    }
    if (g_str_has_prefix(name, "syscall")) {
        return INSTRUCTION_SYSCALL;
    }
    if (g_str_has_prefix(name, "int3")) {
        return INSTRUCTION_INT;
    }
    return INSTRUCTION_OTHER;
}

/* Real code, against what another disassembler says of it */
static void test_objdump(void)
{
    const char *argv[] = {
        "objdump", "-d", "-w", "--no-addresses", "--insn-width=15",
        "/proc/self/exe", NULL
    };
    g_autofree char *out = NULL, *self = g_file_read_link("/proc/self/exe",
                                                          NULL);
    char *rest, *line;
    unsigned n = 0;

    argv[5] = self;
    if (!g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL,
                      NULL, &out, NULL, NULL, NULL) || !strlen(out)) {
        g_test_skip("there is no objdump");
        return;
    }
    /* Not all at once: a sanitizer's strstr() reads to the end each time. */
    rest = out;
    while ((line = strsep(&rest, "\n"))) {
        g_auto(GStrv) parts = g_strsplit(line, "\t", -1);
        uint8_t bytes[INSTRUCTION_MAX];
        char text[INSTRUCTION_TEXT];
        struct instruction insn;
        const char *p;
        unsigned len = 0;

        /* A line is "", bytes, instruction; with --no-addresses */
        if (g_strv_length(parts) < 3 || strstr(parts[2], "(bad)")) {
            continue;
        }
        for (p = parts[1]; g_ascii_isxdigit(*p) &&
             len < sizeof(bytes); p += 3) {
            bytes[len++] = g_ascii_xdigit_value(p[0]) << 4 |
                           g_ascii_xdigit_value(p[1]);
        }
        if (!instruction_decode(bytes, len, 64, ADDRESS, &insn) ||
            insn.length != len ||
            insn.kind != kind_by_name(parts[2])) {
            g_test_message("%s", line);
            g_test_fail();
        }
        g_assert_cmpuint(instruction_text(bytes, len, 64, ADDRESS, text), ==,
                         len);
        n++;
    }
    g_assert_cmpuint(n, >, 500);
}

static void test_random(void)
{
    char text[INSTRUCTION_TEXT];
    uint8_t bytes[INSTRUCTION_MAX];
    struct instruction insn;
    unsigned i, k;

    for (i = 0; i < 100000; i++) {
        unsigned n = g_test_rand_int_range(0, sizeof(bytes) + 1);
        static const unsigned modes[] = { 16, 32, 64 };
        unsigned bits = modes[i % 3];
        /* Of its exact size, so that a sanitizer sees what is read after */
        g_autofree uint8_t *copy = NULL;

        for (k = 0; k < n; k++) {
            bytes[k] = g_test_rand_int();
        }
        copy = g_memdup2(bytes, n);
        g_assert_cmpint(instruction_decode(copy, n, bits, i, &insn), ==,
                        insn.length > 0);
        g_assert_cmpuint(insn.length, <=, n);
        g_assert_cmpuint(instruction_text(copy, n, bits, i, text), ==,
                         insn.length);
    }
}

/* Before a jump: code that goes to another stack, and code that does not */
static void test_changes_stack(void)
{
    static const struct {
        const char *bytes;
        unsigned n;
        bool changes;
    } known[] = {
        /* mov (%rdi), %rsp; mov 8(%rdi), %rbp */
        { "\x48\x8b\x27\x48\x8b\x6f\x08", 7, true },
        /* mov %rsp, %rax; mov %rdi, %rsp */
        { "\x48\x89\xe0\x48\x89\xfc", 6, true },
        /* mov %rsp, %rbx; mov (%rdi), %rbx; mov %rbx, %rsp */
        { "\x48\x89\xe3\x48\x8b\x1f\x48\x89\xdc", 9, true },
        /* mov (%rdi), %rsp; jz .+2 */
        { "\x48\x8b\x27\x74\x00", 5, true },
        /* mov (%rdi), %rsp; ret */
        { "\x48\x8b\x27\xc3", 4, false },
        /* mov (%rdi), %rsp; mov %rbp, %rsp */
        { "\x48\x8b\x27\x48\x89\xec", 6, false },
        /* mov %rsp, %rbx; and $-64, %rsp; mov %rbx, %rsp */
        { "\x48\x89\xe3\x48\x83\xe4\xc0\x48\x89\xdc", 10, false },
        /* lea 8(%rsp), %r10; lea -8(%r10), %rsp */
        { "\x4c\x8d\x54\x24\x08\x49\x8d\x62\xf8", 9, false },
        /* mov 16(%rsp), %rsp */
        { "\x48\x8b\x64\x24\x10", 5, false },
        /* mov (%rdi), %esp; mov (%rdi), %r12 */
        { "\x8b\x27\x4c\x8b\x27", 5, false },
        /* add $8, %rsp; pop %rbp */
        { "\x48\x83\xc4\x08\x5d", 5, false },
        { "\x48\x8b\x27\x06", 4, false },
        { "", 0, false },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(known); i++) {
        g_assert_cmpint(instruction_changes_stack(known[i].bytes, known[i].n),
                        ==, known[i].changes);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/instruction/kinds", test_kinds);
    g_test_add_func("/instruction/always", test_always);
    g_test_add_func("/instruction/modes", test_modes);
    g_test_add_func("/instruction/wraps", test_wraps);
    g_test_add_func("/instruction/objdump", test_objdump);
    g_test_add_func("/instruction/random", test_random);
    g_test_add_func("/instruction/changes-stack", test_changes_stack);
    return g_test_run();
}
