/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code that the kernel can have had elsewhere is not known: when, and where
 */

#include <glib.h>

#include "pt/settled-code.h"

#define IMAGE   UINT64_C(0xffffffff81000000)
#define END     UINT64_C(0xffffffff83000000)
#define MODULE  UINT64_C(0xffffffffc0000000)
#define VMALLOC UINT64_C(0xffffc90000000000)
#define GONE    UINT64_C(0xffffffffc0001000)

static enum pt_code_result read_code(void *opaque, uint64_t cr3,
                                     uint64_t address,
                                     const struct pt_moment *moment,
                                     struct pt_code *code)
{
    g_assert_cmphex(cr3, ==, 0x1000);
    code->size = 7;
    return address == GONE ? PT_CODE_UNREADABLE : PT_CODE_READ;
}

static void check(struct settled_code *s, uint64_t tsc, uint64_t address,
                  enum pt_code_result expected)
{
    const struct pt_moment moment = { .tsc = tsc };
    struct pt_code code = { 0 };

    g_assert_cmpint(settled_code_read(s, 0x1000, address, &moment, &code), ==,
                    expected);
    g_assert_cmpuint(code.size, ==, 7);
}

static void test_settled(void)
{
    struct settled_code *s = settled_code_new(IMAGE, END, read_code, NULL);
    static const uint64_t others[] = { MODULE, VMALLOC, IMAGE - 1, END };
    static const uint64_t stay[] = { 0x401000, IMAGE, END - 1,
                                     UINT64_MAX >> 1 };

    for (unsigned i = 0; i < G_N_ELEMENTS(others); i++) {
        settled_code_set(s, 0);
        check(s, 0, others[i], PT_CODE_READ);
        settled_code_set(s, 1000);
        check(s, 0, others[i], PT_CODE_CHANGED);
        check(s, 999, others[i], PT_CODE_CHANGED);
        check(s, 1000, others[i], PT_CODE_READ);
        settled_code_set(s, UINT64_MAX);
        check(s, UINT64_MAX >> 8, others[i], PT_CODE_CHANGED);
        check(s, UINT64_MAX, others[i], PT_CODE_READ);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(stay); i++) {
        check(s, 0, stay[i], PT_CODE_READ);
    }
    check(s, 0, GONE, PT_CODE_UNREADABLE);
    settled_code_free(s);
    settled_code_free(NULL);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/settled-code/settled", test_settled);
    return g_test_run();
}
