/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finding a kernel in a fake guest's memory, and whatever it can lack
 */

#include <glib.h>
#include <stdio.h>
#include <string.h>

#include "fake-linux.h"

static struct guest_memory *memory_of(const struct fake_linux *f)
{
    struct guest_memory *m = guest_memory_new();

    g_assert_true(guest_memory_add_bytes(m, 0, FAKE_SIZE, f->memory));
    return m;
}

static void test_find(void)
{
    static const unsigned flags[] = { 0, FAKE_SEARCH, FAKE_LIST,
                                      FAKE_LIST | FAKE_SEARCH | FAKE_PTI };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(flags); i++) {
        struct fake_linux f;
        struct guest_memory *m;
        struct linux_kernel *k;

        fake_linux_init(&f, flags[i]);
        m = memory_of(&f);
        k = fake_linux_find(m);
        g_assert_nonnull(k);
        g_assert_cmpstr(k->release, ==, "6.0-fake");
        g_assert_true(k->tasks);
        g_assert_cmpuint(k->missing->len, ==, 0);
        g_assert_cmphex(k->root, ==, 0);
        g_assert_cmpuint(kallsyms_count(k->symbols), ==, FAKE_SYMBOLS);
        if (!(flags[i] & FAKE_LIST)) {
            g_assert_cmpmem(&k->layout, sizeof(k->layout), &f.layout,
                            sizeof(k->layout));
        }
        g_assert_true((k->layout.mm_mt_root == LINUX_NONE) ==
                      !!(flags[i] & FAKE_LIST));
        linux_kernel_free(k);
        guest_memory_free(m);
        fake_linux_clear(&f);
    }
}

/* With each kind of damage the error says what is missing. */
static void test_missing(void)
{
    static const struct {
        const char *text;
        const char *why;
    } cases[] = {
        { "OSRELEASE=", "no Linux kernel" },
        { "SYMBOL(_stext)", "_stext" },
        { "NUMBER(phys_base)", "phys_base" },
        { "SYMBOL(init_top_pgt)", "init_top_pgt" },
        { "Linux version 6.0", "linux_banner" },
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct fake_linux f;
        struct guest_memory *m;
        char *at;
        char *why;

        fake_linux_init(&f, 0);
        at = memmem(f.memory, FAKE_SIZE, cases[i].text,
                    strlen(cases[i].text));
        g_assert_nonnull(at);
        *at = 'x';
        m = memory_of(&f);
        g_assert_null(linux_kernel_find(m, 0, 0, 0, &why));
        g_assert_nonnull(strstr(why, cases[i].why));
        g_free(why);
        guest_memory_free(m);
        fake_linux_clear(&f);
    }
}

/* Of a kernel without BTF, or with another one, only its symbols are known. */
static void test_only_symbols(void)
{
    static const struct {
        const char *text;
        const char *missing;
    } cases[] = {
        { "__start_BTF", "BTF is missing (the kernel needs "
          "CONFIG_KALLSYMS_ALL and CONFIG_DEBUG_INFO_BTF): tasks and modules "
          "are unknown" },
        { "task_struct", "task_struct.tasks is missing: tasks are unknown" },
        { "\x9f\xeb\x01", "BTF cannot be read: tasks and modules are unknown" },
        { "Tinit_task", "init_task is missing: tasks are unknown" },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct fake_linux f;
        struct guest_memory *m;
        struct linux_kernel *k;
        char *at;

        fake_linux_init(&f, 0);
        at = memmem(f.memory, FAKE_SIZE, cases[i].text,
                    strlen(cases[i].text));
        g_assert_nonnull(at);
        at[1] = 'x';
        m = memory_of(&f);
        k = fake_linux_find(m);
        g_assert_nonnull(k);
        g_assert_false(k->tasks);
        g_assert_cmpuint(k->missing->len, ==, 1);
        g_assert_cmpstr(k->missing->pdata[0], ==, cases[i].missing);
        g_assert_cmpuint(kallsyms_count(k->symbols), ==, FAKE_SYMBOLS);
        /* It is noticed when it is not there any more. */
        g_assert_true(linux_kernel_remains(k));
        at = memmem(f.memory, FAKE_SIZE, "Linux version", 13);
        *at = 'x';
        g_assert_false(linux_kernel_remains(k));
        fake_linux_end(&f, m, k);
    }
}

