/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Marks in the code that is executed: in which address space and at which time,
 * on two pages, in any order, and more of them than are remembered
 */

#include <glib.h>
#include <string.h>

#include "drain/marked-code.h"
#include "mark-samples.h"

#define SPACE   UINT64_C(0x5000)
#define OTHER   UINT64_C(0x9000)
#define BASE    UINT64_C(0x400000)
#define KERNEL  UINT64_C(0xffffffff81000000)
#define AT      0x100

static struct mark_wanted wanted[2];

static struct marked_code *make(const char *first, const char *second)
{
    g_assert_true(mark_wanted_parse(first, &wanted[0]));
    if (second) {
        g_assert_true(mark_wanted_parse(second, &wanted[1]));
    }
    return marked_code_new(wanted, second ? 2 : 1);
}

static void end(struct marked_code *c)
{
    marked_code_free(c);
    mark_wanted_clear(&wanted[0]);
    mark_wanted_clear(&wanted[1]);
}

static bool put_bytes(struct marked_code *c, uint64_t number,
                      const uint8_t *page)
{
    const struct btrail_code_item item = sample_code_bytes(number);

    return marked_code_item(c, 0, &item, page);
}

/* A content with one mark at AT */
static bool put_mark(struct marked_code *c, uint64_t number, const char *name)
{
    uint8_t page[MARK_PAGE] = { 0 };

    sample_mark(page + AT, name, false);
    return put_bytes(c, number, page);
}

static void put_page(struct marked_code *c, unsigned vcpu, uint64_t index,
                     uint64_t cr3, uint64_t linear, uint64_t number)
{
    const struct btrail_code_item item = sample_code_page(index, cr3, linear,
                                                          number);

    g_assert_false(marked_code_item(c, vcpu, &item, NULL));
}

static bool is_mark(struct marked_code *c, unsigned vcpu, uint64_t index,
                    uint64_t cr3, uint64_t from, const char *name)
{
    uint64_t to = from + 13 + strlen(name);
    struct mark mark;

    if (!marked_offsets_has(marked_code_offsets(c), to) ||
        !marked_code_find(c, vcpu, index, cr3, from, to, &mark)) {
        return false;
    }
    g_assert_cmpstr(mark.name, ==, name);
    g_assert_cmphex(mark.from, ==, from);
    return true;
}

/* Where it was executed, and nowhere else */
static void test_places(void)
{
    struct marked_code *c = make("mark:one", "mark:two");
    struct mark mark;

    g_assert_cmpuint(marked_code_places(c, 0), ==, 0);
    g_assert_true(put_mark(c, 1, "one"));
    g_assert_false(put_mark(c, 2, "once"));
    put_page(c, 3, 10, SPACE, BASE, 1);
    put_page(c, 3, 10, SPACE, BASE + MARK_PAGE, 2);
    put_page(c, 3, 10, SPACE, KERNEL, 1);
    g_assert_cmpuint(marked_code_places(c, 0), ==, 1);
    g_assert_cmpuint(marked_code_places(c, 1), ==, 0);

    g_assert_true(is_mark(c, 3, 10, SPACE, BASE + AT, "one"));
    g_assert_true(is_mark(c, 3, 99, SPACE | 7, BASE + AT, "one"));
    g_assert_false(is_mark(c, 3, 9, SPACE, BASE + AT, "one"));
    g_assert_false(is_mark(c, 2, 10, SPACE, BASE + AT, "one"));
    g_assert_false(is_mark(c, 3, 10, OTHER, BASE + AT, "one"));
    g_assert_false(is_mark(c, 3, 10, SPACE, BASE + AT + 1, "one"));
    g_assert_false(is_mark(c, 3, 10, SPACE, BASE + MARK_PAGE + AT, "once"));
    /* The kernel's pages are in all address spaces. */
    g_assert_true(is_mark(c, 3, 10, OTHER, KERNEL + AT, "one"));
    /* Another way to the same place */
    g_assert_false(marked_code_find(c, 3, 10, SPACE, BASE + AT + 2,
                                    BASE + AT + 16, &mark));
    g_assert_false(marked_code_find(c, 3, 10, SPACE, BASE + AT + 40,
                                    BASE + AT + 16, &mark));
    end(c);
}

