/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Pieces of code and the pages found in them, in traces that are sound or
 * damaged.
 */

#include <stdlib.h>

#include "lib/agent/code-piece.h"
#include "trace-samples.h"

#define PAGE    BTRAIL_CODE_PAGE_SIZE
#define KERNEL  0xffffffff81000000ull

static void page_of(uint8_t page[PAGE], unsigned seed)
{
    uint32_t random = seed;
    unsigned i;

    for (i = 0; i < PAGE; i++) {
        random = random * 1664525 + 1013904223;
        page[i] = random >> 24;
    }
}

static void add_content(struct btrail_code_builder *b, uint64_t number,
                        unsigned seed)
{
    uint8_t page[PAGE];

    page_of(page, seed);
    btrail_code_builder_content(b, number, page);
}

static void write_piece(struct btrail_writer *w, struct btrail_code_builder *b)
{
    struct btrail_sideband_info info = { .kind = BTRAIL_SIDEBAND_CODE };
    size_t size;
    g_autofree uint8_t *data = btrail_code_builder_take(b, &size);

    info.size = size;
    g_assert_cmpint(btrail_writer_sideband(w, &info, data), ==, 0);
}

/* What comes out of a builder is what was put in, each content once. */
static void test_piece(void)
{
    struct btrail_code_builder *b = btrail_code_builder_new();
    const struct btrail_code_entry entry = {
        1, UINT32_MAX, 3, 4, 5, 6, UINT64_MAX,
    };
    struct btrail_code_piece piece;
    struct btrail_code_entry got;
    uint64_t number, other;
    uint8_t page[PAGE];
    uint8_t *data;
    size_t size, i;

    g_assert_cmpuint(btrail_code_builder_size(b), ==, 0);
    add_content(b, 7, 1);
    add_content(b, 8, 2);
    add_content(b, 9, 1);
    btrail_code_builder_entry(b, &entry);
    size = btrail_code_builder_size(b);
    data = btrail_code_builder_take(b, &i);
    g_assert_cmpuint(i, ==, size);
    g_assert_cmpuint(btrail_code_builder_size(b), ==, 0);

    g_assert_true(btrail_code_piece_get(data, size, &piece));
    g_assert_cmpuint(piece.entries, ==, 1);
    g_assert_cmpuint(piece.same, ==, 1);
    g_assert_cmpuint(piece.contents, ==, 2);
    btrail_code_piece_entry(&piece, 0, &got);
    g_assert_cmpmem(&got, sizeof(got), &entry, sizeof(entry));
    btrail_code_piece_same(&piece, 0, &number, &other);
    g_assert_cmpuint(number, ==, 9);
    g_assert_cmpuint(other, ==, 7);
    for (i = 0; i < 2; i++) {
        page_of(page, i + 1);
        g_assert_cmpmem(btrail_code_piece_content(&piece, i, &number), PAGE,
                        page, PAGE);
        g_assert_cmpuint(number, ==, 7 + i);
    }
    /* Of any other length it is not one. */
    for (i = 0; i < size; i += i < 100 ? 1 : 97) {
        g_assert_false(btrail_code_piece_get(data, i, &piece));
    }
    data[3] = 0xff;
    g_assert_false(btrail_code_piece_get(data, size, &piece));
    g_free(data);

    /* What is in an earlier piece is not written again. */
    add_content(b, 10, 2);
    data = btrail_code_builder_take(b, &size);
    g_assert_true(btrail_code_piece_get(data, size, &piece));
    g_assert_cmpuint(piece.contents, ==, 0);
    btrail_code_piece_same(&piece, 0, &number, &other);
    g_assert_cmpuint(other, ==, 8);
    g_free(data);
    btrail_code_builder_free(b);
}

/* What a page holds, as the test knows it */
struct model {
    unsigned seed;              /* 0 if it is not known */
};

enum { VCPUS = 2, SPACES = 3, PAGES = 4, INDICES = 400 };

static uint64_t address_of(unsigned page)
{
    /* The last two of them are the kernel's, and lie side by side. */
    return page < PAGES / 2 ? 0x400000 + page * 0x2000 :
           KERNEL + page * PAGE;
}

