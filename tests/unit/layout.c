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
    uint32_t size;
    bool needed;
    size_t at;
} members[] = {
#define X(name, type, path, size, needed) \
    { type, path, size, needed, offsetof(struct linux_layout, name) },
    LINUX_LAYOUT(X)
#undef X
};

/* Each member in a struct of its own: there may be several of a name. */
static struct linux_btf *make(unsigned without, bool wrong_size)
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
        uint32_t n = members[i].size;
        const char *dot = strchr(members[i].path, '.');
        int type = n == 4 ? number : n == 8 ? pointer : n == 16 ? list :
                   btf__add_array(btf, number, character, 128);
        g_autofree char *name = g_strndup(members[i].path, dot ? (gsize)(
            dot - members[i].path) : strlen(members[i].path));

        if (i == without && !wrong_size) {
            continue;
        }
        if (i == without) {
            type = character;
        }
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

static void test_all(void)
{
    struct linux_btf *b = make(UINT_MAX, false);
    struct linux_layout l;
    const char *what;
    unsigned i;

    g_assert_true(linux_layout_read(&l, b, &what));
    for (i = 0; i < G_N_ELEMENTS(members); i++) {
        g_assert_cmpuint(offset(&l, i), ==,
                         8 * i + (strchr(members[i].path, '.') ? 1 : 0));
    }
    g_assert_cmpuint(l.range_slots, ==, 16);
    g_assert_cmpuint(l.arange_slots, ==, 16);
    g_assert_cmpuint(l.node_slots_n, ==, 16);
    g_assert_cmpuint(l.module_name_size, ==, 128);
    g_assert_cmpint(l.maple_leaf, ==, 4);
    g_assert_cmpint(l.maple_range, ==, 5);
    g_assert_cmpint(l.maple_arange, ==, 6);
    g_assert_cmpint(l.module_unformed, ==, 3);
    g_assert_cmpint(l.page_uptodate, ==, 7);
    linux_btf_free(b);
}

/* Without a needed member there is no layout, and the error names it. */
static void test_missing(void)
{
    unsigned i, wrong;

    for (i = 0; i < G_N_ELEMENTS(members); i++) {
        for (wrong = 0; wrong < 2; wrong++) {
            struct linux_btf *b = make(i, wrong);
            struct linux_layout l;
            const char *what = NULL;
            bool found = linux_layout_read(&l, b, &what);

            g_test_message("%s.%s", members[i].type, members[i].path);
            if (members[i].size || !wrong) {
                g_assert_true(found == !members[i].needed);
                if (found) {
                    g_assert_cmphex(offset(&l, i), ==, LINUX_NONE);
                } else {
                    g_assert_nonnull(strstr(what, members[i].path));
                }
            }
            linux_btf_free(b);
        }
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/layout/all", test_all);
    g_test_add_func("/layout/missing", test_missing);
    return g_test_run();
}
