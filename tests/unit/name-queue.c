/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test queues whose memory is taken from a budget
 */


#include "allocated.h"
#include "guest-names/name-queue.h"

#define SIZE    (UINT64_C(1) << 20)

static void check_memory(const struct name_queue *q, uint64_t taken)
{
    g_assert_cmpuint(SIZE - btrail_budget_left(q->budget), ==, taken);
    g_assert_cmpuint(q->room, >=, q->len);
}

static void test_order(void)
{
    struct btrail_budget *budget = btrail_budget_new_fixed(SIZE, 4);
    struct name_queue q = NAME_QUEUE_INIT(budget, uint64_t);
    uint64_t first = 0, next = 0;

    for (unsigned round = 0; round < 1000; round++) {
        unsigned n = round * 7 % 50, gone = round * 11 % 49;

        for (unsigned i = 0; i < n; i++, next++) {
            g_assert_true(name_queue_add(&q, &next, 1));
        }
        gone = MIN(gone, q.len);
        name_queue_forget(&q, gone);
        first += gone;
        g_assert_cmpuint(q.len, ==, next - first);
        for (unsigned i = 0; i < q.len; i++) {
            g_assert_cmpuint(name_queue_index(&q, uint64_t, i), ==, first + i);
        }
        check_memory(&q, q.len ? q.room * 8 + BTRAIL_BUDGET_ENTRY : 0);
        g_assert_true(q.room <= 16 || q.len >= q.room / 8);
    }
    name_queue_clear(&q);
    check_memory(&q, 0);
    btrail_budget_unref(budget);
}

/* One after the other fills and empties: none keeps its memory. */
static void test_budget(void)
{
    struct btrail_budget *budget = btrail_budget_new_fixed(SIZE, 4);
    static const uint64_t element = 1;
    int64_t before = allocated();

    for (unsigned round = 0; round < 50; round++) {
        struct name_queue q = NAME_QUEUE_INIT(budget, uint64_t);

        while (name_queue_add(&q, &element, 1)) {
            g_assert_cmpuint(q.len, <=, SIZE / 8);
        }
        g_assert_cmpuint(q.len * 8, >=, SIZE / 4);
        g_assert_cmpint(allocated() - before, <=, SIZE);
        name_queue_forget(&q, q.len - 1);
        g_assert_cmpuint(q.len, ==, 1);
        name_queue_forget(&q, 1);
        check_memory(&q, 0);
    }
    g_assert_cmpuint(btrail_budget_refused(budget), ==, 50);
    btrail_budget_unref(budget);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/name-queue/order", test_order);
    g_test_add_func("/name-queue/budget", test_budget);
    return g_test_run();
}
