/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of guest-linux/known-processes.h: what need not be read again
 */

#include "guest-linux/known-processes.h"
#include "util/hash.h"

#define SHAPE   7

struct fixture {
    struct btrail_budget *budget;
    struct known_processes *known;
    struct btrail_process process[3];
    struct btrail_snapshot snapshot;
};

static void start(struct fixture *f, uint64_t budget)
{
    *f = (struct fixture) {
        .budget = btrail_budget_new_fixed(budget, 4),
        .process = {
            { .pid = 1, .mm = 0x100, .pgd = 0x1000, .first = 50 },
            { .pid = 2 },       /* a thread of the kernel */
            { .pid = 3, .mm = 0x300, .pgd = 0x3000, .first = 50 },
        },
    };
    f->known = known_processes_new(f->budget);
    f->snapshot = (struct btrail_snapshot) {
        .flags = BTRAIL_SNAPSHOT_WHOLE, .n = 3, .processes = f->process,
    };
}

static void end(struct fixture *f)
{
    known_processes_clear(f->known);
    g_assert_cmpuint(btrail_budget_left(f->budget), ==,
                     btrail_budget_size(f->budget));
    known_processes_free(f->known);
    btrail_budget_unref(f->budget);
}

/* As a snapshot does of each process that has memory */
static bool ask(struct fixture *f, unsigned i, uint64_t shape)
{
    struct btrail_process *p = &f->process[i];
    bool is = known_processes_is_known(p, shape, f->known);

    p->flags = is ? BTRAIL_PROCESS_SEEN : 0;
    return is;
}

static void test_known(void)
{
    struct fixture f;

    start(&f, 1 << 20);
    g_assert_false(ask(&f, 0, SHAPE));
    g_assert_false(ask(&f, 2, SHAPE));
    f.process[0].user_pgd = 0x1001;
    f.process[2].flags = BTRAIL_PROCESS_PARTIAL;
    g_assert_true(known_processes_take(f.known, &f.snapshot));

    f.process[0].user_pgd = 0;
    f.process[0].first = 99;
    g_assert_true(ask(&f, 0, SHAPE));
    g_assert_cmphex(f.process[0].user_pgd, ==, 0x1001);
    /* Of the other one not all was read. */
    g_assert_false(ask(&f, 2, SHAPE));
    g_assert_false(known_processes_take(f.known, &f.snapshot));
    g_assert_cmpuint(f.process[0].first, ==, 50);
    g_assert_true(ask(&f, 2, SHAPE));

    /* It has changed, and has another program. */
    g_assert_false(ask(&f, 0, SHAPE + 1));
    f.process[0].user_pgd = 0x2001;
    g_assert_true(known_processes_take(f.known, &f.snapshot));
    g_assert_true(ask(&f, 0, SHAPE + 1));
    /* Another process has the same number. */
    f.process[0].start_time = 1;
    g_assert_false(ask(&f, 0, SHAPE + 1));
    end(&f);
}

/* What a whole snapshot does not have has ended. */
static void test_gone(void)
{
    struct fixture f;
    g_autoptr(GHashTable) roots = g_hash_table_new(btrail_int64_hash,
                                                   g_int64_equal);
    uint64_t root = 0x1000, gone = 0x3000;

    start(&f, 1 << 20);
    known_processes_take(f.known, &f.snapshot);
    f.snapshot.n = 2;
    f.snapshot.flags = 0;
    known_processes_take(f.known, &f.snapshot);
    g_assert_true(ask(&f, 2, 0));
    f.snapshot.flags = BTRAIL_SNAPSHOT_WHOLE;
    known_processes_take(f.known, &f.snapshot);
    known_processes_add_roots(f.known, roots);
    g_assert_true(g_hash_table_contains(roots, &root));
    g_assert_false(g_hash_table_contains(roots, &gone));
    g_assert_false(ask(&f, 2, 0));
    end(&f);
}

/* A process for which there is no room is read each time. */
static void test_no_room(void)
{
    struct fixture f;

    start(&f, 64);
    g_assert_false(ask(&f, 0, SHAPE));
    g_assert_false(known_processes_take(f.known, &f.snapshot));
    g_assert_false(ask(&f, 0, SHAPE));
    end(&f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/known-processes/known", test_known);
    g_test_add_func("/known-processes/gone", test_gone);
    g_test_add_func("/known-processes/no-room", test_no_room);
    return g_test_run();
}
