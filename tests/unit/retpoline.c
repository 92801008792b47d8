/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of symbolize/retpoline.h
 */
#include <glib.h>
#include <string.h>

#include "symbolize/retpoline.h"

#define INT3    "\xcc"
#define PAUSE   "\xf3\x90\x0f\xae\xe8\xeb\xf9"
#define CALL(n) "\xe8" n "\0\0\0"
#define NOPS8   "\x90\x90\x90\x90\x90\x90\x90\x90"

struct sample {
    const char *name;
    const char *code;
    size_t n;
    unsigned bits;
    bool yes;
};

#define CODE(s) s, sizeof(s) - 1

/* What is before a return */
static const struct sample ends[] = {
    { "linux", CODE(CALL("\1") INT3 "\x48\x89\x04\x24"), 64, true },
    { "gcc", CODE(CALL("\7") PAUSE "\x48\x89\x04\x24"), 64, true },
    { "llvm, %r11", CODE(CALL("\xb") PAUSE INT3 INT3 INT3 INT3
                         "\x4c\x89\x1c\x24"), 64, true },
    { "%rbp", CODE(CALL("\1") INT3 "\x48\x89\x2c\x24"), 64, true },
    { "%r15", CODE(CALL("\1") INT3 "\x4c\x89\x3c\x24"), 64, true },
    { "32 bits", CODE(CALL("\1") INT3 "\x89\x04\x24"), 32, true },
    { "code before it", CODE("\xe8\1\2\3\4" NOPS8 CALL("\1") INT3
                             "\x48\x89\x04\x24"), 64, true },
    { "far away", CODE(CALL("\x20") NOPS8 NOPS8 NOPS8 NOPS8
                       "\x48\x89\x04\x24"), 64, true },
    { "too far", CODE(CALL("\x21") NOPS8 NOPS8 NOPS8 NOPS8 "\x90"
                      "\x48\x89\x04\x24"), 64, false },
    { "no call", CODE(NOPS8 "\x48\x89\x04\x24"), 64, false },
    { "a call of another place", CODE(CALL("\2") INT3 "\x48\x89\x04\x24"), 64,
      false },
    { "a call backwards", CODE("\xe8\1\xff\xff\xff" INT3 "\x48\x89\x04\x24"),
      64, false },
    { "a load", CODE(CALL("\1") INT3 "\x48\x8b\x04\x24"), 64, false },
    { "another slot", CODE(CALL("\1") INT3 "\x48\x89\x44\x24\x08"), 64, false },
    { "half of it", CODE(CALL("\1") INT3 "\x89\x04\x24"), 64, false },
    { "it is the code's first instruction", CODE("\x48\x89\x04\x24"), 64,
      false },
    { "part of it", CODE("\x89\x04\x24"), 64, false },
    { "nothing", "", 0, 64, false },
    { "16 bits", CODE(CALL("\1") INT3 "\x89\x04\x24"), 16, false },
};

/* What a call goes to */
static const struct sample targets[] = {
    { "return", CODE("\x48\x89\x04\x24\xc3"), 64, true },
    { "return thunk", CODE("\x48\x89\x04\x24\xe9\1\2\3\4"), 64, true },
    { "return thunk, %r8", CODE("\x4c\x89\x04\x24\xeb\1"), 64, true },
    { "lea", CODE("\x48\x8d\x64\x24\x08\xc3"), 64, true },
    { "add", CODE("\x48\x83\xc4\x08\xc3"), 64, true },
    { "32 bits", CODE("\x89\x04\x24\xc3"), 32, true },
    { "lea of 32 bits", CODE("\x8d\x64\x24\x04\xc3"), 32, true },
    { "add of 32 bits", CODE("\x83\xc4\x04\xc3"), 32, true },
    { "two slots", CODE("\x48\x83\xc4\x10\xc3"), 64, false },
    { "more code", CODE("\x48\x89\x04\x24\x90\xc3"), 64, false },
    { "an indirect jump", CODE("\x48\x89\x04\x24\xff\xe0"), 64, false },
    { "cut off", CODE("\x48\x89\x04\x24"), 64, false },
    { "cut off lea", CODE("\x48\x8d\x64\x24"), 64, false },
    { "nothing", "", 0, 64, false },
    { "get_pc_thunk", CODE("\x8b\x04\x24\xc3"), 32, false },
    { "16 bits", CODE("\x89\x04\x24\xc3"), 16, false },
};

/* The bytes alone, so that a sanitizer sees what is read beyond them */
static uint8_t *copy(const struct sample *s)
{
    return g_memdup2(s->code, s->n);
}

static void test_end(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(ends); i++) {
        g_autofree uint8_t *code = copy(&ends[i]);

        g_test_message("%s", ends[i].name);
        g_assert_cmpint(retpoline_end(code, ends[i].n, ends[i].bits), ==,
                        ends[i].yes);
    }
}

static void test_target(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(targets); i++) {
        const struct sample *s = &targets[i];
        g_autofree uint8_t *code = copy(s);

        g_test_message("%s", s->name);
        g_assert_cmpint(retpoline_target(code, s->n, s->bits, true), ==,
                        s->yes);
        /* From afar, only what drops the address does. */
        g_assert_cmpint(retpoline_target(code, s->n, s->bits, false), ==,
                        s->yes && !strchr(s->code, '\x89'));
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/retpoline/end", test_end);
    g_test_add_func("/retpoline/target", test_target);
    return g_test_run();
}