/*
 * A page stays as it is at an index up to the next change in the model; or it
 * may have changed where there is a loss, or more than one entry.
 */
static void require_until(const struct btrail_code *code,
                          const struct model model[][SPACES][PAGES],
                          const bool perhaps[], unsigned v, unsigned i,
                          unsigned s, unsigned p)
{
    uint64_t until = btrail_code_until(code, v, i, (s + 1) << 12,
                                       address_of(p), PAGE);
    uint64_t k = i + 1, first = INDICES;

    while (k < INDICES && model[k][s][p].seed == model[i][s][p].seed) {
        first = perhaps[k] ? MIN(first, k) : first;
        k++;
    }
    k = k < INDICES ? k : UINT64_MAX;
    g_assert_cmpuint(until, <=, k);
    g_assert_cmpuint(until, >=, MIN(first, k));
}

/*
 * No page that is known at an index has another content at a later one of the
 * same stretch, and none is shorter than that; with the same bytes, it has the
 * same number.
 */
static void require_stretch(const struct btrail_code *code,
                            struct model model[][SPACES][PAGES],
                            const bool perhaps[], unsigned v, unsigned i)
{
    struct btrail_code_stretch stretch = btrail_code_stretch(code, v, i);

    g_assert_cmpuint(stretch.begin, <=, i);
    g_assert_cmpuint(stretch.end, >, i);
    g_assert_cmpuint(stretch.number, >, 0);
    g_assert_cmpuint(btrail_code_stretch(code, v, stretch.begin).number, ==,
                     stretch.number);
    if (stretch.end < INDICES) {
        unsigned end = stretch.end;

        g_assert_cmpuint(btrail_code_stretch(code, v, end).number, >,
                         stretch.number);
        g_assert_true(perhaps[end] || memcmp(model[end], model[end - 1],
                                             sizeof(model[end])));
    }
    for (unsigned k = i; k < MIN(stretch.end, INDICES); k++) {
        for (unsigned s = 0; s < SPACES; s++) {
            for (unsigned p = 0; p < PAGES; p++) {
                uint64_t now = btrail_code_content(code, v, k, (s + 1) << 12,
                                                   address_of(p) + 9);

                g_assert_true(!now == !model[k][s][p].seed);
                if (model[i][s][p].seed) {
                    g_assert_cmpuint(model[k][s][p].seed, ==,
                                     model[i][s][p].seed);
                    g_assert_cmpuint(now, ==, btrail_code_content(
                        code, v, i, (s + 1) << 12, address_of(p)));
                }
            }
        }
    }
}

