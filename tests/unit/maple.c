/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Maple trees, as the kernel stores mappings of a process
 */

#include <glib.h>
#include <string.h>

#include "fake-linux.h"
#include "guest-linux/maple.h"

struct fixture {
    struct fake_linux f;
    struct guest_memory *m;
    struct linux_kernel *k;
    uint64_t nodes;             /* where three of them have room */
    GArray *seen;
};

static bool see(struct linux_kernel *k, uint64_t entry, void *opaque)
{
    GArray *seen = opaque;

    g_array_append_val(seen, entry);
    return entry != 0x666000;
}

static void begin(struct fixture *x)
{
    x->k = fake_linux_begin(&x->f, 0, &x->m);
    linux_kernel_begin(x->k);
    x->nodes = (x->f.next + 255) & ~UINT64_C(255);
    x->seen = g_array_new(FALSE, FALSE, sizeof(uint64_t));
}

static void end(struct fixture *x)
{
    g_array_free(x->seen, TRUE);
    fake_linux_end(&x->f, x->m, x->k);
}

static bool walk(struct fixture *x, uint64_t root)
{
    g_array_set_size(x->seen, 0);
    return linux_maple_each(x->k, root, see, x->seen);
}

static void put(struct fixture *x, unsigned node, unsigned i, uint64_t pivot,
                uint64_t slot)
{
    uint64_t at = x->nodes + 256 * node;
    const struct linux_layout *l = &x->f.layout;

    if (i < l->range_slots - 1) {
        fake_linux_put64(&x->f, at, l->range_pivot + 8 * i, pivot);
    }
    fake_linux_put64(&x->f, at, l->range_slot + 8 * i, slot);
}

#define LEAF    (1 << 3)
#define RANGE   (2 << 3)

static void test_root(void)
{
    struct fixture x;

    begin(&x);
    g_assert_true(walk(&x, 0));
    g_assert_cmpuint(x.seen->len, ==, 0);
    g_assert_true(walk(&x, 0x1000));
    g_assert_cmpuint(x.seen->len, ==, 1);
    g_assert_false(walk(&x, 0x666000));
    /* The tree's own entries are no nodes. */
    g_assert_false(walk(&x, 0x402));
    g_assert_false(walk(&x, UINT64_MAX - 1));
    end(&x);
}

static void test_walk(void)
{
    struct fixture x;
    uint64_t root;
    unsigned i;

    begin(&x);
    root = x.nodes | RANGE | 2;
    put(&x, 0, 0, 999, (x.nodes + 256) | LEAF);
    put(&x, 0, 1, 0, (x.nodes + 512) | LEAF);
    put(&x, 1, 0, 9, 0);
    put(&x, 1, 1, 20, 0x1000);
    put(&x, 1, 2, 30, 0x402);           /* reserved */
    put(&x, 1, 3, 999, 0x2000);
    put(&x, 1, 4, 5, 0x9000);           /* after its end */
    for (i = 0; i < 8; i++) {           /* a full one */
        put(&x, 2, i, 2000 + i, 0x10000 * (i + 1));
    }
    g_assert_true(walk(&x, root));
    g_assert_cmpuint(x.seen->len, ==, 10);
    g_assert_cmphex(g_array_index(x.seen, uint64_t, 0), ==, 0x1000);
    g_assert_cmphex(g_array_index(x.seen, uint64_t, 1), ==, 0x2000);
    g_assert_cmphex(g_array_index(x.seen, uint64_t, 9), ==, 0x80000);
    end(&x);
}

static void test_damage(void)
{
    struct fixture x;
    uint64_t root;

    begin(&x);
    root = x.nodes | RANGE | 2;
    /* A child that is itself, of all that there is */
    put(&x, 0, 0, UINT64_MAX, x.nodes | RANGE);
    g_assert_false(walk(&x, root));
    /* Of one after the other */
    put(&x, 0, 0, 1000, x.nodes | RANGE);
    put(&x, 0, 1, 2000, x.nodes | RANGE);
    g_assert_false(walk(&x, root));
    /* Pivots that go back */
    put(&x, 1, 0, 50, 0x1000);
    put(&x, 1, 1, 40, 0x1000);
    g_assert_false(walk(&x, (x.nodes + 256) | LEAF | 2));
    g_assert_cmpuint(x.seen->len, ==, 1);
    /* No child, no type, no memory */
    put(&x, 0, 0, UINT64_MAX, 0);
    g_assert_false(walk(&x, root));
    g_assert_false(walk(&x, x.nodes | 15 << 3 | 2));
    g_assert_false(walk(&x, 0xffffc90000000000 | LEAF | 2));
    /* A node that is no more in the tree */
    put(&x, 2, 0, UINT64_MAX, 0x1000);
    g_assert_true(walk(&x, (x.nodes + 512) | LEAF | 2));
    fake_linux_put64(&x.f, x.nodes + 512, x.f.layout.range_parent,
                     x.nodes + 512);
    g_assert_false(walk(&x, (x.nodes + 512) | LEAF | 2));
    end(&x);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/maple/root", test_root);
    g_test_add_func("/maple/walk", test_walk);
    g_test_add_func("/maple/damage", test_damage);
    return g_test_run();
}
