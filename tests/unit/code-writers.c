/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions of a fake guest's kernel that write code:
 * guest-linux/code-writers.h
 */

#include <glib.h>

#include "fake-linux.h"
#include "guest-linux/code-writers.h"

static void test_names(void)
{
    static const char *const names[] = {
        "free_module", "free_module.part.0", "__text_poke", "text_poke_bp",
        "text_poke", "smp_text_poke_batch_finish", "bpf_arch_text_poke",
        "bpf_int_jit_compile", "bpf_jit_free", "bpf_prog_pack_free",
        "module_memfree", "execmem_free", "load_module.constprop.0.cold",
    }, *const others[] = {
        "", ".", "free_modul", "free_modules", "my_text_poke", "text_pok",
        "bpf_arch_tex", "execmem_alloc", "schedule",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        g_assert_true(linux_is_code_writer(names[i]));
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(others); i++) {
        g_assert_false(linux_is_code_writer(others[i]));
    }
}

/* From its first address until the next symbol */
static void test_kernel(void)
{
    struct guest_memory *m;
    struct fake_linux f;
    struct linux_kernel *k = fake_linux_begin(&f, 0, &m);
    struct linux_code_writers *w = linux_code_writers_new(k);

    g_assert_nonnull(w);
    g_assert_cmpuint(w->count, ==, 1);
    g_assert_cmphex(w->image, ==, FAKE_STEXT);
    g_assert_cmphex(w->image_end, ==, FAKE_STEXT + GUEST_PAGE_SIZE);
    for (int i = -64; i < 64; i++) {
        g_assert_cmpint(linux_code_writers_have(w, FAKE_WRITER + i), ==,
                        i >= 0 && i < 16);
    }
    g_assert_false(linux_code_writers_have(w, 0));
    g_assert_false(linux_code_writers_have(w, UINT64_MAX));
    g_assert_false(linux_code_writers_have(w, FAKE_WRITER & UINT32_MAX));
    linux_code_writers_free(w);
    linux_code_writers_free(NULL);
    fake_linux_end(&f, m, k);
}

/* Addresses of 32 bits are not told from those of programs. */
static void test_32(void)
{
    struct guest_memory *m;
    struct fake_linux f;
    struct linux_kernel *k = fake_linux_begin(&f, FAKE_32, &m);

    g_assert_null(linux_code_writers_new(k));
    fake_linux_end(&f, m, k);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/code-writers/names", test_names);
    g_test_add_func("/code-writers/kernel", test_kernel);
    g_test_add_func("/code-writers/32", test_32);
    return g_test_run();
}
