/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tables of limited size: what makes room, and when
 */

#include "util/recent.h"

struct sample {
    struct recent_entry entry;
    unsigned n;
};

static GString *forgotten;

static void forget(void *opaque, void *entry)
{
    const struct sample *s = entry;

    g_assert_true(opaque == &forgotten);
    g_string_append_printf(forgotten, "%u ", s->n);
}

static struct sample *add(struct recent *r, unsigned n)
{
    struct sample *s = g_new0(struct sample, 1);

    s->entry.key[0] = n / 10;
    s->entry.key[1] = n % 10;
    s->n = n;
    recent_add(r, s);
    return s;
}

static void test_order(void)
{
    struct recent *r = recent_new(3, forget, &forgotten);
    struct sample *two, *taken;

    forgotten = g_string_new("");
    add(r, 1);
    two = add(r, 2);
    add(r, 13);
    g_assert_true(recent_find(r, 0, 2) == two);
    g_assert_nonnull(recent_find(r, 0, 1));
    g_assert_null(recent_find(r, 0, 3));
    g_assert_nonnull(recent_find(r, 1, 3));
    /* What was found last is kept longest. */
    add(r, 4);
    g_assert_cmpstr(forgotten->str, ==, "2 ");
    g_assert_null(recent_find(r, 0, 2));
    add(r, 5);
    g_assert_cmpstr(forgotten->str, ==, "2 1 ");
    /* What is taken makes room, and is not forgotten. */
    taken = recent_take(r, 1, 3);
    g_assert_cmpuint(taken->n, ==, 13);
    g_assert_null(recent_take(r, 1, 3));
    add(r, 6);
    g_assert_cmpstr(forgotten->str, ==, "2 1 ");
    recent_add(r, taken);
    g_assert_cmpstr(forgotten->str, ==, "2 1 4 ");
    g_assert_true(recent_find(r, 1, 3) == taken);
    recent_free(r);
    g_assert_cmpstr(forgotten->str, ==, "2 1 4 ");
    g_string_free(forgotten, TRUE);
    recent_free(NULL);
}

/* Against a list of all that was used, with keys that are used at random */
static void test_random(void)
{
    struct recent *r = recent_new(20, NULL, NULL);
    g_autoptr(GQueue) used = g_queue_new();

    for (unsigned i = 0; i < 20000; i++) {
        unsigned n = g_test_rand_int_range(0, 40);
        GList *link = g_queue_find(used, GUINT_TO_POINTER(n));
        struct sample *s = recent_find(r, n / 10, n % 10);

        g_assert_cmpint(!s, ==, !link);
        if (link) {
            g_assert_cmpuint(s->n, ==, n);
            g_queue_unlink(used, link);
            g_list_free(link);
        } else {
            add(r, n);
        }
        g_queue_push_tail(used, GUINT_TO_POINTER(n));
        if (used->length > 20) {
            g_queue_pop_head(used);
        }
    }
    recent_free(r);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/recent/order", test_order);
    g_test_add_func("/recent/random", test_random);
    return g_test_run();
}