/* Entries at random, against a table of what holds at each index */
static void test_random(void)
{
    static bool perhaps[VCPUS][INDICES];
    static struct model model[VCPUS][INDICES][SPACES][PAGES];
    struct btrail_code_builder *b = btrail_code_builder_new();
    struct btrail_writer *w;
    struct btrail_trace *trace;
    struct btrail_code *code;
    uint64_t contents = 0;
    unsigned v, i, s, p;
    char *path = sample_path();

    memset(model, 0, sizeof(model));
    memset(perhaps, 0, sizeof(perhaps));
    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (v = 0; v < VCPUS; v++) {
        struct model now[SPACES][PAGES] = { 0 };
        unsigned order = 0, lost_from = 0, lost_to = 0;

        for (i = 0; i < INDICES; i++) {
            unsigned n = g_test_rand_int_range(0, 4);

            if (i >= lost_to && !g_test_rand_int_range(0, 40)) {
                struct btrail_code_entry e = { .vcpu = v, .order = order++ };

                /* At once, or reported after some records */
                lost_from = i;
                lost_to = i + g_test_rand_int_range(0, 9);
                perhaps[v][i] = perhaps[v][MIN(lost_to, INDICES - 1)] = true;
                e.linear = lost_from;
                e.index = lost_to;
                btrail_code_builder_entry(b, &e);
                memset(now, 0, sizeof(now));
            }
            perhaps[v][i] |= n > 1;
            while (i >= lost_to && n--) {
                struct btrail_code_entry e = {
                    .vcpu = v, .order = order++, .index = i,
                    .number = ++contents,
                };
                unsigned seed = g_test_rand_int_range(1, 20), k;

                s = g_test_rand_int_range(0, SPACES);
                p = g_test_rand_int_range(0, PAGES);
                e.cr3 = (s + 1) << 12 | g_test_rand_int_range(0, 4096);
                e.linear = address_of(p);
                add_content(b, e.number, seed);
                btrail_code_builder_entry(b, &e);
                for (k = 0; k < SPACES; k++) {
                    if (k == s || p >= PAGES / 2) {
                        now[k][p].seed = seed;
                    }
                }
            }
            memcpy(model[v][i], now, sizeof(now));
            if (!g_test_rand_int_range(0, 50)) {
                write_piece(w, b);
            }
        }
    }
    write_piece(w, b);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    btrail_code_builder_free(b);

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_code_open(&code, trace), ==, 0);
    for (v = 0; v < VCPUS; v++) {
        for (i = 0; i < INDICES; i++) {
            require_stretch(code, model[v], perhaps[v], v, i);
            for (s = 0; s < SPACES; s++) {
                for (p = 0; p < PAGES; p++) {
                    unsigned seed = model[v][i][s][p].seed;
                    unsigned at = g_test_rand_int_range(0, PAGE - 16);
                    uint8_t page[PAGE], got[16];
                    int n = btrail_code_read(code, v, i, (s + 1) << 12 | 5,
                                             address_of(p) + at, got, 16);

                    g_assert_cmpint(n, ==, seed ? 16 : 0);
                    if (seed) {
                        page_of(page, seed);
                        g_assert_cmpmem(got, 16, page + at, 16);
                    }
                    require_until(code, model[v], perhaps[v], v, i, s, p);
                }
            }
        }
    }
    g_assert_cmpuint(btrail_code_stretch(code, 0, UINT64_MAX).number, !=,
                     btrail_code_stretch(code, 1, 0).number);
    btrail_code_close(code);
    btrail_trace_close(trace);
    sample_remove(path);
}

/* Bytes over the end of a page, and of what is known */
static void test_pages(void)
{
    struct btrail_code_builder *b = btrail_code_builder_new();
    struct btrail_writer *w;
    struct btrail_trace *trace;
    struct btrail_code *code;
    uint8_t pages[2 * PAGE], got[3 * PAGE];
    char *path = sample_path();
    unsigned i;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (i = 0; i < 2; i++) {
        const struct btrail_code_entry e = {
            .linear = 0x1000 + i * PAGE, .number = i + 1,
        };

        btrail_code_builder_entry(b, &e);
        add_content(b, i + 1, i);
        page_of(pages + i * PAGE, i);
    }
    write_piece(w, b);
    btrail_code_builder_free(b);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_code_open(&code, trace), ==, 0);
    g_assert_cmpint(btrail_code_read(code, 0, 0, 0, 0x1000, got,
                                     sizeof(got)), ==, sizeof(pages));
    g_assert_cmpmem(got, sizeof(pages), pages, sizeof(pages));
    g_assert_cmpint(btrail_code_read(code, 0, 0, 0, 0x1ffe, got, 4), ==, 4);
    g_assert_cmpmem(got, 4, pages + PAGE - 2, 4);
    g_assert_cmpint(btrail_code_read(code, 0, 0, 0, 0x2ffe, got, 4), ==, 2);
    g_assert_cmpint(btrail_code_read(code, 0, 0, 0, 0xfff, got, 4), ==, 0);
    g_assert_cmpint(btrail_code_read(code, 0, 0, 0, 0x1000, NULL, 0), ==, 0);
    g_assert_cmpint(btrail_code_read(code, 0, 0, 0, 0x1000, NULL, 1), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_code_read(NULL, 0, 0, 0, 0x1000, got, 1), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_code_read(code, 0, 0, 0, 0x1000, got, SIZE_MAX),
                    ==, -BTRAIL_ERR_ARGUMENT);
    btrail_code_close(code);
    btrail_code_close(NULL);
    g_assert_cmpint(btrail_code_open(NULL, trace), ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_code_open(&code, NULL), ==, -BTRAIL_ERR_ARGUMENT);
    btrail_trace_close(trace);
    sample_remove(path);
}

