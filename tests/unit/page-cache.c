/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files in the page cache of a fake guest, and damaged ones
 */

#include <glib.h>
#include <string.h>

#include "fake-linux.h"
#include "guest-linux/page-cache.h"

#define FRAME   (FAKE_FILE / GUEST_PAGE_SIZE)
#define FRAMES  32
#define BUDGET  1000

struct fixture {
    struct fake_linux f;
    struct guest_memory *m;
    struct linux_kernel *k;
    struct linux_file file;
    uint8_t bytes[FRAMES * GUEST_PAGE_SIZE];    /* at FAKE_FILE */
    uint32_t n;                                 /* slots of a node */
};

static void begin(struct fixture *x)
{
    x->k = fake_linux_begin(&x->f, 0, &x->m);
    x->n = x->f.layout.node_slots_n;
    g_assert_cmpuint(x->n, ==, 8);
    for (unsigned i = 0; i < sizeof(x->bytes); i++) {
        x->bytes[i] = (uint8_t)(i ^ i / GUEST_PAGE_SIZE * 31);
    }
    g_assert_true(guest_memory_add_bytes(x->m, FAKE_FILE, sizeof(x->bytes),
                                         x->bytes));
}

static void end(struct fixture *x)
{
    fake_linux_end(&x->f, x->m, x->k);
}

/* Can it be read?  It is then what is in these frames, from @at on. */
static bool can_read(struct fixture *x, uint64_t offset, size_t size,
                     size_t at)
{
    g_autofree uint8_t *buf = g_malloc(size);
    bool good;

    linux_kernel_begin(x->k);
    x->file = (struct linux_file) { x->k, x->f.mapping, BUDGET };
    good = linux_file_read(&x->file, offset, buf, size);
    if (good) {
        g_assert_cmpmem(buf, size, x->bytes + at, size);
    }
    g_assert_cmpuint(x->file.budget, >=, BUDGET - 2 - size / GUEST_PAGE_SIZE);
    return good;
}

static uint64_t page(struct fixture *x, unsigned frame, uint64_t index)
{
    return fake_linux_page(&x->f, FRAME + frame, x->f.mapping, index);
}

static void put(struct fixture *x, uint64_t node, unsigned slot,
                uint64_t entry)
{
    fake_linux_put64(&x->f, node, x->f.layout.node_slots + 8 * slot, entry);
}

static void put_root(struct fixture *x, uint64_t entry)
{
    fake_linux_put64(&x->f, x->f.mapping, x->f.layout.mapping_pages, entry);
}

/* A tree of two nodes: the root, which it returns, and @leaf in its slot 0 */
static uint64_t put_nodes(struct fixture *x, uint64_t *leaf)
{
    uint64_t top = fake_linux_node(&x->f, 3);

    *leaf = fake_linux_node(&x->f, 0);
    put_root(x, top | 2);
    put(x, top, 0, *leaf | 2);
    return top;
}

static void test_one(void)
{
    struct fixture x;

    begin(&x);
    put_root(&x, page(&x, 3, 0));
    g_assert_true(can_read(&x, 10, 100, 3 * GUEST_PAGE_SIZE + 10));
    g_assert_true(can_read(&x, 0, GUEST_PAGE_SIZE, 3 * GUEST_PAGE_SIZE));
    g_assert_true(can_read(&x, 0, 0, 0));
    g_assert_false(can_read(&x, 1, GUEST_PAGE_SIZE, 0));
    g_assert_false(can_read(&x, GUEST_PAGE_SIZE, 1, 0));
    g_assert_false(can_read(&x, UINT64_MAX - 1, 2, 0));
    g_assert_false(can_read(&x, UINT64_MAX - 1, 3, 0));
    put_root(&x, 0);
    g_assert_false(can_read(&x, 0, 1, 0));
    end(&x);
}

