/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The layout of the kernel's structs from BTF, complete and with parts missing
 */

#include <bpf/btf.h>
#include <glib.h>
#include <string.h>

#include "guest-linux/layout.h"

static const struct {
    const char *type;
    const char *path;
    uint32_t sizes;
    const char *lost;
    size_t at;
    size_t size_at;
} members[] = {
#define X(name, type, path, sizes, lost)                                \
    { type, path, sizes, lost, offsetof(struct linux_layout, name),     \
      offsetof(struct linux_layout, size.name) },
    LINUX_LAYOUT(X)
#undef X
};

/* Sizes that a member can have */
static uint32_t least(uint32_t sizes)
{
    return sizes & -sizes;
}

static uint32_t most(uint32_t sizes)
{
    return sizes ? 1u << (31 - __builtin_clz(sizes)) : 0;
}

/* Is the member a part of the test's kernel, and how large? */
typedef bool has_member(unsigned i, uint32_t *size, const void *opaque);

/* Each member in a struct of its own: there may be several of a name. */
static struct linux_btf *make(has_member *has, const void *opaque)
{
    struct btf *btf = btf__new_empty();
    int character = btf__add_int(btf, "char", 1, 0);
    int number = btf__add_int(btf, "int", 4, 0);
    int pointer = btf__add_ptr(btf, 0);
    int list = btf__add_struct(btf, "list_head", 16);
    struct linux_btf *b;
    const void *data;
    __u32 size;
    unsigned i;

    btf__add_field(btf, "next", pointer, 0, 0);
    btf__add_field(btf, "prev", pointer, 64, 0);
    for (i = 0; i < G_N_ELEMENTS(members); i++) {
        uint32_t n = most(members[i].sizes);
        const char *dot = strchr(members[i].path, '.');
        g_autofree char *name = g_strndup(members[i].path, dot ? (gsize)(
            dot - members[i].path) : strlen(members[i].path));
        int type;

        if (!has(i, &n, opaque)) {
            continue;
        }
        type = n == 4 ? number : n == 8 ? pointer : n == 16 ? list :
               btf__add_array(btf, number, character, n ? n : 128);
        if (dot) {
            int inner = btf__add_struct(btf, "", 64);

            btf__add_field(btf, dot + 1, type, 8, 0);
            type = inner;
        }
        btf__add_struct(btf, members[i].type, 4096);
        g_assert_cmpint(btf__add_field(btf, name, type, 64 * i, 0), ==, 0);
    }
    btf__add_enum(btf, "maple_type", 4);
    btf__add_enum_value(btf, "maple_leaf_64", 4);
    btf__add_enum_value(btf, "maple_range_64", 5);
    btf__add_enum_value(btf, "maple_arange_64", 6);
    btf__add_enum(btf, "pageflags", 4);
    btf__add_enum_value(btf, "PG_uptodate", 7);
    btf__add_enum(btf, "module_state", 4);
    btf__add_enum_value(btf, "MODULE_STATE_UNFORMED", 3);
    btf__add_enum(btf, "mod_mem_type", 4);
    btf__add_enum_value(btf, "MOD_TEXT", 1);
    btf__add_enum_value(btf, "MOD_INIT_TEXT", 2);
    btf__add_enum_value(btf, "MOD_MEM_NUM_TYPES", 4);
    data = btf__raw_data(btf, &size);
    b = linux_btf_new(data, size);
    g_assert_nonnull(b);
    btf__free(btf);
    return b;
}

static uint32_t offset(const struct linux_layout *l, unsigned i)
{
    return *(const uint32_t *)((const char *)l + members[i].at);
}

static GPtrArray *texts_new(void)
{
    return g_ptr_array_new_with_free_func(g_free);
}

static bool has_all(unsigned i, uint32_t *size, const void *opaque)
{
    const bool *small = opaque;

    if (*small) {
        *size = least(members[i].sizes);
    }
    return true;
}

/* Every size that members can have is read as it is. */
static void test_all(void)
{
    for (unsigned small = 0; small < 2; small++) {
        const bool is_small = small;
        struct linux_btf *b = make(has_all, &is_small);
        g_autoptr(GPtrArray) missing = texts_new();
        struct linux_layout l;
        unsigned i;

        g_assert_true(linux_layout_read(&l, b, missing));
        g_assert_cmpuint(missing->len, ==, 0);
        for (i = 0; i < G_N_ELEMENTS(members); i++) {
            uint32_t sizes = members[i].sizes;

            g_assert_cmpuint(offset(&l, i), ==,
                             8 * i + (strchr(members[i].path, '.') ? 1 : 0));
            if (sizes) {
                g_assert_cmpuint(((uint8_t *)&l)[members[i].size_at], ==,
                                 small ? least(sizes) : most(sizes));
            }
        }
        g_assert_cmpuint(l.size.task_on_cpu, ==, small ? 1 : 4);
        g_assert_cmpuint(l.range_slots, ==, 16);
        g_assert_cmpuint(l.arange_slots, ==, 16);
        g_assert_cmpuint(l.node_slots_n, ==, 16);
        g_assert_cmpuint(l.module_name_size, ==, 128);
        g_assert_cmpint(l.maple_leaf, ==, 4);
        g_assert_cmpint(l.maple_range, ==, 5);
        g_assert_cmpint(l.maple_arange, ==, 6);
        g_assert_cmpint(l.module_unformed, ==, 3);
        g_assert_cmpint(l.page_uptodate, ==, 7);
        g_assert_cmpuint(l.module_mem_each, ==, 32);
        g_assert_cmpint(l.module_mem_text, ==, 1);
        g_assert_cmpint(l.module_mem_init_text, ==, 2);
        g_assert_cmpuint(l.bpf_name_size, ==, 128);
        linux_btf_free(b);
    }
}