/* Marks of any name, of all contents */
static void test_any(void)
{
    struct marked_code *c = make("mark:", "mark:two");

    g_assert_true(put_mark(c, 1, "one"));
    g_assert_true(put_mark(c, 2, "two"));
    put_page(c, 0, 0, SPACE, BASE, 1);
    put_page(c, 0, 0, SPACE, BASE + MARK_PAGE, 2);
    g_assert_cmpuint(marked_code_places(c, 0), ==, 2);
    g_assert_cmpuint(marked_code_places(c, 1), ==, 1);
    g_assert_true(is_mark(c, 0, 0, SPACE, BASE + AT, "one"));
    g_assert_true(is_mark(c, 0, 0, SPACE, BASE + MARK_PAGE + AT, "two"));
    end(c);
}

/* A page has one content after the other, all of which are reported before the
 * records. */
static void test_times(void)
{
    struct marked_code *c = make("mark:one", NULL);
    uint8_t plain[MARK_PAGE] = { 0 };

    put_mark(c, 1, "one");
    put_bytes(c, 2, plain);
    put_page(c, 0, 10, SPACE, BASE, 1);
    put_page(c, 0, 20, SPACE, BASE, 2);
    /* The same once more, many times, does not push the others out. */
    for (unsigned i = 21; i < 30; i++) {
        put_page(c, 0, i, SPACE, BASE, 2);
    }
    put_page(c, 0, 30, SPACE, BASE, 1);
    for (unsigned i = 0; i < 50; i++) {
        g_assert_cmpint(is_mark(c, 0, i, SPACE, BASE + AT, "one"), ==,
                        (i >= 10 && i < 20) || i >= 30);
    }
    /* Of many, the last ones count, and none is wrong. */
    for (unsigned i = 100; i < 200; i++) {
        put_page(c, 0, i, SPACE, BASE, 1 + i % 2);
    }
    for (unsigned i = 190; i < 250; i++) {
        bool mark = is_mark(c, 0, i, SPACE, BASE + AT, "one");

        g_assert_false(mark && (i % 2 || i > 199));
        g_assert_true(mark || i < 196 || i % 2 || i > 199);
    }
    end(c);
}

/* What is lost is not known until it is reported again. */
static void test_lost(void)
{
    struct marked_code *c = make("mark:one", NULL);
    const struct btrail_code_item lost = {
        .type = BTRAIL_CODE_LOST, .index = 20, .linear = 15,
    };

    put_mark(c, 1, "one");
    put_page(c, 0, 10, SPACE, BASE, 1);
    put_page(c, 1, 10, SPACE, BASE, 1);
    g_assert_true(is_mark(c, 0, 12, SPACE, BASE + AT, "one"));
    marked_code_item(c, 0, &lost, NULL);
    g_assert_false(is_mark(c, 0, 21, SPACE, BASE + AT, "one"));
    g_assert_true(is_mark(c, 1, 21, SPACE, BASE + AT, "one"));
    put_page(c, 0, 22, SPACE, BASE, 1);
    g_assert_false(is_mark(c, 0, 21, SPACE, BASE + AT, "one"));
    g_assert_true(is_mark(c, 0, 22, SPACE, BASE + AT, "one"));
    /* What has waited for its content is lost, too. */
    put_page(c, 0, 23, SPACE, BASE + MARK_PAGE, 2);
    marked_code_item(c, 0, &lost, NULL);
    put_mark(c, 2, "one");
    g_assert_false(is_mark(c, 0, 24, SPACE, BASE + MARK_PAGE + AT, "one"));
    end(c);
}

/* A mark at each place across two pages; the second page comes first, or is
 * executed only after the mark. */
static void test_two_pages(void)
{
    size_t size = 13 + strlen("one");

    for (unsigned first = 1; first < size; first++) {
        struct marked_code *c = make("mark:one", NULL);
        uint8_t pages[2][MARK_PAGE] = { { 0 } };
        uint64_t from = BASE + MARK_PAGE - first;
        bool second_first = first % 2;

        sample_mark(pages[0] + MARK_PAGE - first, "one", false);
        put_bytes(c, 1, pages[0]);
        put_bytes(c, 2, pages[1]);
        if (second_first) {
            put_page(c, 0, 5, SPACE, BASE + MARK_PAGE, 2);
        }
        put_page(c, 0, 7, SPACE, BASE, 1);
        /* One of the two is missing: */
        g_assert_false(is_mark(c, 0, second_first ? 6 : 7, SPACE, from,
                               "one"));
        if (!second_first) {
            put_page(c, 0, 9, SPACE, BASE + MARK_PAGE, 2);
        }
        g_assert_cmpuint(marked_code_places(c, 0), ==, 0);
        g_assert_true(is_mark(c, 0, 8, SPACE, from, "one"));
        g_assert_true(is_mark(c, 0, 9, SPACE, from, "one"));
        g_assert_cmpuint(marked_code_places(c, 0), ==, 1);
        end(c);
    }
}

