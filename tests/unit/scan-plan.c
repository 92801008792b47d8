/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of guest-linux/scan-plan.h: when a scanner reads its guest
 */

#include "guest-linux/scan-plan.h"
#include "util/clock.h"

#define MS          UINT64_C(1000000)
#define S           (1000 * MS)

static struct kernel_numbers *numbers;

static uint64_t start(struct scan_plan *p, bool wait_for_scan)
{
    numbers = kernel_numbers_new();
    scan_plan_init(p, wait_for_scan, NULL, numbers);
    return clock_ns();
}

static void end(struct scan_plan *p)
{
    scan_plan_clear(p);
    kernel_numbers_unref(numbers);
}

static bool begin(struct scan_plan *p, uint64_t now)
{
    bool more;

    g_mutex_lock(&p->lock);
    more = scan_plan_begin(p, now);
    g_mutex_unlock(&p->lock);
    return more;
}

/* At first all is due; later what was requested, or has waited for long. */
static void test_due(void)
{
    struct scan_plan p;
    uint64_t now = start(&p, false);

    g_assert_cmpuint(scan_plan_next(&p), ==, 0);
    g_assert_true(begin(&p, now));
    g_assert_true(p.snapshots.due && p.checks.due);
    scan_plan_snapshot_done(&p, now, 1 * MS, false);
    scan_plan_check_done(&p, now, MS / 100);
    g_assert_cmpuint(scan_plan_next(&p), ==, now + 50 * MS);
    g_assert_true(begin(&p, now + 50 * MS - 1));
    g_assert_false(p.snapshots.due || p.checks.due);
    g_assert_true(begin(&p, now + 50 * MS));
    g_assert_true(!p.snapshots.due && p.checks.due);
    scan_plan_check_done(&p, now + 50 * MS, 400 * MS / 1000);
    g_assert_cmpuint(scan_plan_next(&p), ==, now + 200 * MS);
    scan_plan_request(&p, &p.snapshots);
    g_assert_cmpuint(scan_plan_next(&p), ==, now + 1 * MS);
    g_assert_true(begin(&p, now + 60 * MS));
    g_assert_true(p.snapshots.due && !p.checks.due);
    /* A process is new: it is looked at again soon. */
    scan_plan_snapshot_done(&p, now + 60 * MS, 1 * MS, true);
    g_assert_cmpuint(scan_plan_next(&p), ==, now + 70 * MS);
    scan_plan_close(&p);
    g_assert_false(begin(&p, now + 60 * MS));
    g_assert_true(p.snapshots.due && p.checks.due);
    end(&p);
}

/* What was spent must be saved again, by a part of the time: or of a share */
static void test_budget(void)
{
    struct scan_plan p;
    uint64_t now = start(&p, false), at = p.budget.at;

    scan_plan_snapshot_done(&p, at, 300 * MS, false);
    g_assert_cmpuint(p.snapshots.earliest, ==, at + 50 * 100 * MS);
    g_assert_cmpuint(p.snapshots.latest, ==, at + 50 * 300 * MS);
    g_assert_cmpuint(p.snapshots.idle_from, ==, UINT64_MAX);
    /* Half of it is saved. */
    scan_plan_snapshot_done(&p, at + 50 * 50 * MS, 0, false);
    g_assert_cmpuint(p.snapshots.earliest, ==, at + 2 * 50 * 50 * MS);
    /* No more is saved than 200 ms. */
    scan_plan_snapshot_done(&p, at + 1000 * S, 200 * MS, false);
    g_assert_cmpuint(p.snapshots.earliest, ==, at + 1000 * S + MS);
    scan_plan_snapshot_done(&p, at + 1000 * S, 1 * MS, false);
    g_assert_cmpuint(p.snapshots.earliest, ==, at + 1000 * S + 50 * MS);

    kernel_numbers_ref(numbers);
    at = p.check_budget.at;
    scan_plan_check_done(&p, at, 201 * MS);
    g_assert_cmpuint(p.checks.earliest, ==, at + 2 * 200 * MS);
    kernel_numbers_unref(numbers);
    end(&p);

    /* No budget holds if the guest is to wait. */
    now = start(&p, true);
    scan_plan_snapshot_done(&p, now, 300 * MS, false);
    g_assert_cmpuint(p.snapshots.earliest, ==, now + 1 * MS);
    g_assert_cmpuint(p.snapshots.idle_from, ==, 0);
    scan_plan_check_done(&p, now, 300 * MS);
    g_assert_cmpuint(p.checks.earliest, ==, now);
    end(&p);
}

