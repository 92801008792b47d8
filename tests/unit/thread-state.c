/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/thread-state.h: which thread it is, and in which state
 */

#include <glib.h>

#include "analyze/thread-state.h"

/* Every TASK event that there can be */
static void test_left(void)
{
    unsigned seen[THREAD_DEAD + 1] = { 0 };

    for (unsigned reason = 0; reason <= UINT16_MAX; reason++) {
        const struct btrail_event event = {
            .type = BTRAIL_EVENT_TASK, .reason = reason,
        };
        unsigned flags = reason & BTRAIL_TASK_LEFT;
        enum thread_state state;
        struct btrail_left left;

        g_assert_cmpint(btrail_event_left(&event, &left), ==, 0);
        state = thread_state_left(&left);
        seen[state]++;
        g_assert_cmpint(state == THREAD_UNKNOWN, ==, flags == 0);
        g_assert_cmpint(state == THREAD_RUNNABLE, ==,
                        flags == BTRAIL_TASK_LEFT_RUNNABLE);
        g_assert_cmpint(state == THREAD_DEAD, ==,
                        flags == BTRAIL_TASK_LEFT_DEAD);
    }
    g_assert_cmpuint(seen[THREAD_RUNNING], ==, 0);
    g_assert_cmpuint(seen[THREAD_BLOCKED], >, 0);
}

static bool same(const struct btrail_kernel *a, uint32_t a_pid,
                 uint32_t a_tid, uint64_t a_idle,
                 const struct btrail_kernel *b, uint32_t b_pid,
                 uint32_t b_tid, uint64_t b_idle)
{
    uint64_t x[2], y[2];

    thread_key(x, a, a_pid, a_tid, a_idle);
    thread_key(y, b, b_pid, b_tid, b_idle);
    return x[0] == y[0] && x[1] == y[1];
}

static void test_keys(void)
{
    const struct btrail_kernel one = { .known = true, .number = 1 };
    const struct btrail_kernel two = { .known = true, .number = 2 };
    /* What is not known says nothing. */
    const struct btrail_kernel unknown = { .number = 2 }, none = { 0 };

    g_assert_true(same(&one, 7, 8, 0, &one, 7, 8, 5));
    g_assert_false(same(&one, 7, 8, 0, &two, 7, 8, 0));
    g_assert_false(same(&one, 7, 8, 0, &unknown, 7, 8, 0));
    g_assert_true(same(&unknown, 7, 8, 0, &none, 7, 8, 0));
    g_assert_false(same(&one, 7, 8, 0, &one, 8, 7, 0));
    g_assert_false(same(&one, 7, 7, 0, &one, 0, 7, 0));
    /* Idle tasks are those of vCPUs, if somebody tells them apart. */
    g_assert_true(same(&one, 0, 0, 3, &one, 0, 0, 3));
    g_assert_false(same(&one, 0, 0, 3, &one, 0, 0, 4));
    g_assert_false(same(&one, 0, 0, 0, &two, 0, 0, 0));
    g_assert_false(same(&one, UINT32_MAX, UINT32_MAX, 0,
                        &one, 0, UINT32_MAX, 0));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/thread-state/left", test_left);
    g_test_add_func("/thread-state/keys", test_keys);
    return g_test_run();
}
