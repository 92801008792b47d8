/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of guest-linux/known-code.h: what runs needs another snapshot
 */

#include "backtrail/transport.h"
#include "guest-linux/known-code.h"
#include "util/clock.h"
#include "util/hash.h"

static struct btrail_mapping mappings[] = {
    { .start = 0x400000, .end = 0x402000, .flags = BTRAIL_MAPPING_EXEC },
    { .start = 0x500000, .end = 0x501000 },
};
static const struct btrail_process process = {
    .pid = 1, .pgd = 0x1000, .user_pgd = 0x2000, .n_mappings = 2,
    .mappings = mappings,
};

static struct btrail_budget *budget;

static struct known_code *start(uint64_t size, bool brief)
{
    budget = btrail_budget_new_fixed(size, 4);
    return known_code_new(budget, brief);
}

static void end(struct known_code *code)
{
    known_code_free(code);
    btrail_budget_unref(budget);
}

static void keep_only(struct known_code *code, uint64_t root)
{
    g_autoptr(GHashTable) roots = g_hash_table_new(btrail_int64_hash,
                                                   g_int64_equal);

    g_hash_table_add(roots, &root);
    known_code_keep_only(code, roots);
}

static void test_cr3(void)
{
    struct known_code *code = start(1 << 20, false);

    g_assert_true(known_code_is_new_cr3(code, 0x1000));
    g_assert_false(known_code_is_new_cr3(code, 0x1000));
    /* The same page tables: with a PCID */
    g_assert_false(known_code_is_new_cr3(code, 0x1005));
    g_assert_true(known_code_is_new_cr3(code, 0x3000));
    keep_only(code, 0x1000);
    g_assert_false(known_code_is_new_cr3(code, 0x1000));
    g_assert_true(known_code_is_new_cr3(code, 0x3000));
    end(code);
}

/* If the guest waits for each snapshot, a CR3 is trusted for a moment. */
static void test_brief(void)
{
    struct known_code *code = start(1 << 20, true);

    g_assert_true(known_code_is_new_cr3(code, 0x1000));
    g_assert_false(known_code_is_new_cr3(code, 0x1000));
    known_code_begin(code, clock_ns() - 3000000);
    g_assert_true(known_code_is_new_cr3(code, 0x1000));
    g_assert_true(known_code_is_new_cr3(code, 0x1000));
    known_code_begin(code, clock_ns() + UINT64_C(1000000000000));
    known_code_begin(code, 0);
    g_assert_false(known_code_is_new_cr3(code, 0x1000));
    end(code);
}

static void test_ranges(void)
{
    struct known_code *code = start(1 << 20, false);

    known_code_is_new_cr3(code, 0x1000);
    known_code_is_new_cr3(code, 0x2000);
    g_assert_true(known_code_is_new(code, 0x1000, 0x400000));
    known_code_keep(code, &process);
    g_assert_false(known_code_is_new(code, 0x1000, 0x400000));
    g_assert_false(known_code_is_new(code, 0x2000, 0x401fff));
    g_assert_true(known_code_is_new(code, 0x1000, 0x402000));
    g_assert_true(known_code_is_new(code, 0x1000, 0x3fffff));
    /* It is mapped, but not to be executed. */
    g_assert_true(known_code_is_new(code, 0x1000, 0x500000));
    /* Page tables that were not seen need a snapshot in any case. */
    g_assert_true(known_code_is_new(code, 0x3000, 0x400000));
    known_code_keep(code, &process);
    g_assert_cmpuint(btrail_budget_left(budget), ==, (1 << 20) - 2 *
                     (BTRAIL_BUDGET_ENTRY + 32));
    keep_only(code, 0x2000);
    g_assert_true(known_code_is_new(code, 0x1000, 0x400000));
    g_assert_false(known_code_is_new(code, 0x2000, 0x400000));
    keep_only(code, 0);
    g_assert_cmpuint(btrail_budget_left(budget), ==, 1 << 20);
    end(code);
}

/* What cannot be kept is new each time. */
static void test_no_room(void)
{
    struct known_code *code = start(64, false);

    known_code_is_new_cr3(code, 0x1000);
    known_code_keep(code, &process);
    g_assert_true(known_code_is_new(code, 0x1000, 0x400000));
    g_assert_cmpuint(btrail_budget_refused(budget), ==, 2);
    end(code);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/known-code/cr3", test_cr3);
    g_test_add_func("/known-code/brief", test_brief);
    g_test_add_func("/known-code/ranges", test_ranges);
    g_test_add_func("/known-code/no-room", test_no_room);
    return g_test_run();
}