/* Pages in any frames, in three levels of nodes */
static void test_tree(void)
{
    uint8_t buf[3 * GUEST_PAGE_SIZE], zeros[GUEST_PAGE_SIZE] = { 0 };
    struct fixture x;
    uint64_t top, middle, leaf;

    begin(&x);
    top = fake_linux_node(&x.f, 6);
    middle = fake_linux_node(&x.f, 3);
    leaf = fake_linux_node(&x.f, 0);
    put_root(&x, top | 2);
    put(&x, top, 2, middle | 2);
    put(&x, middle, 1, leaf | 2);
    put(&x, leaf, 4, page(&x, 9, 140));
    put(&x, leaf, 5, page(&x, 2, 141));
    put(&x, leaf, 7, page(&x, 5, 143));
    g_assert_true(can_read(&x, 140 * GUEST_PAGE_SIZE + 1, 4095,
                           9 * GUEST_PAGE_SIZE + 1));
    g_assert_true(can_read(&x, 141 * GUEST_PAGE_SIZE, 50,
                           2 * GUEST_PAGE_SIZE));
    g_assert_false(can_read(&x, 142 * GUEST_PAGE_SIZE, 1, 0));
    g_assert_false(can_read(&x, 140 * GUEST_PAGE_SIZE, sizeof(buf), 0));
    g_assert_false(can_read(&x, 12 * GUEST_PAGE_SIZE, 1, 0));
    g_assert_false(can_read(&x, 512 * GUEST_PAGE_SIZE, 1, 0));
    g_assert_false(can_read(&x, (512 + 140) * GUEST_PAGE_SIZE, 1, 0));
    /* What is there, and zeros for what is not */
    x.file = (struct linux_file) { x.k, x.f.mapping, BUDGET };
    g_assert_false(linux_file_read_present(&x.file, 141 * GUEST_PAGE_SIZE, buf,
                                           sizeof(buf)));
    g_assert_cmpmem(buf, GUEST_PAGE_SIZE, x.bytes + 2 * GUEST_PAGE_SIZE,
                    GUEST_PAGE_SIZE);
    g_assert_cmpmem(buf + GUEST_PAGE_SIZE, GUEST_PAGE_SIZE, zeros,
                    GUEST_PAGE_SIZE);
    g_assert_cmpmem(buf + 2 * GUEST_PAGE_SIZE, GUEST_PAGE_SIZE,
                    x.bytes + 5 * GUEST_PAGE_SIZE, GUEST_PAGE_SIZE);
    /* As far as the budget goes */
    x.file.budget = 1;
    g_assert_true(linux_file_read(&x.file, 140 * GUEST_PAGE_SIZE, buf, 1));
    g_assert_false(linux_file_read(&x.file, 140 * GUEST_PAGE_SIZE, buf, 1));
    end(&x);
}

/* Folios of several pages: in entries of a leaf, and of a node above */
static void test_folio(void)
{
    struct fixture x;
    uint64_t top, leaf;

    begin(&x);
    top = put_nodes(&x, &leaf);
    put(&x, leaf, 4, page(&x, 20, 4));
    put(&x, leaf, 5, 4 << 2 | 2);
    put(&x, leaf, 6, 4 << 2 | 2);
    put(&x, leaf, 7, 4 << 2 | 2);
    put(&x, top, 2, page(&x, 0, 16));
    put(&x, top, 3, 2 << 2 | 2);
    g_assert_true(can_read(&x, 4 * GUEST_PAGE_SIZE, 4 * GUEST_PAGE_SIZE,
                           20 * GUEST_PAGE_SIZE));
    g_assert_true(can_read(&x, 6 * GUEST_PAGE_SIZE + 7, 9,
                           22 * GUEST_PAGE_SIZE + 7));
    g_assert_true(can_read(&x, 16 * GUEST_PAGE_SIZE, 16 * GUEST_PAGE_SIZE, 0));
    g_assert_true(can_read(&x, 31 * GUEST_PAGE_SIZE, 5,
                           15 * GUEST_PAGE_SIZE));
    g_assert_false(can_read(&x, 8 * GUEST_PAGE_SIZE, 1, 0));
    /* Older kernels have the first page in each entry. */
    put(&x, leaf, 6, page(&x, 20, 4));
    g_assert_true(can_read(&x, 6 * GUEST_PAGE_SIZE + 7, 9,
                           22 * GUEST_PAGE_SIZE + 7));
    end(&x);
}

/* Entries that are no pages, and pages that are not the file's */
static void test_others(void)
{
    static const uint64_t entries[] = {
        1, 0xabcd01,                    /* values: swapped out, or DAX */
        0x402, 0x102,                   /* being replaced; of no slot */
        8, 0x1000, 0x7fff12345000,      /* no addresses of the kernel */
        UINT64_MAX - 7, 0xffffc90000000000, FAKE_STEXT,
    };
    struct fixture x;
    const struct linux_layout *l;
    uint64_t leaf, at;

    begin(&x);
    l = &x.f.layout;
    leaf = fake_linux_node(&x.f, 0);
    put_root(&x, leaf | 2);
    for (unsigned i = 0; i < G_N_ELEMENTS(entries); i++) {
        put(&x, leaf, 1, entries[i]);
        g_assert_false(can_read(&x, GUEST_PAGE_SIZE, 1, 0));
    }
    at = page(&x, 7, 1);
    put(&x, leaf, 1, at);
    g_assert_true(can_read(&x, GUEST_PAGE_SIZE, 1, 7 * GUEST_PAGE_SIZE));
    put(&x, leaf, 1, at + 8);           /* not where one begins */
    g_assert_false(can_read(&x, GUEST_PAGE_SIZE, 1, 0));
    put(&x, leaf, 1, at);
    fake_linux_put64(&x.f, at, l->page_mapping, x.f.mapping + 64);
    g_assert_false(can_read(&x, GUEST_PAGE_SIZE, 1, 0));
    page(&x, 7, 2);                     /* a page after this one */
    g_assert_false(can_read(&x, GUEST_PAGE_SIZE, 1, 0));
    page(&x, 7, 1);
    fake_linux_put64(&x.f, at, l->page_flags, ~UINT64_C(4));
    g_assert_false(can_read(&x, GUEST_PAGE_SIZE, 1, 0));
    /* Where there is no such memory */
    put(&x, leaf, 1, fake_linux_page(&x.f, FRAME + FRAMES, x.f.mapping, 1));
    g_assert_false(can_read(&x, GUEST_PAGE_SIZE, 1, 0));
    end(&x);
}