/*
 * A kernel without symbols of data: its release is where VMCOREINFO says, and
 * more than functions is not known.
 */
static void test_no_data_symbols(void)
{
    static const char *const data[] = {
        "Tlinux_banner", "Tinit_task", "Tsys_call_table", "T__start_BTF",
    };

    for (unsigned i = 0; i < 3; i++) {
        struct guest_memory *m;
        struct fake_linux f;
        struct linux_kernel *k;
        char *note, *why;

        fake_linux_init(&f, 0);
        for (unsigned s = 0; s < G_N_ELEMENTS(data); s++) {
            char *at = memmem(f.memory, FAKE_SIZE, data[s], strlen(data[s]));

            at[1] = 'x';
        }
        note = (char *)f.memory + FAKE_NOTE * GUEST_PAGE_SIZE;
        sprintf(note + strlen(note), "SYMBOL(init_uts_ns)=%" G_GINT64_MODIFIER
                "x\n%s", f.next,
                i == 1 ? "" : "OFFSET(uts_namespace.name)=4\n");
        strcpy((char *)fake_linux_at(&f, f.next + 4 + 130),
               i == 2 ? "6.0-fakes" : "6.0-fake");
        m = memory_of(&f);
        k = linux_kernel_find(m, 0, 0, 0, &why);
        if (i) {
            g_assert_null(k);
            g_assert_nonnull(strstr(why, "linux_banner"));
            g_free(why);
        } else {
            g_assert_nonnull(k);
            g_assert_false(k->tasks);
            g_assert_cmpuint(k->missing->len, ==, 2);
            g_assert_nonnull(strstr(k->missing->pdata[0], "sys_call_table"));
            g_assert_nonnull(strstr(k->missing->pdata[1],
                                    "CONFIG_KALLSYMS_ALL"));
            g_assert_true(linux_kernel_remains(k));
            fake_linux_at(&f, f.next + 4 + 130)[0] = 'x';
            g_assert_false(linux_kernel_remains(k));
            linux_kernel_free(k);
        }
        guest_memory_free(m);
        fake_linux_clear(&f);
    }
}

/* A kernel of 32 bits, which has no tasks here, but functions */
static void test_32(void)
{
    static const unsigned flags[] = {
        FAKE_32, FAKE_32 | FAKE_SEARCH, FAKE_32 | FAKE_PAE,
        FAKE_32 | FAKE_PAE | FAKE_SEARCH,
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(flags); i++) {
        struct guest_memory *m;
        struct fake_linux f;
        struct linux_kernel *k = fake_linux_begin(&f, flags[i], &m);
        uint64_t address;
        char *why;

        g_assert_cmphex(k->root, ==, 0);
        g_assert_cmpuint(k->walk.levels, ==, flags[i] & FAKE_PAE ? 3 : 2);
        g_assert_false(k->tasks);
        g_assert_cmpuint(k->missing->len, ==, 1);
        g_assert_nonnull(strstr(k->missing->pdata[0],
                                "CONFIG_DEBUG_INFO_BTF"));
        g_assert_true(kallsyms_find(k->symbols, "s299", &address));
        g_assert_cmphex(address, ==, FAKE_STEXT_32 + 16 * 299);
        g_assert_true(linux_kernel_remains(k));
        linux_kernel_free(k);

        /* What it needs */
        *strstr((char *)f.memory + FAKE_NOTE * GUEST_PAGE_SIZE,
                "swapper_pg_dir") = 'x';
        g_assert_null(linux_kernel_find(m, 0, 0, 0, &why));
        g_assert_nonnull(strstr(why, "SYMBOL(swapper_pg_dir)"));
        g_free(why);
        guest_memory_free(m);
        fake_linux_clear(&f);
    }
}

