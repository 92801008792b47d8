/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/wake-order.h: wake-ups belong to the waits that they have
 * ended, in whatever order they are read
 */

#include "analyze/wake-order.h"
#include "wake-samples.h"

/* What is known of a thread, and of its waits: who has ended them */
struct follower {
    struct wake_order order;
    unsigned wait;
    bool away;
    bool woken;
    unsigned early;
    unsigned ended_by[WAKE_WAITS];
    unsigned kinds[WAKE_OF_NEXT + 1];   /* no WAKE_INSTEAD */
};

static void take(struct follower *f, const struct wake_step *s)
{
    enum wake_wait of;

    switch (s->kind) {
    case WAKE_STEP_LEAVES:
        f->wait = s->wait;
        f->away = true;
        f->woken = wake_order_leaves(&f->order, s->time, WAKE_SLACK, true);
        if (f->woken) {
            f->ended_by[f->wait] = f->early;
        }
        break;
    case WAKE_STEP_COMES:
        wake_order_comes(&f->order, s->time, !f->woken);
        f->away = false;
        break;
    default:
        of = wake_order_wakes(&f->order, s->time, WAKE_SLACK,
                              f->away && !f->woken);
        f->kinds[of]++;
        if (of == WAKE_OF_NEXT) {
            f->early = s->wait;
        } else {
            f->ended_by[f->wait - (of == WAKE_OF_PAST && f->away)] = s->wait;
            f->woken |= of == WAKE_OF_PRESENT;
        }
        break;
    }
}

static void test_random(void)
{
    GRand *rand = g_rand_new_with_seed(40);

    for (unsigned round = 0; round < 100; round++) {
        g_autoptr(GArray) steps = wake_samples(rand);
        bool any[WAKE_WAITS] = { false };
        struct follower f = { 0 };

        for (unsigned i = 0; i < WAKE_WAITS; i++) {
            f.ended_by[i] = WAKE_NO_WAIT;
        }
        for (guint i = 0; i < steps->len; i++) {
            const struct wake_step *s = &g_array_index(steps, struct wake_step,
                                                       i);

            take(&f, s);
            if (s->kind == WAKE_STEP_WOKEN && s->wait != WAKE_NO_WAIT) {
                any[s->wait] = true;
            }
        }
        for (unsigned i = 0; i < WAKE_WAITS; i++) {
            g_assert_cmpuint(f.ended_by[i], ==, any[i] ? i : WAKE_NO_WAIT);
        }
        for (unsigned i = 0; i < G_N_ELEMENTS(f.kinds); i++) {
            g_assert_cmpint(f.kinds[i] > 0, ==, i != WAKE_INSTEAD);
        }
    }
    g_rand_free(rand);
}

/* One that has left for another reason is not woken, nor later. */
static void test_ready(void)
{
    struct wake_order o = { 0 };

    g_assert_cmpint(wake_order_wakes(&o, 100, 10, false), ==, WAKE_OF_NEXT);
    g_assert_false(wake_order_leaves(&o, 105, 10, false));
    g_assert_false(wake_order_leaves(&o, 105, 10, true));
}

/* It was woken already, and runs and leaves again as is read later. */
static void test_ahead(void)
{
    struct wake_order o = { 0 };

    g_assert_cmpint(wake_order_wakes(&o, 100, 10, true), ==, WAKE_OF_PRESENT);
    g_assert_cmpint(wake_order_wakes(&o, 120, 10, false), ==, WAKE_OF_NEXT);
    wake_order_comes(&o, 110, false);
    g_assert_true(wake_order_leaves(&o, 115, 10, true));
    g_assert_cmpuint(o.woken, ==, 120);
}

/*
 * Soon after it is back, nobody having been seen to wake it, it leaves again.  A
 * wake-up before that ends the other wait; one after that ends this one, if it
 * is not followed by another.
 */
static void test_again(void)
{
    for (uint64_t time = 105; time <= 115; time += 5) {
        struct wake_order o = { 0 };
        bool past = time < 110;

        wake_order_comes(&o, 100, true);
        g_assert_false(wake_order_leaves(&o, 110, 50, true));
        g_assert_cmpint(wake_order_wakes(&o, time, 50, true), ==,
                        past ? WAKE_OF_PAST : WAKE_OF_PRESENT);
        g_assert_cmpint(wake_order_wakes(&o, 120, 50, past), ==,
                        past ? WAKE_OF_PRESENT : WAKE_INSTEAD);
        /* All is known. */
        wake_order_comes(&o, 130, false);
        g_assert_cmpint(wake_order_wakes(&o, 131, 50, false), ==,
                        WAKE_OF_NEXT);
    }
}

/* Of two waits, one wake-up was seen before the thread is back. */
static void test_doubt(void)
{
    struct wake_order o = { 0 };

    wake_order_comes(&o, 100, true);
    wake_order_leaves(&o, 110, 50, true);
    g_assert_cmpint(wake_order_wakes(&o, 115, 50, true), ==, WAKE_OF_PRESENT);
    wake_order_comes(&o, 120, false);
    g_assert_cmpint(wake_order_wakes(&o, 125, 50, false), ==, WAKE_OF_PAST);
}

static void test_slack(void)
{
    g_assert_cmpuint(wake_order_slack(1000000), ==, 4000000);
    g_assert_cmpuint(wake_order_slack(0), >, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/wake-order/random", test_random);
    g_test_add_func("/wake-order/ready", test_ready);
    g_test_add_func("/wake-order/ahead", test_ahead);
    g_test_add_func("/wake-order/again", test_again);
    g_test_add_func("/wake-order/doubt", test_doubt);
    g_test_add_func("/wake-order/slack", test_slack);
    return g_test_run();
}
