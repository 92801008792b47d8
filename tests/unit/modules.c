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

/* To be freed */
static char *symbols(struct fixture *x)
{
    GString *text = g_string_new(NULL);

    linux_kernel_begin(x->k);
    g_assert_true(linux_modules_symbols(x->k, text));
    return g_string_free(text, FALSE);
}

static void require(struct fixture *x, const char *want)
{
    g_autofree char *text = symbols(x);

    g_assert_cmpstr(text, ==, want);
}

static void put_symbol(struct fixture *x, unsigned i, uint64_t address,
                       uint64_t size)
{
    uint64_t at = x->f.module_symbols + i * sizeof(Elf64_Sym);

    fake_linux_put64(&x->f, at, offsetof(Elf64_Sym, st_value), address);
    fake_linux_put64(&x->f, at, offsetof(Elf64_Sym, st_size), size);
}

static void test_symbols(void)
{
    struct fixture x;

    begin(&x);
    require(&x, "ffffffffc0000000 t load\t[mod]\n"
                "ffffffffc0000010 t stop\t[mod]\n"
                "ffffffffc0004000 d data\t[mod]\n"
                "ffffffffc0000074 e .end\t[mod]\n");
    end(&x);
}

/* Where code ends, by its size or by the module's own areas */
static void test_ends(void)
{
    struct fixture x;

    begin(&x);
    /* One without a size ends where the next one begins, or the area does. */
    put_symbol(&x, 1, FAKE_MODULE, 0);
    put_symbol(&x, 2, FAKE_MODULE + 0x100, 0);
    require(&x, "ffffffffc0000000 t load\t[mod]\n"
                "ffffffffc0000100 t stop\t[mod]\n"
                "ffffffffc0004000 d data\t[mod]\n"
                "ffffffffc0001000 e .end\t[mod]\n");
    /* A size cannot reach out of the area. */
    put_symbol(&x, 1, FAKE_MODULE, 0x20);
    put_symbol(&x, 2, FAKE_MODULE + 0x100, UINT64_MAX);
    require(&x, "ffffffffc0000000 t load\t[mod]\n"
                "ffffffffc0000100 t stop\t[mod]\n"
                "ffffffffc0004000 d data\t[mod]\n"
                "ffffffffc0000020 e .end\t[mod]\n"
                "ffffffffc0001000 e .end\t[mod]\n");
    /* Less than functions are aligned to is padding. */
    put_symbol(&x, 1, FAKE_MODULE, 0xf1);
    put_symbol(&x, 2, FAKE_MODULE + 0x100, 0x10);
    require(&x, "ffffffffc0000000 t load\t[mod]\n"
                "ffffffffc0000100 t stop\t[mod]\n"
                "ffffffffc0004000 d data\t[mod]\n"
                "ffffffffc0000110 e .end\t[mod]\n");
    /* The second one is of the module's initialisation. */
    fake_linux_area(&x.f, 1, FAKE_MODULE + 0x8000, 0x2000);
    put_symbol(&x, 1, FAKE_MODULE, 0);
    put_symbol(&x, 2, FAKE_MODULE + 0x8000, 0);
    require(&x, "ffffffffc0000000 t load\t[mod]\n"
                "ffffffffc0008000 t stop\t[mod]\n"
                "ffffffffc0004000 d data\t[mod]\n"
                "ffffffffc0001000 e .end\t[mod]\n"
                "ffffffffc000a000 e .end\t[mod]\n");
    /* Now it is freed. */
    fake_linux_area(&x.f, 1, 0, 0);
    require(&x, "ffffffffc0000000 t load\t[mod]\n"
                "ffffffffc0004000 d data\t[mod]\n"
                "ffffffffc0001000 e .end\t[mod]\n");
    end(&x);
}