/* Trees that are none: a read ends, and finds nothing. */
static void test_damage(void)
{
    struct fixture x;
    uint64_t top, leaf;

    begin(&x);
    top = put_nodes(&x, &leaf);
    put(&x, leaf, 1, page(&x, 1, 1));
    g_assert_true(can_read(&x, GUEST_PAGE_SIZE, 1, GUEST_PAGE_SIZE));
    /* A node below itself, and below the one below */
    put(&x, top, 0, top | 2);
    g_assert_false(can_read(&x, GUEST_PAGE_SIZE, 1, 0));
    put(&x, top, 0, leaf | 2);
    put(&x, leaf, 1, top | 2);
    g_assert_false(can_read(&x, GUEST_PAGE_SIZE, 1, 0));
    put(&x, leaf, 1, page(&x, 1, 1));
    /* Shifts that cannot be */
    for (unsigned shift = 1; shift < 256; shift++) {
        *fake_linux_at(&x.f, leaf + x.f.layout.node_shift) = (uint8_t)shift;
        g_assert_false(can_read(&x, GUEST_PAGE_SIZE, 1, 0));
    }
    *fake_linux_at(&x.f, leaf + x.f.layout.node_shift) = 0;
    for (unsigned shift = 0; shift < 256; shift++) {
        *fake_linux_at(&x.f, top + x.f.layout.node_shift) = (uint8_t)shift;
        g_assert_true(can_read(&x, GUEST_PAGE_SIZE, 1, GUEST_PAGE_SIZE) ==
                      (shift == 3));
    }
    *fake_linux_at(&x.f, top + x.f.layout.node_shift) = 3;
    /* Entries that are parts of each other, and of themselves */
    put(&x, leaf, 1, 2 << 2 | 2);
    put(&x, leaf, 2, 1 << 2 | 2);
    put(&x, leaf, 3, 3 << 2 | 2);
    for (unsigned i = 1; i < 4; i++) {
        g_assert_false(can_read(&x, i * GUEST_PAGE_SIZE, 1, 0));
    }
    put(&x, top, 0, 0xffffc90000000000 | 2);
    g_assert_false(can_read(&x, GUEST_PAGE_SIZE, 1, 0));
    put_root(&x, UINT64_MAX - 1);
    g_assert_false(can_read(&x, GUEST_PAGE_SIZE, 1, 0));
    end(&x);
}

/* A kernel of which this is not known has no files to read. */
static void test_unknown(void)
{
    static const uint32_t sizes[] = { 0, 16, 257, UINT32_MAX };
    static const uint32_t slots[] = { 0, 7, 63, 128 };
    struct fixture x;
    struct linux_kernel good;
    uint64_t leaf;

    begin(&x);
    leaf = fake_linux_node(&x.f, 0);
    put_root(&x, leaf | 2);
    put(&x, leaf, 1, page(&x, 1, 1));
    linux_kernel_begin(x.k);
    good = *x.k;
    for (unsigned i = 0; i < 6; i++) {
        struct linux_layout *l = &x.k->layout;
        uint32_t *known[] = {
            &l->mapping_pages, &l->node_shift, &l->node_slots, &l->page_flags,
            &l->page_mapping, &l->page_index,
        };

        *known[i] = LINUX_NONE;
        g_assert_false(can_read(&x, GUEST_PAGE_SIZE, 1, 0));
        *x.k = good;
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        x.k->page_size = sizes[i];
        g_assert_false(can_read(&x, GUEST_PAGE_SIZE, 1, 0));
        *x.k = good;
        x.k->layout.node_slots_n = slots[i];
        g_assert_false(can_read(&x, GUEST_PAGE_SIZE, 1, 0));
        *x.k = good;
    }
    x.k->vmemmap = 0;
    g_assert_false(can_read(&x, GUEST_PAGE_SIZE, 1, 0));
    *x.k = good;
    /* Which flag it is need not be known. */
    x.k->layout.page_uptodate = -1;
    g_assert_true(can_read(&x, GUEST_PAGE_SIZE, 1, GUEST_PAGE_SIZE));
    end(&x);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/page-cache/one", test_one);
    g_test_add_func("/page-cache/tree", test_tree);
    g_test_add_func("/page-cache/folio", test_folio);
    g_test_add_func("/page-cache/others", test_others);
    g_test_add_func("/page-cache/damage", test_damage);
    g_test_add_func("/page-cache/unknown", test_unknown);
    return g_test_run();
}
