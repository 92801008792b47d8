/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Waits of a thread at random: see wake-samples.h
 */

#include "wake-samples.h"

static void add(GArray *steps, enum wake_step_kind kind, uint64_t time,
                unsigned wait)
{
    const struct wake_step step = { kind, time, wait };

    g_array_append_val(steps, step);
}

static gint by_time(gconstpointer a, gconstpointer b)
{
    const struct wake_step *x = a, *y = b;

    return (x->time > y->time) - (x->time < y->time);
}

/* What another vCPU does then seems to be earlier or later. */
static uint64_t elsewhere(GRand *rand, uint64_t time)
{
    return time + g_rand_int_range(rand, -(int)WAKE_SLACK, WAKE_SLACK + 1);
}

GArray *wake_samples(GRand *rand)
{
    GArray *steps = g_array_new(FALSE, FALSE, sizeof(struct wake_step));
    uint64_t now = 100 * WAKE_SLACK;

    for (unsigned i = 0; i < WAKE_WAITS; i++) {
        uint64_t wait = g_rand_int_range(rand, 0, 4 * WAKE_SLACK) + 1;
        uint64_t ran = g_rand_int_range(rand, 5 * WAKE_SLACK, 9 * WAKE_SLACK);

        add(steps, WAKE_STEP_LEAVES, now, i);
        if (g_rand_int_range(rand, 0, 8)) {
            add(steps, WAKE_STEP_WOKEN, elsewhere(
                    rand, now + g_rand_int_range(rand, 0, wait)), i);
        }
        now += wait;
        add(steps, WAKE_STEP_COMES, now, i);
        if (!g_rand_int_range(rand, 0, 3)) {
            add(steps, WAKE_STEP_WOKEN, elsewhere(rand, now + ran / 2),
                WAKE_NO_WAIT);
        }
        now += ran;
    }
    g_array_sort(steps, by_time);
    return steps;
}
