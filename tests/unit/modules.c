/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols of the modules of a fake guest's kernel
 */

#include <elf.h>
#include <glib.h>
#include <string.h>

#include "fake-linux.h"
#include "guest-linux/modules.h"

struct fixture {
    struct fake_linux f;
    struct guest_memory *m;
    struct linux_kernel *k;
};

static void begin(struct fixture *x)
{
    x->k = fake_linux_begin(&x->f, 0, &x->m);
    linux_kernel_begin(x->k);
}

static void end(struct fixture *x)
{
    fake_linux_end(&x->f, x->m, x->k);
}

static bool has(struct fixture *x, const char *line)
{
    GString *text = linux_symbols(x->k);
    bool found = strstr(text->str, line) != NULL;

    g_assert_true(g_str_has_prefix(text->str, "ffffffff81000000 T _stext\n"));
    g_assert_true(g_str_has_suffix(text->str, "\n"));
    g_string_free(text, TRUE);
    return found;
}

static void test_symbols(void)
{
    struct fixture x;

    begin(&x);
    g_assert_true(has(&x, "\nffffffff81000640 T s100\n"));
    g_assert_true(has(&x, "\nffffffffc0000000 t load\t[mod]\n"
                          "ffffffffc0000010 t stop\t[mod]\n"));
    end(&x);
}

static void test_hash(void)
{
    const struct linux_layout *l;
    struct fixture x;
    uint64_t before, modules, kallsyms;

    begin(&x);
    l = &x.f.layout;
    before = linux_modules_hash(x.k);
    g_assert_cmphex(before, !=, 0);
    g_assert_cmphex(linux_modules_hash(x.k), ==, before);
    g_assert_true(linux_u64(x.k, x.f.module, l->module_kallsyms, &kallsyms));
    fake_linux_put64(&x.f, x.f.module, l->module_kallsyms, kallsyms + 64);
    g_assert_cmphex(linux_modules_hash(x.k), !=, before);
    /* It is taken out. */
    modules = x.k->modules;
    fake_linux_put64(&x.f, modules, 0, modules);
    fake_linux_put64(&x.f, modules, 8, modules);
    g_assert_cmphex(linux_modules_hash(x.k), !=, before);
    g_assert_false(has(&x, "[mod]"));
    end(&x);
}

static void test_damage(void)
{
    const struct linux_layout *l;
    struct fixture x;
    uint64_t kallsyms;

    begin(&x);
    l = &x.f.layout;
    /* One that is being loaded */
    fake_linux_put32(&x.f, x.f.module, l->module_state, 3);
    g_assert_false(has(&x, "[mod]"));
    fake_linux_put32(&x.f, x.f.module, l->module_state, 0);
    g_assert_true(has(&x, "[mod]"));
    g_assert_true(linux_u64(x.k, x.f.module, l->module_kallsyms, &kallsyms));
    fake_linux_put32(&x.f, kallsyms, l->mod_count, UINT32_MAX);
    g_assert_false(has(&x, "[mod]"));
    fake_linux_put32(&x.f, kallsyms, l->mod_count, 3);
    /* Names that would be lines of their own */
    fake_linux_at(&x.f, x.f.module + l->module_name)[0] = '\n';
    g_assert_false(has(&x, "load"));
    fake_linux_at(&x.f, x.f.module + l->module_name)[0] = 'm';
    /* A list that does not end */
    fake_linux_put64(&x.f, x.f.module, l->module_list,
                     x.f.module + l->module_list);
    fake_linux_put64(&x.f, x.f.module, l->module_list + 8,
                     x.f.module + l->module_list);
    g_assert_cmphex(linux_modules_hash(x.k), ==, 0);
    end(&x);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/modules/symbols", test_symbols);
    g_test_add_func("/modules/hash", test_hash);
    g_test_add_func("/modules/damage", test_damage);
    return g_test_run();
}