struct without {
    unsigned member;
    uint32_t size;              /* that it has instead, or 0 */
};

static bool has_others(unsigned i, uint32_t *size, const void *opaque)
{
    const struct without *w = opaque;

    if (i == w->member) {
        *size = w->size;
        return w->size != 0;
    }
    return true;
}

/*
 * A member that is missing, or of another size, is named, with what is lost;
 * without a needed one, nothing is known.
 */
static void test_missing(void)
{
    static const uint32_t sizes[] = { 0, 2, 3, 5 };

    for (unsigned i = 0; i < G_N_ELEMENTS(members); i++) {
        for (unsigned s = 0; s < G_N_ELEMENTS(sizes); s++) {
            const struct without w = { i, sizes[s] };
            const char *lost = members[i].lost;
            g_autofree char *name = g_strdup_printf("%s.%s", members[i].type,
                                                    members[i].path);
            g_autofree char *is = w.size ?
                g_strdup_printf("%s is %u bytes, not ", name, w.size) :
                g_strdup_printf("%s is missing: ", name);
            g_autoptr(GPtrArray) missing = texts_new();
            struct linux_layout l;
            struct linux_btf *b;
            bool found;

            if (w.size && !members[i].sizes) {
                continue;
            }
            b = make(has_others, &w);
            found = linux_layout_read(&l, b, missing);
            linux_btf_free(b);
            g_test_message("%s", is);
            g_assert_cmphex(offset(&l, i), ==, LINUX_NONE);
            g_assert_true(found == !!lost);
            if (lost && !*lost) {
                g_assert_cmpuint(missing->len, ==, 0);
                continue;
            }
            g_assert_cmpuint(missing->len, ==, 1);
            g_assert_true(g_str_has_prefix(missing->pdata[0], is));
            g_assert_true(g_str_has_suffix(missing->pdata[0], lost ? lost :
                                           ": tasks are unknown"));
        }
    }
}

static void test_text(void)
{
    struct without w = { 0, 2 };
    g_autoptr(GPtrArray) missing = texts_new();
    struct linux_layout l;
    struct linux_btf *b;

    while (strcmp(members[w.member].path, "on_cpu")) {
        w.member++;
    }
    b = make(has_others, &w);
    g_assert_true(linux_layout_read(&l, b, missing));
    g_assert_cmpstr(missing->pdata[0], ==, "task_struct.on_cpu is 2 bytes, "
                    "not 1 or 4: threads have no vCPU");
    linux_btf_free(b);
}

static bool has_not_these(unsigned i, uint32_t *size, const void *opaque)
{
    const char *const *paths = opaque;
    g_autofree char *name = g_strdup_printf("%s.%s", members[i].type,
                                            members[i].path);

    while (*paths && strcmp(*paths, name)) {
        paths++;
    }
    return !*paths;
}

/* Of members that take each other's place, one must be there. */
static void test_others(void)
{
    static const struct {
        const char *without[12];
        const char *want;       /* "" if nothing is lost */
        bool found;
    } cases[] = {
        { { "task_struct.start_boottime", "task_struct.real_start_time" },
          "task_struct.start_boottime is missing: tasks are unknown", false },
        { { "mm_struct.mm_mt.ma_root", "mm_struct.mmap" },
          "mm_struct.mm_mt is missing: tasks are unknown", false },
        { { "mm_struct.mm_mt.ma_root", "vm_area_struct.vm_next" },
          "mm_struct.mm_mt is missing: tasks are unknown", false },
        { { "task_struct.cpu", "task_struct.thread_info.cpu" },
          "task_struct.thread_info.cpu is missing: threads have no vCPU",
          true },
        { { "page.index", "folio.index" },
          "folio.index is missing: build-ids and functions of files are "
          "unknown", true },
        /* A kernel without maple trees, names of mappings, modules */
        { { "mm_struct.mm_mt.ma_root", "maple_range_64.pivot" }, "", true },
        { { "vm_area_struct.anon_name", "anon_vma_name.name" }, "", true },
        { { "module.list", "module.state", "module.name", "module.kallsyms",
            "mod_kallsyms.symtab" }, "", true },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GPtrArray) missing = texts_new();
        struct linux_btf *b = make(has_not_these, cases[i].without);
        struct linux_layout l;

        g_assert_true(linux_layout_read(&l, b, missing) == cases[i].found);
        linux_btf_free(b);
        if (*cases[i].want) {
            g_assert_cmpuint(missing->len, ==, 1);
            g_assert_cmpstr(missing->pdata[0], ==, cases[i].want);
        } else {
            g_assert_cmpuint(missing->len, ==, 0);
        }
        if (!cases[i].found) {
            g_assert_cmphex(l.task_tasks, ==, LINUX_NONE);
        }
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/layout/all", test_all);
    g_test_add_func("/layout/missing", test_missing);
    g_test_add_func("/layout/text", test_text);
    g_test_add_func("/layout/others", test_others);
    return g_test_run();
}
