/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of lib/agent/symbol-list.h: random texts, whose symbols a list without
 * any order has as well
 */

#include <string.h>

#include "lib/agent/symbol-list.h"

#define MOST    40u
#define SPACE   60              /* addresses are close, and often the same */

/* A symbol, in the order of the text */
struct line {
    uint64_t address;
    char *name;
    char *module;
    char type;
};

struct text {
    GString *text;
    struct line lines[MOST];
    unsigned n;
    uint64_t ends[MOST];
    unsigned n_ends;
};

static uint64_t base;

static void add_junk(GString *text)
{
    static const char *const junk[] = {
        "", "\n", "no symbol\n", "10\n", "10 \n", "10 T\n", "10 T \n",
        "10  T name\n", "10 T name module\n", "10 T name [module\n",
        "10 T name []\n", "11111111111111111 T name\n", "g T name\n",
    };

    g_string_append(text, junk[g_test_rand_int_range(
        0, G_N_ELEMENTS(junk))]);
}

/* @lowest: what is below is not in the lists */
static void make_text(struct text *t, uint64_t lowest)
{
    static const char types[] = "tTwWidDbBrRAa";
    unsigned n = g_test_rand_int_range(0, MOST);

    *t = (struct text) { .text = g_string_new(NULL) };
    for (unsigned i = 0; i < n; i++) {
        uint64_t address = base + g_test_rand_int_range(0, SPACE);
        bool end = !g_test_rand_int_range(0, 5);
        struct line l = { .address = address };

        add_junk(t->text);
        if (end) {
            g_string_append_printf(t->text, "%" G_GINT64_MODIFIER
                                   "x e .end\n", address);
            if (address >= lowest) {
                t->ends[t->n_ends++] = address;
            }
            continue;
        }
        l.type = types[g_test_rand_int_range(0, sizeof(types) - 1)];
        l.name = g_strdup_printf("name%u", i);
        l.module = g_test_rand_bit() ? g_strdup_printf("m%u", i) : NULL;
        g_string_append_printf(t->text, "%" G_GINT64_MODIFIER "x %c %s",
                               address, l.type, l.name);
        if (l.module) {
            g_string_append_printf(t->text, "\t[%s]", l.module);
        }
        g_string_append(t->text, "\n");
        if (address >= lowest) {
            t->lines[t->n++] = l;
        } else {
            g_free(l.name);
            g_free(l.module);
        }
    }
    if (t->text->len && g_test_rand_bit()) {
        /* The last line needs no end. */
        g_string_truncate(t->text, t->text->len - 1);
        while (t->text->len && t->text->str[t->text->len - 1] == '\n') {
            g_string_truncate(t->text, t->text->len - 1);
        }
    }
}

static void clear_text(struct text *t)
{
    for (unsigned i = 0; i < t->n; i++) {
        g_free(t->lines[i].name);
        g_free(t->lines[i].module);
    }
    g_string_free(t->text, TRUE);
}

static void check_line(const struct btrail_symbol_entry *e,
                       const struct line *l)
{
    if (!l) {
        g_assert_null(e);
        return;
    }
    g_assert_nonnull(e);
    g_assert_cmphex(e->address, ==, l->address);
    g_assert_cmpstr(e->name, ==, l->name);
    g_assert_cmpstr(e->module, ==, l->module);
    g_assert_cmpint(e->type, ==, l->type);
}

/* By all lines of all texts: the nearest one, the first of its text */
static void check_search(const struct btrail_symbol_list *lists,
                         const struct text *texts, unsigned n, uint64_t at)
{
    struct btrail_symbol_found found = { NULL };
    const struct line *entry = NULL, *next = NULL;

    for (unsigned i = 0; i < n; i++) {
        btrail_symbol_list_search(&lists[i], at, &found);
        for (unsigned k = 0; k < texts[i].n; k++) {
            const struct line *l = &texts[i].lines[k];

            if (l->address <= at && (!entry || l->address > entry->address)) {
                entry = l;
            }
            if (l->address > at && (!next || l->address < next->address)) {
                next = l;
            }
        }
    }
    check_line(found.entry, entry);
    check_line(found.next, next);
}

static void check_end(const struct btrail_symbol_list *list,
                      const struct text *t, uint64_t at, uint64_t end)
{
    uint64_t want = end;

    for (unsigned i = 0; i < t->n_ends; i++) {
        if (t->ends[i] > at) {
            want = MIN(want, t->ends[i]);
        }
    }
    g_assert_cmphex(btrail_symbol_list_end(list, at, end), ==, want);
}