/* A page that only begins like VMCOREINFO does not hide the right one. */
static void test_decoy(void)
{
    struct fake_linux f;
    struct guest_memory *m;
    struct linux_kernel *k;
    uint8_t *decoys = g_malloc0(10 * GUEST_PAGE_SIZE);
    uint8_t *note;
    unsigned i;

    fake_linux_init(&f, 0);
    note = memmem(f.memory, FAKE_SIZE, "OSRELEASE=", 10);
    for (i = 0; i < 10; i++) {
        memcpy(decoys + i * GUEST_PAGE_SIZE, note,
               i < 5 ? 30 + i : GUEST_PAGE_SIZE);
        if (i >= 5) {
            /* Another _stext */
            char *at = strstr((char *)decoys + i * GUEST_PAGE_SIZE,
                              "81000000");
            at[2] = '4';
        }
    }
    m = guest_memory_new();
    /* The decoys come first. */
    g_assert_true(guest_memory_add_bytes(m, 0, FAKE_SIZE, f.memory));
    g_assert_true(guest_memory_add_bytes(m, 1 << 20, 10 * GUEST_PAGE_SIZE,
                                         decoys));
    memset(note, 0, 10);
    g_assert_null(fake_linux_find(m));
    memcpy(note, "OSRELEASE=", 10);
    memcpy(f.memory + (FAKE_PAGES - 1) * GUEST_PAGE_SIZE, decoys,
           GUEST_PAGE_SIZE);
    k = fake_linux_find(m);
    g_assert_nonnull(k);
    linux_kernel_free(k);
    guest_memory_free(m);
    g_free(decoys);
    fake_linux_clear(&f);
}

/*
 * A kernel that boots is found by its image alone.  What it has not got yet is
 * read later.
 */
static void test_booting(void)
{
    static const unsigned flags[] = {
        0, FAKE_SEQS, FAKE_AFTER, FAKE_AFTER | FAKE_UNSIGNED,
        FAKE_AFTER | FAKE_PLACE,
        FAKE_AFTER | FAKE_PLACE | FAKE_ALIGN_4,
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(flags); i++) {
        struct fake_linux f;
        struct guest_memory *m;
        struct linux_kernel *k, *other;

        fake_linux_init(&f, flags[i]);
        fake_linux_boots(&f, true);
        m = memory_of(&f);
        g_assert_null(fake_linux_find(m));
        g_assert_null(linux_kernel_find_booting(m, 0x800000));
        k = linux_kernel_find_booting(m, FAKE_ROOT);
        g_assert_nonnull(k);
        g_assert_cmpstr(k->release, ==, "6.0-fake");
        g_assert_true(k->booting && k->tasks);
        g_assert_cmphex(k->root, ==, 0);
        g_assert_cmphex(k->stext, ==, FAKE_STEXT);
        g_assert_cmpuint(kallsyms_count(k->symbols), ==, FAKE_SYMBOLS);
        g_assert_cmpuint(k->missing->len, ==, 0);
        g_assert_cmphex(k->vmemmap, ==, 0);
        g_assert_true(linux_kernel_remains(k));
        g_assert_true(linux_kernel_runs(k, FAKE_ROOT));
        g_assert_false(linux_kernel_complete(k));
        fake_linux_boots(&f, false);
        g_assert_true(linux_kernel_complete(k));
        g_assert_true(linux_kernel_complete(k));
        g_assert_false(k->booting);
        other = fake_linux_find(m);
        g_assert_nonnull(other);
        g_assert_cmphex(k->vmemmap, ==, other->vmemmap);
        g_assert_cmpuint(k->page_size, ==, other->page_size);
        g_assert_cmphex(k->root, ==, other->root);
        g_assert_cmphex(k->banner, ==, other->banner);
        g_assert_cmphex(k->utsname, ==, other->utsname);
        g_assert_cmpuint(k->missing->len, ==, 0);
        linux_kernel_free(other);
        fake_linux_end(&f, m, k);
    }
}

/* What a kernel that boots needs, so that it is no other one */
static void test_no_booting(void)
{
    static const char *const needed[] = {
        "Tlinux_banner", "Tinit_top_pgt", "Tvmcoreinfo_data", "Tinit_task",
        "T_stext", "T__start_BTF", "Linux version", "BT_fake",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(needed); i++) {
        struct fake_linux f;
        struct guest_memory *m;
        struct linux_kernel *k;
        uint8_t *at;

        fake_linux_init(&f, 0);
        fake_linux_boots(&f, true);
        m = memory_of(&f);
        at = memmem(f.memory, FAKE_SIZE, needed[i], strlen(needed[i]));
        if (at) {
            at[1] ^= 0x20;
        } else {
            /* Its own page tables, entry 511, do not map it yet. */
            memset(f.memory + 511 * 8, 0, 8);
        }
        k = linux_kernel_find_booting(m, FAKE_ROOT);
        g_assert_null(k);
        guest_memory_free(m);
        fake_linux_clear(&f);
    }
}