/* A content comes after the items that refer to it. */
static void test_late(void)
{
    struct marked_code *c = make("mark:one", NULL);

    put_page(c, 0, 10, SPACE, BASE, 2);
    put_page(c, 1, 10, SPACE, BASE, 1);
    g_assert_true(marked_code_lacks(c));
    g_assert_false(is_mark(c, 0, 10, SPACE, BASE + AT, "one"));
    put_mark(c, 1, "other");
    g_assert_true(marked_code_lacks(c));
    put_mark(c, 2, "one");
    g_assert_false(marked_code_lacks(c));
    g_assert_true(is_mark(c, 0, 10, SPACE, BASE + AT, "one"));
    g_assert_false(is_mark(c, 1, 10, SPACE, BASE + AT, "one"));
    /* What the page had before does not hold meanwhile. */
    put_page(c, 0, 12, SPACE, BASE, 3);
    g_assert_true(is_mark(c, 0, 11, SPACE, BASE + AT, "one"));
    g_assert_false(is_mark(c, 0, 12, SPACE, BASE + AT, "one"));
    put_mark(c, 3, "other");
    /* Contents that never come are forgotten. */
    for (unsigned i = 0; i < 5000; i++) {
        put_page(c, 0, 20 + i, SPACE, BASE + i * MARK_PAGE, 1000000 + i);
    }
    g_assert_true(marked_code_lacks(c));
    put_mark(c, 2000000, "other");
    g_assert_false(marked_code_lacks(c));
    end(c);
}

/* A guest with too many: what it has executed last counts. */
static void test_many(void)
{
    struct marked_code *c = make("mark:one", NULL);
    uint8_t page[MARK_PAGE];
    unsigned n = 20000;

    for (unsigned i = 0; i + 16 <= sizeof(page); i += 16) {
        sample_mark(page + i, "one", false);
    }
    for (unsigned i = 1; i <= n; i++) {
        put_bytes(c, i, page);
        put_page(c, i % 4, i, SPACE, BASE + i * MARK_PAGE, i);
        /* Nothing is forgotten as long as it is executed. */
        g_assert_true(is_mark(c, 1, n, SPACE, BASE + MARK_PAGE, "one"));
    }
    g_assert_cmpuint(marked_code_places(c, 0), ==, 4096);
    g_assert_true(is_mark(c, n % 4, n, SPACE, BASE + n * MARK_PAGE, "one"));
    g_assert_false(is_mark(c, 2, n, SPACE, BASE + 2 * MARK_PAGE, "one"));
    /* One content in very many address spaces */
    for (unsigned i = 0; i < 3 * n; i++) {
        put_page(c, 0, n, i * MARK_PAGE, BASE, n);
    }
    g_assert_true(is_mark(c, 0, n, (3 * n - 1) * MARK_PAGE, BASE, "one"));
    g_assert_false(is_mark(c, 0, n, MARK_PAGE, BASE, "one"));
    end(c);
}

/* What is new is left out without room for it, and all is given back. */
static void test_budget(void)
{
    const uint64_t size = 64 << 10;
    struct btrail_budget *budget = btrail_budget_new_fixed(size, 4);
    struct marked_code *c = make("mark:a", NULL);
    unsigned places;

    marked_code_set_budget(c, budget);
    for (unsigned i = 1; i <= 1000; i++) {
        put_mark(c, i, "a");
        put_page(c, 0, i, 0x1000, BASE + i * MARK_PAGE, i);
    }
    places = marked_code_places(c, 0);
    g_assert_cmpuint(places, >, 5);
    g_assert_cmpuint(places, <, 12);
    g_assert_cmpuint(btrail_budget_refused(budget), >, 900);
    g_assert_cmpuint(btrail_budget_left(budget), >=, size / 4);
    end(c);
    g_assert_cmpuint(btrail_budget_left(budget), ==, size);
    btrail_budget_unref(budget);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/marked-code/places", test_places);
    g_test_add_func("/marked-code/any", test_any);
    g_test_add_func("/marked-code/times", test_times);
    g_test_add_func("/marked-code/lost", test_lost);
    g_test_add_func("/marked-code/two-pages", test_two_pages);
    g_test_add_func("/marked-code/late", test_late);
    g_test_add_func("/marked-code/many", test_many);
    g_test_add_func("/marked-code/budget", test_budget);
    return g_test_run();
}