/* All of its symbols, in the order of addresses, and of lines */
static void check_order(const struct btrail_symbol_list *list,
                        const struct text *t)
{
    const struct btrail_symbol_entry *all = (void *)list->entries->data;

    g_assert_cmpuint(list->entries->len, ==, t->n);
    g_assert_cmpuint(list->ends->len, ==, t->n_ends);
    for (unsigned i = 1; i < t->n; i++) {
        g_assert_true(all[i - 1].address < all[i].address ||
                      (all[i - 1].address == all[i].address &&
                       all[i - 1].order < all[i].order));
    }
    g_assert_cmpuint(btrail_symbol_list_memory(list), >=, t->text->len);
}

static void test_random(void)
{
    /* Also at both ends of all addresses */
    static const uint64_t bases[] = {
        0, UINT64_C(0xffffffff81000000), UINT64_MAX - SPACE + 1,
    };
    struct btrail_symbol_list lists[3];
    struct text texts[3];

    for (unsigned round = 0; round < 600; round++) {
        uint64_t lowest;

        base = bases[round % G_N_ELEMENTS(bases)];
        lowest = round % 2 ? base + 10 : 0;
        for (unsigned i = 0; i < 3; i++) {
            make_text(&texts[i], lowest);
            btrail_symbol_list_init(&lists[i], texts[i].text->str,
                                    texts[i].text->len, lowest);
            check_order(&lists[i], &texts[i]);
        }
        for (uint64_t x = 0; x < SPACE; x++) {
            check_search(lists, texts, 1 + round % 3, base + x);
            check_end(&lists[0], &texts[0], base + x,
                      base + g_test_rand_int_range(0, SPACE));
        }
        for (unsigned i = 0; i < 3; i++) {
            btrail_symbol_list_clear(&lists[i]);
            clear_text(&texts[i]);
        }
    }
}

/* It is the text that it was made of, and no other. */
static void test_is(void)
{
    static const char text[] = "10 T a\n20 t b\t[m]\n30 e .end\njunk\n40 T c";
    const size_t size = sizeof(text) - 1;
    struct btrail_symbol_list list;

    btrail_symbol_list_init(&list, text, size, 0);
    g_assert_true(btrail_symbol_list_is(&list, text, size));
    g_assert_false(btrail_symbol_list_is(&list, text, size - 1));
    for (size_t i = 0; i < size; i++) {
        g_autofree char *other = g_strdup(text);

        /* A letter, which ends no name */
        other[i] = other[i] == 'x' ? 'y' : 'x';
        g_assert_false(btrail_symbol_list_is(&list, other, size));
        /* Where a name ends, the list has not kept how. */
        if (g_ascii_isalnum(text[i])) {
            other[i] = '\n';
            g_assert_false(btrail_symbol_list_is(&list, other, size));
        }
    }
    btrail_symbol_list_clear(&list);

    btrail_symbol_list_init(&list, NULL, 0, 0);
    g_assert_true(btrail_symbol_list_is(&list, text, 0));
    g_assert_false(btrail_symbol_list_is(&list, text, 1));
    btrail_symbol_list_clear(&list);
}

/* Names that are too long are no symbols; nor are they cut off. */
static void test_long(void)
{
    for (unsigned i = 0; i < 4; i++) {
        g_autofree char *name = g_strnfill(4096 + (i == 1), 'n');
        g_autofree char *module = g_strnfill(4096 + (i == 2), 'm');
        g_autofree char *text = g_strdup_printf("10 T %s\t[%s]\n20 T b\n",
                                                name, module);
        struct btrail_symbol_list list;
        struct btrail_symbol_found found = { NULL };

        btrail_symbol_list_init(&list, text, strlen(text), 0);
        btrail_symbol_list_search(&list, 0x15, &found);
        if (i == 1 || i == 2) {
            g_assert_null(found.entry);
        } else {
            g_assert_cmpstr(found.entry->name, ==, name);
            g_assert_cmpstr(found.entry->module, ==, module);
        }
        g_assert_cmpstr(found.next->name, ==, "b");
        btrail_symbol_list_clear(&list);
    }
}

static void test_code(void)
{
    for (unsigned i = 0; i < 256; i++) {
        g_assert_cmpint(btrail_symbol_is_code(i), ==,
                        i == 't' || i == 'T' || i == 'w' || i == 'W' ||
                        i == 'i');
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/symbol-list/random", test_random);
    g_test_add_func("/symbol-list/is", test_is);
    g_test_add_func("/symbol-list/long", test_long);
    g_test_add_func("/symbol-list/code", test_code);
    return g_test_run();
}
