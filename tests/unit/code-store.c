/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Contents of pages over time, against a list of every write and every sight
 */

#include <glib.h>
#include <string.h>

#include "pt/code-store.h"

#define PAGES       6u
#define SPACES      2u
#define STEPS       4000u
#define KEPT        4u              /* contents of a page */

/* Content 0 is none; those from WRITTEN on are unknown. */
#define WRITTEN     UINT64_C(0x8000000000000000)

struct write {
    uint64_t time;
    uint64_t content;
};

struct sight {
    uint64_t begin, end;
    uint64_t content;
};

/* A page: all that was ever written to it, and all that was seen of it */
struct page {
    GArray *writes;
    GArray *sights;
};

static enum code_store_kind kind_of(uint64_t content)
{
    return !content ? CODE_STORE_NONE :
           content & WRITTEN ? CODE_STORE_WRITTEN : CODE_STORE_BYTES;
}

static void fill(uint8_t *bytes, uint64_t content)
{
    for (unsigned i = 0; i < CODE_STORE_PAGE; i += 8) {
        memcpy(bytes + i, &content, 8);
    }
}

static uint64_t content_of(const uint8_t *bytes)
{
    uint64_t content;

    g_assert_nonnull(bytes);
    memcpy(&content, bytes + CODE_STORE_PAGE - 8, 8);
    return content;
}

static uint64_t content_at(const struct page *p, uint64_t time)
{
    uint64_t content = 0;

    for (unsigned i = 0; i < p->writes->len; i++) {
        const struct write *w = &g_array_index(p->writes, struct write, i);

        if (w->time > time) {
            break;
        }
        content = w->content;
    }
    return content;
}

/* Is the sight that begins a row of the same the one that is not kept? */
static uint64_t kept_from(const struct page *p, bool *dropped)
{
    unsigned rows = 0, i = p->sights->len;

    *dropped = false;
    while (i--) {
        const struct sight *s = &g_array_index(p->sights, struct sight, i);

        if (!i || s[-1].content != s->content) {
            rows++;
            if (rows == KEPT) {
                *dropped = i > 0;
                return s->end;
            }
        }
    }
    return 0;
}

/* When the content @content was seen, in rows of sights with some from @begin
 * until @end */
static void check_seen(const struct page *p, unsigned begin, unsigned end,
                       uint64_t content, const uint64_t *seen)
{
    const struct sight *all = (const struct sight *)p->sights->data;
    unsigned first = begin, last = end - 1;

    while (all[first].content != content) {
        first++;
    }
    while (all[last].content != content) {
        last--;
    }
    while (first && all[first - 1].content == content) {
        first--;
    }
    while (last + 1 < p->sights->len && all[last + 1].content == content) {
        last++;
    }
    g_assert_cmpuint(seen[0], ==, all[first].end);
    g_assert_cmpuint(seen[1], ==, all[last].begin);
}

/* The nearest sight of another content, or of none after there was one; of
 * those from @begin until @end, and of the rows that are kept */
static void check_apart(const struct code_store *s, const struct page *p,
                        uint64_t space, uint64_t address, uint64_t from,
                        uint64_t until, uint64_t begin, uint64_t end,
                        const uint8_t *bytes)
{
    const struct sight *all = (const struct sight *)p->sights->data;
    uint64_t least = UINT64_MAX, none = UINT64_MAX;
    unsigned rows = 0;

    for (unsigned last = p->sights->len; last-- && rows < KEPT; rows++) {
        unsigned first = last;
        uint64_t time;

        while (first && all[first - 1].content == all[last].content) {
            first--;
        }
        time = all[last].begin < from ? from - all[last].begin :
               all[first].end > until ? all[first].end - until : 0;
        if (all[last].begin <= end &&
            MAX(all[first].end, all[last].begin) >= begin) {
            if (!all[last].content) {
                none = MIN(none, time);
            } else if (all[last].content < WRITTEN) {
                /* All later ones without a content are after this. */
                least = MIN(least, none);
                if (all[last].content != content_of(bytes)) {
                    least = MIN(least, time);
                }
            }
        }
        last = first;
    }
    g_assert_cmpuint(code_store_apart(s, space, address, bytes, from, until,
                                      begin, end), ==, least);
}

