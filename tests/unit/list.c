/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of guest-linux/list.h: random lists, and such as a kernel that changes
 * them, or an attacker, could have
 */

#include <glib.h>
#include <string.h>

#include "fake-space.h"
#include "guest-linux/list.h"

#define PAGE    UINT64_C(0xffff888000010000)
#define USER    UINT64_C(0x400000)
#define PITCH   64u             /* from one struct to the next */
#define NODE    16u             /* where its node is */
#define MOST    (GUEST_PAGE_SIZE / PITCH - 1)

/* Struct 0 is the head; the others are in the list, in some order. */
struct scene {
    struct fake_space space;
    struct guest_memory *memory;
    struct linux_kernel *kernel;
    uint8_t *page;
    unsigned order[MOST + 1];
    unsigned n;
    GArray *seen;               /* of uint64_t */
};

static uint64_t item(unsigned i)
{
    return PAGE + PITCH * i;
}

static uint64_t node(unsigned i)
{
    return item(i) + NODE;
}

/* A pointer of a node: its next one, or the one before it */
static void set(struct scene *s, unsigned i, bool before, uint64_t to)
{
    memcpy(s->page + PITCH * i + NODE + 8 * before, &to, sizeof(to));
}

static void link_all(struct scene *s)
{
    for (unsigned i = 0; i <= s->n; i++) {
        unsigned next = s->order[i == s->n ? 0 : i + 1];

        set(s, s->order[i], false, node(next));
        set(s, next, true, node(s->order[i]));
    }
}

static void begin(struct scene *s, unsigned n)
{
    uint64_t root;

    *s = (struct scene) {
        .n = n, .seen = g_array_new(FALSE, FALSE, sizeof(uint64_t)),
        .kernel = g_new0(struct linux_kernel, 1),
    };
    fake_space_init(&s->space, 16);
    root = fake_space_root(&s->space);
    s->page = fake_space_page(&s->space, root, PAGE);
    s->memory = fake_space_memory(&s->space);
    page_walk_init(&s->kernel->walk, s->memory, root, 4, 100000);
    for (unsigned i = 0; i <= n; i++) {
        unsigned k = i < 2 ? i : (unsigned)g_test_rand_int_range(1, i + 1);

        s->order[i] = s->order[k];
        s->order[k] = i;
    }
    link_all(s);
}

static void end(struct scene *s)
{
    guest_memory_free(s->memory);
    fake_space_clear(&s->space);
    g_array_unref(s->seen);
    g_free(s->kernel);
}

static void visit(struct linux_kernel *k, uint64_t found, void *opaque)
{
    struct scene *s = opaque;

    g_assert_true(k == s->kernel);
    g_array_append_val(s->seen, found);
}

/* Is it read to its end?  The first @n structs are visited, in order. */
static void check(struct scene *s, unsigned most, bool whole, unsigned n)
{
    g_array_set_size(s->seen, 0);
    g_assert_cmpint(linux_list(s->kernel, node(0), NODE, most, visit, s), ==,
                    whole);
    g_assert_cmpuint(s->seen->len, ==, n);
    for (unsigned i = 0; i < n; i++) {
        g_assert_cmphex(g_array_index(s->seen, uint64_t, i), ==,
                        item(s->order[1 + i]));
    }
}

static void test_random(void)
{
    for (unsigned n = 0; n <= MOST; n++) {
        struct scene s;

        begin(&s, n);
        check(&s, n, true, n);
        check(&s, UINT32_MAX - 1, true, n);
        if (n) {
            /* There are more than that; one of these may be visited. */
            g_array_set_size(s.seen, 0);
            g_assert_false(linux_list(s.kernel, node(0), NODE, n - 1, visit,
                                      &s));
            g_assert_cmpuint(s.seen->len, <=, n);
        }
        end(&s);
    }
}

/* What was taken out, or put in, meanwhile does not point back. */
static void test_changed(void)
{
    static const uint64_t pointers[] = {
        0, 1, UINT64_MAX, UINT64_MAX - 7, 0x1000, PAGE + 2 * GUEST_PAGE_SIZE,
        PAGE + GUEST_PAGE_SIZE - 8, UINT64_C(0x888000010000),
    };
    struct scene s;

    begin(&s, 20);
    for (unsigned i = 0; i <= s.n; i++) {
        for (unsigned k = 0; k < G_N_ELEMENTS(pointers); k++) {
            /* Those before it, and itself, are visited. */
            set(&s, s.order[i], false, pointers[k]);
            check(&s, 100, false, i);
            link_all(&s);
            if (i) {
                set(&s, s.order[i], true, pointers[k]);
                check(&s, 100, false, i - 1);
                link_all(&s);
            }
        }
        check(&s, 100, true, s.n);
    }
    set(&s, 0, true, node(s.order[3]));
    check(&s, 100, false, s.n);
    end(&s);
}

/* A program's memory is no place for a list of the kernel, whatever it has. */
static void test_user(void)
{
    const uint64_t to_head[2] = { node(0), node(0) };
    struct scene s;

    begin(&s, 0);
    check(&s, 100, true, 0);
    fake_space_put(&s.space, s.kernel->walk.root, USER, to_head,
                   sizeof(to_head));
    set(&s, 0, false, USER);
    set(&s, 0, true, USER);
    check(&s, 100, false, 0);
    end(&s);
}

/* A kernel without such a list, and one that must not be read any more */
static void test_none(void)
{
    struct scene s;

    begin(&s, 3);
    g_assert_false(linux_list(s.kernel, node(0), LINUX_NONE, 100, visit, &s));
    g_assert_cmpuint(s.seen->len, ==, 0);
    s.kernel->walk.budget = 0;
    check(&s, 100, false, 0);
    end(&s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/list/random", test_random);
    g_test_add_func("/list/changed", test_changed);
    g_test_add_func("/list/user", test_user);
    g_test_add_func("/list/none", test_none);
    return g_test_run();
}
