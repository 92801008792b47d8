/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's symbols, from tables in the form of each kernel version
 */

#include <glib.h>
#include <string.h>

#include "fake-linux.h"

struct fixture {
    struct fake_linux f;
    struct guest_memory *m;
    struct page_walk w;
    struct vmcoreinfo v;
};

static void begin(struct fixture *x, unsigned flags)
{
    fake_linux_init(&x->f, flags);
    x->m = guest_memory_new();
    g_assert_true(guest_memory_add_bytes(x->m, 0, FAKE_SIZE, x->f.memory));
    page_walk_init(&x->w, x->m, 0, !(flags & FAKE_32) ? 4 :
                   flags & FAKE_PAE ? 3 : 2, 1 << 20);
    strcpy(x->v.text, (char *)x->f.memory + FAKE_NOTE * GUEST_PAGE_SIZE);
}

static void end(struct fixture *x)
{
    guest_memory_free(x->m);
    fake_linux_clear(&x->f);
}

static void check(struct fixture *x)
{
    struct kallsyms *k = kallsyms_read(&x->w, &x->v);
    const char *name;
    uint64_t address;
    char type;
    uint32_t i;

    g_assert_nonnull(k);
    g_assert_cmpuint(kallsyms_count(k), ==, FAKE_SYMBOLS);
    for (i = FAKE_NAMED; i < FAKE_SYMBOLS; i++) {
        g_autofree char *want = g_strdup_printf("s%u", i);

        kallsyms_get(k, i, &address, &type, &name);
        g_assert_cmpstr(name, ==, want);
        g_assert_cmphex(address, ==, x->f.stext + 16 * i);
        g_assert_cmpint(type, ==, 'T');
    }
    g_assert_true(kallsyms_find(k, "_stext", &address));
    g_assert_cmphex(address, ==, x->f.stext);
    g_assert_false(kallsyms_find(k, "stext", &address));
    kallsyms_free(k);
}

/* Each form that the tables have had */
static const unsigned forms[] = {
    0,
    FAKE_UNSIGNED,
    FAKE_SEQS,
    FAKE_SEQS | FAKE_UNSIGNED,
    FAKE_AFTER,
    FAKE_AFTER | FAKE_UNSIGNED,
    FAKE_AFTER | FAKE_PLACE,
    FAKE_AFTER | FAKE_PLACE | FAKE_ALIGN_4,
    FAKE_32,
    FAKE_32 | FAKE_UNSIGNED,
    FAKE_32 | FAKE_PAE | FAKE_AFTER | FAKE_UNSIGNED,
    FAKE_32 | FAKE_PAE | FAKE_AFTER | FAKE_PLACE,
};

static void test_note(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(forms); i++) {
        struct fixture x;

        begin(&x, forms[i]);
        g_test_message("form %#x", forms[i]);
        check(&x);
        end(&x);
    }
}

static void test_search(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(forms); i++) {
        struct fixture x;

        g_test_message("form %#x", forms[i]);
        begin(&x, forms[i] | FAKE_SEARCH);
        check(&x);
        end(&x);

        /* The addresses of the note are wrong. */
        begin(&x, forms[i]);
        strstr(x.v.text, "kallsyms_names)=")[forms[i] & FAKE_32 ? 16 : 24] =
            '9';
        check(&x);
        end(&x);
    }
}

/* The tables of the last form are where no 64-bit word is. */
static void test_alignment(void)
{
    static const char *const tables[] = {
        "kallsyms_names", "kallsyms_token_table", "kallsyms_token_index",
        "kallsyms_offsets",
    };
    struct fixture x;
    unsigned odd = 0;

    begin(&x, FAKE_AFTER | FAKE_PLACE | FAKE_ALIGN_4);
    for (unsigned i = 0; i < G_N_ELEMENTS(tables); i++) {
        uint64_t at;

        g_assert_true(vmcoreinfo_symbol(&x.v, tables[i], &at));
        g_assert_cmphex(at % 4, ==, 0);
        odd += at % 8 != 0;
    }
    g_assert_cmpuint(odd, >=, 2);
    end(&x);
}

/* Names of which the length takes two bytes */
static void test_long(void)
{
    g_autofree char *want = g_strnfill(199, 'x');
    struct fixture x;
    struct kallsyms *k;
    uint64_t names, number, address;
    uint8_t *p;

    begin(&x, 0);
    g_assert_true(vmcoreinfo_symbol(&x.v, "kallsyms_names", &names));
    g_assert_true(vmcoreinfo_symbol(&x.v, "kallsyms_num_syms", &number));
    fake_linux_put32(&x.f, number, 0, 2);
    p = fake_linux_at(&x.f, names);
    p += 1 + p[0];
    p[0] = 200 % 128 | 128;
    p[1] = 200 / 128;
    memset(p + 2, 'x', 200);
    k = kallsyms_read(&x.w, &x.v);
    g_assert_nonnull(k);
    g_assert_true(kallsyms_find(k, want, &address));
    kallsyms_free(k);
    end(&x);
}

static void fails(struct fixture *x)
{
    g_assert_null(kallsyms_read(&x->w, &x->v));
    end(x);
}

static void test_damage(void)
{
    struct fixture x;
    uint64_t at;
    char *stext;

    /* All agree with _stext, or they are others'. */
    for (unsigned i = 0; i < 2 * G_N_ELEMENTS(forms); i++) {
        begin(&x, forms[i / 2] | (i % 2 ? FAKE_SEARCH : 0));
        stext = strstr(x.v.text, "000000\n");
        memcpy(stext, "001000", 6);
        fails(&x);
    }
    begin(&x, 0);
    memcpy(strstr(x.v.text, "81000000"), "81000001", 8);
    fails(&x);
    /* A token without an end, in all of them */
    begin(&x, 0);
    g_assert_true(vmcoreinfo_symbol(&x.v, "kallsyms_token_table", &at));
    memset(fake_linux_at(&x.f, at), 'x', 600);
    fails(&x);
    begin(&x, 0);
    g_assert_true(vmcoreinfo_symbol(&x.v, "kallsyms_token_index", &at));
    fake_linux_put32(&x.f, at, 8, UINT32_MAX);
    fails(&x);
    begin(&x, 0);
    g_assert_true(vmcoreinfo_symbol(&x.v, "kallsyms_num_syms", &at));
    fake_linux_put32(&x.f, at, 0, UINT32_MAX);
    fails(&x);
    begin(&x, 0);
    g_assert_true(vmcoreinfo_symbol(&x.v, "kallsyms_names", &at));
    *fake_linux_at(&x.f, at) = 0;
    fails(&x);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/kallsyms/note", test_note);
    g_test_add_func("/kallsyms/search", test_search);
    g_test_add_func("/kallsyms/alignment", test_alignment);
    g_test_add_func("/kallsyms/long", test_long);
    g_test_add_func("/kallsyms/damage", test_damage);
    return g_test_run();
}