/* A kernel before 6.4, and one that does not say where modules are */
static void test_older(void)
{
    struct linux_layout *l;
    struct fixture x;

    begin(&x);
    l = &x.k->layout;
    l->module_mem = LINUX_NONE;
    put_symbol(&x, 2, FAKE_MODULE + 0x100, 0);
    fake_linux_put64(&x.f, x.f.module, l->module_core, FAKE_MODULE);
    fake_linux_put32(&x.f, x.f.module, l->module_core_text, 0x3000);
    require(&x, "ffffffffc0000000 t load\t[mod]\n"
                "ffffffffc0000100 t stop\t[mod]\n"
                "ffffffffc0004000 d data\t[mod]\n"
                "ffffffffc0000010 e .end\t[mod]\n"
                "ffffffffc0003000 e .end\t[mod]\n");
    l->module_core = l->module_init = LINUX_NONE;
    require(&x, "ffffffffc0000000 t load\t[mod]\n"
                "ffffffffc0000100 t stop\t[mod]\n"
                "ffffffffc0004000 d data\t[mod]\n"
                "ffffffffc0000010 e .end\t[mod]\n"
                "ffffffffc0001000 e .end\t[mod]\n");
    end(&x);
}

static uint64_t hash(struct fixture *x)
{
    uint64_t h = 1;

    linux_kernel_begin(x->k);
    g_assert_true(linux_modules_hash(x->k, &h));
    return h;
}

static void test_hash(void)
{
    const struct linux_layout *l;
    struct fixture x;
    uint64_t before, modules, kallsyms;

    begin(&x);
    l = &x.f.layout;
    before = hash(&x);
    g_assert_cmphex(hash(&x), ==, before);
    g_assert_true(linux_u64(x.k, x.f.module, l->module_kallsyms, &kallsyms));
    fake_linux_put64(&x.f, x.f.module, l->module_kallsyms, kallsyms + 64);
    g_assert_cmphex(hash(&x), !=, before);
    fake_linux_put64(&x.f, x.f.module, l->module_kallsyms, kallsyms);
    g_assert_cmphex(hash(&x), ==, before);
    /* Another one takes its place, with the same name. */
    fake_linux_area(&x.f, 0, FAKE_MODULE, 2 * GUEST_PAGE_SIZE);
    g_assert_cmphex(hash(&x), !=, before);
    fake_linux_area(&x.f, 0, FAKE_MODULE, GUEST_PAGE_SIZE);
    fake_linux_put32(&x.f, kallsyms, l->mod_count, 2);
    g_assert_cmphex(hash(&x), !=, before);
    /* It is taken out. */
    modules = x.k->modules;
    fake_linux_put64(&x.f, modules, 0, modules);
    fake_linux_put64(&x.f, modules, 8, modules);
    g_assert_cmphex(hash(&x), !=, before);
    require(&x, "");
    end(&x);
}

static void test_damage(void)
{
    const struct linux_layout *l;
    struct fixture x;
    GString *text = g_string_new(NULL);
    uint64_t kallsyms, h = 1;

    begin(&x);
    l = &x.f.layout;
    /* One that is being loaded */
    fake_linux_put32(&x.f, x.f.module, l->module_state, 3);
    require(&x, "");
    fake_linux_put32(&x.f, x.f.module, l->module_state, 0);
    g_assert_true(linux_u64(x.k, x.f.module, l->module_kallsyms, &kallsyms));
    fake_linux_put32(&x.f, kallsyms, l->mod_count, UINT32_MAX);
    require(&x, "");
    fake_linux_put32(&x.f, kallsyms, l->mod_count, 3);
    /* Names that would be lines of their own */
    fake_linux_at(&x.f, x.f.module + l->module_name)[0] = '\n';
    require(&x, "");
    fake_linux_at(&x.f, x.f.module + l->module_name)[0] = 'm';
    /* A list that does not end */
    fake_linux_put64(&x.f, x.f.module, l->module_list,
                     x.f.module + l->module_list);
    fake_linux_put64(&x.f, x.f.module, l->module_list + 8,
                     x.f.module + l->module_list);
    g_assert_false(linux_modules_hash(x.k, &h));
    g_assert_false(linux_modules_symbols(x.k, text));
    g_string_free(text, TRUE);
    end(&x);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/modules/symbols", test_symbols);
    g_test_add_func("/modules/ends", test_ends);
    g_test_add_func("/modules/older", test_older);
    g_test_add_func("/modules/hash", test_hash);
    g_test_add_func("/modules/damage", test_damage);
    return g_test_run();
}
