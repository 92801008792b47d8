/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What pages contain at moments that come and go in any order: the same as in a
 * table that has each page at each moment
 */

#include <glib.h>

#include "qemu/osdep.h"
#include "page-versions.h"

#define SIZE        64u
#define PAGES       12u
#define CONTENTS    6u          /* the first one is zero */
#define MOST        20u         /* moments */
#define NOTHING     0           /* zero, or not known */

/* A moment, and the number of what each page contains */
struct row {
    uint64_t moment;
    unsigned pages[PAGES];
};

struct table {
    PageVersions *v;
    struct row rows[MOST];
    unsigned n;
    bool set[PAGES];            /* ever */
};

/* They differ in their last byte. */
static void fill(uint8_t bytes[SIZE], unsigned content)
{
    memset(bytes, 0, SIZE);
    bytes[SIZE - 1] = content;
    bytes[content & 1 ? 0 : SIZE - 1] = content;
}

static void is(const void *got, unsigned content)
{
    uint8_t bytes[SIZE];

    fill(bytes, content);
    if (content == NOTHING) {
        g_assert_null(got);
    } else {
        g_assert_nonnull(got);
        g_assert_cmpmem(got, SIZE, bytes, SIZE);
    }
}

static void note(uint64_t page, void *opaque)
{
    bool *seen = opaque;

    g_assert_cmpuint(page, <, PAGES);
    seen[page] = true;
}

static void check(const struct table *t)
{
    g_assert_cmpint(page_versions_any(t->v), ==, t->n > 0);
    for (unsigned i = 0; i < t->n; i++) {
        const struct row *a = &t->rows[i];
        const struct row *b = &t->rows[g_test_rand_int_range(0, t->n)];
        bool seen[PAGES] = { false };

        page_versions_between(t->v, a->moment, b->moment, note, seen);
        for (unsigned page = 0; page < PAGES; page++) {
            is(page_versions_get(t->v, a->moment, page), a->pages[page]);
            g_assert_true(seen[page] || a->pages[page] == b->pages[page]);
            g_assert_false(seen[page] && a == b);
            g_assert_true(page_versions_known(t->v, page) ||
                          a->pages[page] == NOTHING);
            g_assert_false(page_versions_known(t->v, page) && !t->set[page]);
        }
    }
}

/* The row that a moment has or would have */
static unsigned place_of(const struct table *t, uint64_t moment)
{
    unsigned i = 0;

    while (i < t->n && t->rows[i].moment < moment) {
        i++;
    }
    return i;
}

/* Adds a moment, somewhere; returns its row. */
static struct row *begin(struct table *t)
{
    uint64_t moment;
    unsigned i;

    do {
        moment = g_test_rand_int_range(0, 3 * MOST);
        i = place_of(t, moment);
    } while (i < t->n && t->rows[i].moment == moment);
    memmove(&t->rows[i + 1], &t->rows[i], (t->n - i) * sizeof(t->rows[0]));
    memset(&t->rows[i], 0, sizeof(t->rows[i]));
    if (i) {
        t->rows[i] = t->rows[i - 1];
    }
    t->rows[i].moment = moment;
    t->n++;
    page_versions_begin(t->v, moment);
    return &t->rows[i];
}

/* Sets some of what pages contain at a new moment, at once or by the thread. */
static void set(struct table *t, struct row *row)
{
    bool later = g_test_rand_bit();

    for (unsigned page = 0; page < PAGES; page++) {
        uint64_t before = later ? 0 : page_versions_size(t->v);
        uint8_t bytes[SIZE];

        if (g_test_rand_bit()) {
            continue;
        }
        row->pages[page] = g_test_rand_int_range(0, CONTENTS);
        fill(bytes, row->pages[page]);
        t->set[page] = true;
        if (later) {
            page_versions_copy(t->v, row->moment, page, bytes);
        } else {
            page_versions_set(t->v, row->moment, page, bytes);
            g_assert_cmpuint(page_versions_size(t->v), <=,
                             before + page_versions_cost(t->v));
        }
        memset(bytes, 0xee, sizeof(bytes));
    }
    if (later) {
        page_versions_set_copies();
    }
}

static void drop(struct table *t)
{
    unsigned i = g_test_rand_int_range(0, t->n);
    uint64_t before = page_versions_size(t->v);

    page_versions_remove(t->v, t->rows[i].moment);
    g_assert_cmpuint(page_versions_size(t->v), <, before);
    t->n--;
    memmove(&t->rows[i], &t->rows[i + 1], (t->n - i) * sizeof(t->rows[0]));
}