static void check(const struct code_store *s, const struct page *p,
                  uint64_t space, uint64_t address, uint64_t from,
                  uint64_t until)
{
    uint64_t contents[2] = { 0 }, last = 0, kept;
    bool dropped, written = false, whole = true, more = false, any = false;
    unsigned n = 0, begin = 0, end = p->sights->len;
    enum code_store_result result, expected;
    struct code_store_answer a;

    result = code_store_find(s, space, address, from, until, &a);
    for (unsigned i = 0; i < p->sights->len; i++) {
        const struct sight *k = &g_array_index(p->sights, struct sight, i);

        begin = k->end <= from ? i : begin;
        if (k->begin >= until) {
            end = i + 1;
            break;
        }
    }
    kept = kept_from(p, &dropped);
    for (unsigned i = begin; i < end; i++) {
        const struct sight *k = &g_array_index(p->sights, struct sight, i);

        any = true;
        whole &= k->content != 0;
        written |= k->content >= WRITTEN;
        if (k->content && (!n || k->content != contents[0]) &&
            (n < 2 || k->content != contents[1])) {
            if (n < 2) {
                contents[n++] = k->content;
            } else {
                more = true;
            }
        }
        last = k->begin;
    }
    whole &= any && g_array_index(p->sights, struct sight, begin).end <= from &&
             last >= until;
    if (!p->sights->len) {
        expected = CODE_STORE_UNKNOWN;
    } else if (dropped && kept > from) {
        expected = CODE_STORE_CHANGED;
        more = true;
    } else if (written || n > 1) {
        expected = CODE_STORE_CHANGED;
    } else {
        expected = !n ? CODE_STORE_UNKNOWN : whole ? CODE_STORE_SURE :
                   CODE_STORE_SEEN;
    }
    g_assert_cmpint(result, ==, expected);
    if (expected == CODE_STORE_UNKNOWN || written || more) {
        g_assert_null(a.bytes[0]);
        g_assert_null(a.bytes[1]);
        return;
    }
    g_assert_cmphex(content_of(a.bytes[0]), ==, contents[0]);
    if (expected == CODE_STORE_CHANGED) {
        g_assert_cmphex(content_of(a.bytes[1]), ==, contents[1]);
        g_assert_cmpuint(a.last, <, a.first);
        return;
    }
    check_seen(p, begin, end, contents[0], a.seen);
    check_apart(s, p, space, address, from, until, 0, UINT64_MAX, a.bytes[0]);
    check_apart(s, p, space, address, from, until, from - MIN(from, 20),
                until + 20, a.bytes[0]);
    g_assert_null(a.bytes[1]);
    g_assert_cmpint(a.newest, ==, g_array_index(
        p->sights, struct sight, p->sights->len - 1).content == contents[0]);
    /* What is sure was so all the time, as no content comes back. */
    for (uint64_t t = from; expected == CODE_STORE_SURE && t <= until; t++) {
        g_assert_cmphex(content_at(p, t), ==, contents[0]);
    }
}