/* Without a kernel there is nothing to check, and searches are rare. */
static void test_search(void)
{
    struct scan_plan p;
    uint64_t now = start(&p, false), at;

    scan_plan_none_found(&p, now, 10 * MS);
    g_assert_cmpuint(p.snapshots.earliest, ==, now + 1 * S);
    g_assert_cmpuint(scan_plan_next(&p), ==, now + 1 * S);
    scan_plan_none_found(&p, now, 100 * MS);
    scan_plan_request(&p, &p.snapshots);
    g_assert_cmpuint(scan_plan_next(&p), ==, now + 2 * S);
    g_assert_cmpuint(scan_plan_search_spacing(&p, 100 * MS), ==, 2 * S);
    /* What is found puts off nothing. */
    scan_plan_begin_first(&p);
    g_assert_cmpuint(p.snapshots.begun, ==, 1);
    end(&p);

    /* Those for a kernel that boots have a budget of their own. */
    start(&p, false);
    at = p.find_budget.at;
    g_assert_cmpuint(scan_plan_booting_searched(&p, at, 1), ==, at + 10 * MS);
    g_assert_cmpuint(scan_plan_booting_searched(&p, at, 1 * S), ==,
                     at + 10 * MS);
    g_assert_cmpuint(scan_plan_booting_searched(&p, at, 1 * S), ==,
                     at + 20 * S + 20);
    end(&p);

    /* A guest that is to wait has searches at once, as long as they are few. */
    start(&p, true);
    at = p.find_budget.at;
    scan_plan_none_found(&p, at, 900 * MS);
    g_assert_cmpuint(p.snapshots.earliest, ==, at);
    g_assert_cmpuint(p.snapshots.latest, ==, at + 100 * MS);
    scan_plan_none_found(&p, at, 200 * MS);
    g_assert_cmpuint(p.snapshots.earliest, ==, at + 20 * 100 * MS);
    g_assert_cmpuint(p.snapshots.idle_from, ==, at + 20 * 100 * MS);
    end(&p);
}

static gpointer do_work(gpointer opaque)
{
    struct scan_plan *p = opaque;
    uint64_t now = clock_ns();

    g_usleep(20000);
    begin(p, now);
    scan_plan_snapshot_done(p, now, 0, false);
    g_usleep(20000);
    scan_plan_check_done(p, now, 0);
    return NULL;
}

/* Who has requested something waits for that, unless it would take long. */
static void test_wait(void)
{
    struct scan_plan p;
    GThread *thread;
    uint64_t now = start(&p, true);

    scan_plan_wait(&p);
    scan_plan_request(&p, &p.snapshots);
    scan_plan_request(&p, &p.checks);
    thread = g_thread_new("work", do_work, &p);
    scan_plan_wait(&p);
    g_assert_cmpuint(p.snapshots.done, ==, 1);
    g_assert_cmpuint(p.checks.done, ==, 1);
    g_assert_cmpuint(clock_ns() - now, >=, 40 * MS);
    g_thread_join(thread);
    /* The search is in debt. */
    scan_plan_none_found(&p, clock_ns(), 100 * S);
    scan_plan_request(&p, &p.snapshots);
    scan_plan_wait(&p);
    g_assert_cmpuint(clock_ns() - now, <, 9 * S);
    p.snapshots.idle_from = 0;
    scan_plan_close(&p);
    scan_plan_wait(&p);
    scan_plan_wait_for_end(&p);
    g_assert_cmpuint(clock_ns() - now, <, 9 * S);
    end(&p);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/scan-plan/due", test_due);
    g_test_add_func("/scan-plan/budget", test_budget);
    g_test_add_func("/scan-plan/search", test_search);
    g_test_add_func("/scan-plan/wait", test_wait);
    return g_test_run();
}