/* What a page was before anything was known of it, which is always so then */
static void set_first(struct table *t)
{
    unsigned page = g_test_rand_int_range(0, PAGES);
    unsigned content = g_test_rand_int_range(0, CONTENTS);
    uint8_t bytes[SIZE];

    if (!page_versions_known(t->v, page)) {
        fill(bytes, content);
        page_versions_set_first(t->v, page, bytes);
        g_assert_true(page_versions_known(t->v, page));
        t->set[page] = true;
        for (unsigned i = 0; i < t->n; i++) {
            t->rows[i].pages[page] = content;
        }
    }
}

/* Another one that has the bytes of this one */
struct copied {
    PageVersions *v;
    uint64_t page;
    uint64_t moment;
};

static void copy_version(uint64_t page, uint64_t moment, const void *bytes,
                         void *opaque)
{
    struct copied *c = opaque;

    if (page == c->page) {
        g_assert_cmpuint(moment, >, c->moment);
    }
    c->page = page;
    c->moment = moment;
    g_assert_true(page_versions_add(c->v, moment, page, bytes));
    g_assert_false(page_versions_add(c->v, moment, page, bytes));
    g_assert_false(page_versions_add(c->v, moment + 1000, page, bytes));
}

/* All of it, as it is saved and loaded, and then used */
static void check_copied(const struct table *t)
{
    struct table other = *t;
    struct copied c = { page_versions_new(SIZE), UINT64_MAX, 0 };

    other.v = c.v;
    for (unsigned i = 0; i < t->n; i++) {
        page_versions_begin(c.v, t->rows[i].moment);
    }
    page_versions_for_all(t->v, copy_version, &c);
    check(&other);
    for (unsigned i = 0; i < 10; i++) {
        if (other.n < MOST && g_test_rand_bit()) {
            set(&other, begin(&other));
        } else if (other.n) {
            drop(&other);
        }
        check(&other);
    }
    page_versions_free(c.v);
}

static void test_any_order(void)
{
    struct table t = { .v = page_versions_new(SIZE) };
    uint64_t size;

    for (unsigned i = 0; i < 1500; i++) {
        switch (g_test_rand_int_range(0, 7)) {
        case 0:
        case 1:
        case 2:
            if (t.n < MOST) {
                set(&t, begin(&t));
            }
            break;
        case 3:
        case 4:
            if (t.n) {
                drop(&t);
            }
            break;
        case 5:
            if (t.n) {
                set_first(&t);
            }
            break;
        default:
            if (i % 8 == 0) {
                check_copied(&t);
            }
        }
        check(&t);
    }
    while (t.n) {
        drop(&t);
        check(&t);
    }
    /* What is left is room for versions, and no content. */
    size = page_versions_size(t.v);
    for (unsigned page = 0; page < PAGES; page++) {
        g_assert_false(page_versions_known(t.v, page));
    }
    /* However often it is used again */
    for (unsigned i = 0; i < 50; i++) {
        set(&t, begin(&t));
        set_first(&t);
        set(&t, begin(&t));
        drop(&t);
        drop(&t);
        g_assert_cmpuint(page_versions_size(t.v), ==, size);
    }
    page_versions_free(t.v);
}

/* Pages that are alike are there once, and zeroes not at all. */
static void test_shared(void)
{
    PageVersions *v = page_versions_new(SIZE);
    uint8_t bytes[SIZE];
    uint64_t one;

    page_versions_begin(v, 5);
    fill(bytes, 3);
    page_versions_set(v, 5, 0, bytes);
    one = page_versions_size(v);
    for (unsigned page = 1; page < 1000; page++) {
        page_versions_set(v, 5, page, bytes);
        g_assert_true(page_versions_get(v, 5, page) ==
                      page_versions_get(v, 5, 0));
    }
    /* No content, and what else a page needs */
    g_assert_cmpuint(page_versions_size(v) - one, <=,
                     999 * (page_versions_cost(v) - SIZE));
    memset(bytes, 0, sizeof(bytes));
    one = page_versions_size(v);
    page_versions_set(v, 5, 1000, bytes);
    g_assert_cmpuint(page_versions_size(v), ==, one);
    page_versions_free(v);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/page-versions/any-order", test_any_order);
    g_test_add_func("/page-versions/shared", test_shared);
    return g_test_run();
}