/* All pages, whose contents have one number if their bytes are the same */
static void test_list(void)
{
    static const struct {
        struct btrail_code_entry entry;
        unsigned seed;
    } entries[] = {
        { { .index = 3, .cr3 = 0x5018, .linear = 0x1000, .number = 1 }, 1 },
        { { .index = 5, .cr3 = 0x5000, .linear = 0x1234, .number = 2 }, 2 },
        { { .index = 4, .cr3 = 0x6000, .linear = 0x7000, .number = 3 }, 1 },
        { { .vcpu = 1, .cr3 = 0x6000, .linear = KERNEL, .number = 4 }, 2 },
        /* A loss, and a content that is in no piece */
        { { .index = 9, .linear = 8 }, 0 },
        { { .vcpu = 2, .cr3 = 0x6000, .linear = 0x1000, .number = 99 }, 0 },
    };
    static const struct btrail_code_page want[] = {
        { 0x1000, 0x5000, 3, 1, 0 }, { 0x1000, 0x5000, 5, 2, 0 },
        { 0x7000, 0x6000, 4, 1, 0 }, { KERNEL, 0, 0, 2, 1 },
        { 0x1000, 0x6000, 0, 99, 2 },
    };
    struct btrail_code_builder *b = btrail_code_builder_new();
    bool found[G_N_ELEMENTS(want)] = { false };
    struct btrail_code_page page;
    struct btrail_trace *trace;
    struct btrail_writer *w;
    struct btrail_code *code;
    char *path = sample_path();
    unsigned i, k;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (i = 0; i < G_N_ELEMENTS(entries); i++) {
        btrail_code_builder_entry(b, &entries[i].entry);
        if (entries[i].seed) {
            add_content(b, entries[i].entry.number, entries[i].seed);
        }
        if (i % 2) {
            write_piece(w, b);
        }
    }
    btrail_code_builder_free(b);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_code_open(&code, trace), ==, 0);
    for (i = 0; !btrail_code_page(code, i, &page); i++) {
        for (k = 0; k < G_N_ELEMENTS(want); k++) {
            if (page.address == want[k].address && page.cr3 == want[k].cr3 &&
                page.index == want[k].index && page.vcpu == want[k].vcpu) {
                g_assert_cmpuint(page.content, ==, want[k].content);
                g_assert_false(found[k]);
                found[k] = true;
            }
        }
    }
    g_assert_cmpuint(i, ==, G_N_ELEMENTS(want));
    for (k = 0; k < i; k++) {
        g_assert_true(found[k]);
    }
    g_assert_cmpint(btrail_code_page(code, i, &page), ==, -BTRAIL_ERR_END);
    g_assert_cmpint(btrail_code_page(code, SIZE_MAX, &page), ==,
                    -BTRAIL_ERR_END);
    g_assert_cmpint(btrail_code_page(code, 0, NULL), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_code_page(NULL, 0, &page), ==,
                    -BTRAIL_ERR_ARGUMENT);
    btrail_code_close(code);
    btrail_trace_close(trace);
    sample_remove(path);
}

/* Pieces that are not code are skipped and reported. */
static void test_damaged(void)
{
    struct btrail_sideband_info info = { BTRAIL_SIDEBAND_CODE, 0, 16, 0 };
    uint8_t bytes[16] = { 1 };
    struct btrail_trace *trace;
    struct btrail_writer *w;
    struct btrail_code *code;
    char *path = sample_path();

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_sideband(w, &info, bytes), ==, 0);
    info.kind = BTRAIL_SIDEBAND_SYMBOLS;
    g_assert_cmpint(btrail_writer_sideband(w, &info, bytes), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_code_open(&code, trace), ==, 0);
    g_assert_cmpuint(btrail_code_bad_pieces(code), ==, 1);
    g_assert_cmpint(btrail_code_read(code, 0, 0, 0, 0, bytes, 1), ==, 0);
    btrail_code_close(code);
    btrail_trace_close(trace);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/code/piece", test_piece);
    g_test_add_func("/code/random", test_random);
    g_test_add_func("/code/pages", test_pages);
    g_test_add_func("/code/list", test_list);
    g_test_add_func("/code/damaged", test_damaged);
    return g_test_run();
}