/* A VMCOREINFO that is not whole, or is another kernel's, is none. */
static void test_incomplete(void)
{
    static const char *const texts[] = {
        "NUMBER(phys_base)", "SYMBOL(init_top_pgt)", "OSRELEASE=6",
        "SYMBOL(_stext)=f", "NUMBER(phys_base)=-",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++) {
        struct fake_linux f;
        struct guest_memory *m;
        struct linux_kernel *k;
        uint8_t *at;

        fake_linux_init(&f, 0);
        fake_linux_boots(&f, true);
        m = memory_of(&f);
        k = linux_kernel_find_booting(m, FAKE_ROOT);
        g_assert_nonnull(k);
        fake_linux_boots(&f, false);
        at = memmem(f.memory, FAKE_SIZE, texts[i], strlen(texts[i]));
        g_assert_nonnull(at);
        at += strlen(texts[i]) - 1;
        *at = *at == '-' ? '1' : *at + 1;
        g_assert_false(linux_kernel_complete(k));
        g_assert_true(k->booting && linux_kernel_remains(k));
        g_assert_cmphex(k->root, ==, 0);
        fake_linux_end(&f, m, k);
    }
}

static void test_window(void)
{
    struct fake_linux f;
    struct guest_memory *m;
    struct linux_kernel *k;
    uint64_t v;
    uint32_t u;
    char name[8];

    fake_linux_init(&f, 0);
    m = memory_of(&f);
    k = fake_linux_find(m);
    linux_kernel_begin(k);
    fake_linux_put64(&f, f.next, 0, 1);
    linux_window(k, f.next, 16);
    fake_linux_put64(&f, f.next, 0, 2);
    g_assert_true(linux_u64(k, f.next, 0, &v));
    g_assert_cmpuint(v, ==, 1);
    g_assert_true(linux_u32(k, f.next, 12, &u));
    g_assert_true(linux_u64(k, f.next, 12, &v));
    linux_window(k, 0, 0);
    g_assert_true(linux_u64(k, f.next, 0, &v));
    g_assert_cmpuint(v, ==, 2);
    linux_window(k, 0x1000, 16);
    g_assert_true(linux_u64(k, f.next, 0, &v));
    g_assert_false(linux_u64(k, f.next, LINUX_NONE, &v));
    g_assert_false(linux_u32(k, f.next, LINUX_NONE, &u));

    strcpy((char *)fake_linux_at(&f, f.next), "comm");
    g_assert_true(linux_string(k, f.next, name, sizeof(name)));
    g_assert_cmpstr(name, ==, "comm");
    g_assert_true(linux_string(k, f.next, name, 3));
    g_assert_cmpstr(name, ==, "co");
    g_assert_false(linux_string(k, 0x1000, name, 3));
    g_assert_false(linux_pointer(0));
    g_assert_false(linux_pointer(f.next + 1));
    g_assert_false(linux_pointer(UINT64_MAX - 7));
    g_assert_true(linux_pointer(f.next));
    linux_kernel_free(k);
    guest_memory_free(m);
    fake_linux_clear(&f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/kernel/find", test_find);
    g_test_add_func("/kernel/missing", test_missing);
    g_test_add_func("/kernel/only-symbols", test_only_symbols);
    g_test_add_func("/kernel/no-data-symbols", test_no_data_symbols);
    g_test_add_func("/kernel/32", test_32);
    g_test_add_func("/kernel/decoy", test_decoy);
    g_test_add_func("/kernel/window", test_window);
    g_test_add_func("/kernel/booting", test_booting);
    g_test_add_func("/kernel/no-booting", test_no_booting);
    g_test_add_func("/kernel/incomplete", test_incomplete);
    return g_test_run();
}
