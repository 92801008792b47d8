/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Offsets of members from BTF: the test makes some, with every kind of type,
 * and damages it
 */

#include <bpf/btf.h>
#include <glib.h>
#include <string.h>

#include "guest-linux/btf.h"

/*
 * struct outer { int a; struct { int hidden; union { char c; short s; }; };
 *                const size b[3]; struct inner in; int bits:3; };
 */
static struct btf *make(void)
{
    struct btf *b = btf__new_empty();
    int number = btf__add_int(b, "int", 4, 0);
    int character = btf__add_int(b, "char", 1, 0);
    int half = btf__add_int(b, "short", 2, 0);
    int size = btf__add_typedef(b, "size", btf__add_int(b, "long", 8, 0));
    int array = btf__add_array(b, number, btf__add_const(b, size), 3);
    int pointer = btf__add_ptr(b, 0);
    int un, anon, inner;

    /* One of the name that has not the member */
    btf__add_struct(b, "outer", 4);
    btf__add_field(b, "other", number, 0, 0);
    un = btf__add_union(b, "", 2);
    btf__add_field(b, "c", character, 0, 0);
    btf__add_field(b, "s", half, 0, 0);
    anon = btf__add_struct(b, "", 8);
    btf__add_field(b, "hidden", number, 0, 0);
    btf__add_field(b, "", un, 32, 0);
    inner = btf__add_struct(b, "inner", 16);
    btf__add_field(b, "x", pointer, 64, 0);
    btf__add_struct(b, "outer", 64);
    btf__add_field(b, "a", number, 0, 0);
    btf__add_field(b, "", anon, 32, 0);
    btf__add_field(b, "b", array, 128, 0);
    btf__add_field(b, "in", inner, 320, 0);
    btf__add_field(b, "bits", number, 448, 3);
    btf__add_enum(b, "kinds", 4);
    btf__add_enum_value(b, "one", 1);
    btf__add_enum_value(b, "minus", -5);
    return b;
}

static void check(const struct linux_btf *b, const char *path,
                  uint32_t offset, uint32_t size)
{
    uint32_t o, s;

    g_test_message("%s", path);
    g_assert_true(linux_btf_member(b, "outer", path, &o, &s));
    g_assert_cmpuint(o, ==, offset);
    g_assert_cmpuint(s, ==, size);
}

static void test_member(void)
{
    struct btf *btf = make();
    struct linux_btf *b;
    uint32_t o, s;
    __u32 size;
    const void *data = btf__raw_data(btf, &size);
    int32_t v;

    b = linux_btf_new(data, size);
    g_assert_nonnull(b);
    check(b, "a", 0, 4);
    check(b, "hidden", 4, 4);
    check(b, "c", 8, 1);
    check(b, "s", 8, 2);
    check(b, "b", 16, 24);
    check(b, "in", 40, 16);
    check(b, "in.x", 48, 8);
    check(b, "other", 0, 4);
    g_assert_false(linux_btf_member(b, "outer", "bits", &o, &s));
    g_assert_false(linux_btf_member(b, "outer", "in.y", &o, &s));
    g_assert_false(linux_btf_member(b, "outer", "a.x", &o, &s));
    g_assert_false(linux_btf_member(b, "outer", "", &o, &s));
    g_assert_false(linux_btf_member(b, "outer", ".", &o, &s));
    g_assert_false(linux_btf_member(b, "size", "a", &o, &s));
    g_assert_false(linux_btf_member(b, "none", "a", &o, &s));
    g_assert_true(linux_btf_enumerator(b, "kinds", "minus", &v));
    g_assert_cmpint(v, ==, -5);
    g_assert_false(linux_btf_enumerator(b, "kinds", "two", &v));
    g_assert_false(linux_btf_enumerator(b, "outer", "one", &v));
    linux_btf_free(b);
    linux_btf_free(NULL);
    btf__free(btf);
}

static void use(const void *data, size_t size)
{
    void *copy = g_memdup2(data, size);
    struct linux_btf *b = linux_btf_new(copy, size);
    uint32_t o, s;
    int32_t v;

    if (b) {
        linux_btf_member(b, "outer", "in.x", &o, &s);
        linux_btf_member(b, "outer", "nothing", &o, &s);
        linux_btf_member(b, "outer", "b", &o, &s);
        linux_btf_enumerator(b, "kinds", "none", &v);
        linux_btf_free(b);
    }
    g_free(copy);
}

/* BTF of a hostile guest must do no harm. */
static void test_hostile(void)
{
    struct btf *btf = make();
    __u32 size;
    const uint8_t *data = btf__raw_data(btf, &size);
    unsigned i, k;

    for (i = 0; i <= size; i++) {
        use(data, i);
    }
    for (i = 0; i < 200000; i++) {
        uint8_t *copy = g_memdup2(data, size);

        for (k = g_test_rand_int_range(1, 5); k; k--) {
            copy[g_test_rand_int_range(0, (gint32)size)] =
                g_test_rand_bit() ? (uint8_t)g_test_rand_int() :
                (uint8_t)g_test_rand_int_range(0, 32);
        }
        use(copy, size);
        g_free(copy);
    }
    btf__free(btf);
}

/* Types that contain themselves */
static void test_cycle(void)
{
    struct btf *b = btf__new_empty();
    int number = btf__add_int(b, "int", 4, 0);
    struct linux_btf *l;
    uint32_t o, s;
    __u32 size;
    const void *data;
    int i;

    /* 2: typedef to 3, 3: typedef to 2 */
    btf__add_typedef(b, "t", 3);
    btf__add_typedef(b, "u", 2);
    /* 4: an array of itself */
    btf__add_array(b, number, 4, 1000);
    /* 5: a struct that has itself, many times */
    btf__add_struct(b, "outer", 64);
    for (i = 0; i < 50; i++) {
        btf__add_field(b, "", 5, 0, 0);
    }
    btf__add_field(b, "t", 2, 0, 0);
    btf__add_field(b, "array", 4, 0, 0);
    data = btf__raw_data(b, &size);
    l = linux_btf_new(data, size);
    g_assert_nonnull(l);
    g_assert_false(linux_btf_member(l, "outer", "x", &o, &s));
    g_assert_false(linux_btf_member(l, "outer", "t.x", &o, &s));
    linux_btf_member(l, "outer", "array", &o, &s);
    linux_btf_free(l);
    btf__free(b);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/btf/member", test_member);
    g_test_add_func("/btf/hostile", test_hostile);
    g_test_add_func("/btf/cycle", test_cycle);
    return g_test_run();
}