static void test_random(void)
{
    struct code_store *s = code_store_new(0);
    struct page pages[SPACES][PAGES];
    uint64_t now = 1, contents = 0, changes = 0;

    for (unsigned i = 0; i < SPACES * PAGES; i++) {
        struct page *p = &pages[i / PAGES][i % PAGES];

        p->writes = g_array_new(FALSE, FALSE, sizeof(struct write));
        p->sights = g_array_new(FALSE, FALSE, sizeof(struct sight));
    }
    for (unsigned i = 0; i < STEPS; i++) {
        unsigned space = g_test_rand_int_range(0, SPACES);
        unsigned n = g_test_rand_int_range(0, PAGES);
        struct page *p = &pages[space][n];
        uint64_t address = n * UINT64_C(4096) + (n & 1 ? UINT64_MAX << 40 : 0);

        now += g_test_rand_int_range(1, 4);
        if (!g_test_rand_int_range(0, 6)) {
            unsigned what = g_test_rand_int_range(0, 8);
            const struct write w = {
                now, !what ? 0 : what == 1 ? WRITTEN : ++contents,
            };

            g_array_append_val(p->writes, w);
        } else {
            uint64_t later = now + g_test_rand_int_range(0, 3);
            const struct sight k = { now, later, content_at(p, now) };
            uint8_t bytes[CODE_STORE_PAGE];
            uint64_t last;
            bool changed = p->sights->len && k.content != g_array_index(
                p->sights, struct sight, p->sights->len - 1).content;

            fill(bytes, k.content);
            g_assert_cmpint(code_store_put(
                s, space, address, kind_of(k.content),
                kind_of(k.content) == CODE_STORE_BYTES ? bytes : NULL, now,
                later), ==, changed);
            g_array_append_val(p->sights, k);
            g_assert_true(code_store_last(s, space, address, &last));
            g_assert_cmpuint(last, ==, now);
            changes += changed;
            now = later;
        }
        for (unsigned k = 0; k < 4; k++) {
            uint64_t from = g_test_rand_int_range(0, (gint32)now + 10);
            uint64_t until = from + g_test_rand_int_range(0, 60);

            if (k & 1) {
                /* Near the end, too */
                until = now - MIN(now, until % 40);
                from = until - MIN(until, from % 100);
            }
            check(s, p, space, address, from, until);
        }
    }
    g_assert_cmpuint(code_store_counted(s)->changes, ==, changes);
    g_assert_cmpuint(code_store_counted(s)->evicted, ==, 0);
    for (unsigned i = 0; i < SPACES * PAGES; i++) {
        g_array_free(pages[i / PAGES][i % PAGES].writes, TRUE);
        g_array_free(pages[i / PAGES][i % PAGES].sights, TRUE);
    }
    code_store_free(s);
}

/* What was not seen for longest makes room; what is left is right. */
static void test_memory(void)
{
    const size_t memory = 1 << 20;
    struct code_store *s = code_store_new(memory);
    uint8_t bytes[CODE_STORE_PAGE];
    struct code_store_answer a;
    uint64_t time;

    for (uint64_t i = 1; i <= 1000; i++) {
        fill(bytes, i);
        code_store_put(s, 0, i << 12, CODE_STORE_BYTES, bytes, i, i);
        /* The first one is seen again and again. */
        fill(bytes, 1);
        code_store_put(s, 0, 1 << 12, CODE_STORE_BYTES, bytes, i, i);
        g_assert_cmpuint(code_store_counted(s)->pages * CODE_STORE_PAGE, <,
                         memory);
    }
    g_assert_cmpuint(code_store_counted(s)->pages, >, 200);
    g_assert_cmpuint(code_store_counted(s)->pages +
                     code_store_counted(s)->evicted, ==, 1000);
    g_assert_cmpint(code_store_find(s, 0, 1 << 12, 2, 999, &a), ==,
                    CODE_STORE_SURE);
    g_assert_cmpuint(content_of(a.bytes[0]), ==, 1);
    g_assert_cmpint(code_store_find(s, 0, 2 << 12, 2, 2, &a), ==,
                    CODE_STORE_UNKNOWN);
    g_assert_false(code_store_last(s, 0, 2 << 12, &time));
    g_assert_cmpint(code_store_find(s, 0, 1000 << 12, 990, 1000, &a), ==,
                    CODE_STORE_SEEN);
    code_store_free(s);

    /* However little there is, one page has its contents. */
    s = code_store_new(1);
    for (uint64_t i = 1; i <= 20; i++) {
        fill(bytes, i);
        code_store_put(s, 1, 0, CODE_STORE_BYTES, bytes, i, i);
        g_assert_cmpint(code_store_find(s, 1, 0, i, i, &a), ==,
                        CODE_STORE_SURE);
        g_assert_cmpuint(content_of(a.bytes[0]), ==, i);
    }
    code_store_free(s);
    code_store_free(NULL);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/code-store/random", test_random);
    g_test_add_func("/code-store/memory", test_memory);
    return g_test_run();
}
