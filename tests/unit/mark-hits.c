/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Marks found as their records come: conditions, values that are interrupted,
 * threads that are switched, records that are missing
 */

#include <glib.h>
#include <string.h>

#include "drain/mark-hits.h"
#include "mark-samples.h"

#define SPACE   UINT64_C(0x5000)
#define BASE    UINT64_C(0x400000)
#define AT      (BASE + 0x100)
#define CODE    (AT + 16)
#define HANDLER UINT64_C(0xffffffff81000000)

static struct mark_hits *hits;
static unsigned n_wanted;
static unsigned hit_n[8];
static uint64_t hit_cr3, next_index;

static void hit(void *opaque, unsigned i, unsigned vcpu, uint64_t cr3)
{
    g_assert_true(opaque == hit_n);
    g_assert_cmpuint(i, <, n_wanted);
    hit_n[i]++;
    hit_cr3 = cr3;
}

/*
 * Wants what the texts say; the guest has "one" with a value at AT, and "two"
 * without one after it.
 */
static void begin(unsigned vcpus, const char *const *texts)
{
    struct mark_wanted wanted[8];
    uint8_t page[MARK_PAGE] = { 0 };
    struct btrail_code_item item = sample_code_bytes(1);

    for (n_wanted = 0; texts[n_wanted]; n_wanted++) {
        g_assert_true(mark_wanted_parse(texts[n_wanted], &wanted[n_wanted]));
    }
    memset(hit_n, 0, sizeof(hit_n));
    next_index = 0;
    hits = mark_hits_new(wanted, n_wanted, hit, hit_n);
    for (unsigned i = 0; i < n_wanted; i++) {
        mark_wanted_clear(&wanted[i]);
    }
    mark_hits_set_vcpus(hits, vcpus);
    sample_mark(page + AT % MARK_PAGE, "one", true);
    sample_mark(page + AT % MARK_PAGE + 64, "two", false);
    mark_hits_code(hits, 0, &item, page);
    for (unsigned i = 0; i < 2; i++) {
        item = sample_code_page(0, SPACE, BASE, 1);
        mark_hits_code(hits, i, &item, NULL);
    }
}

static void end(void)
{
    mark_hits_free(hits);
}

static void put(unsigned vcpu, uint64_t cr3, uint64_t from, uint64_t to)
{
    mark_hits_record(hits, vcpu, next_index++, cr3, from, to);
}

static void put_task(unsigned vcpu, uint64_t tid)
{
    const struct btrail_event e = {
        .type = BTRAIL_EVENT_TASK, .data = { tid | tid << 32 },
    };

    mark_hits_event(hits, vcpu, &e);
}

/*
 * The records of a mark, and of its value's bits before the last one; then that
 * one
 */
static void put_begin(unsigned vcpu, uint64_t value)
{
    put(vcpu, SPACE, AT, CODE);
    for (; value > 1; value >>= 1) {
        put(vcpu, SPACE, CODE + (value & 1 ? 5 : 3), CODE);
    }
}

static void put_end(unsigned vcpu, uint64_t value)
{
    put(vcpu, SPACE, CODE + (value ? 7 : 9), CODE + 11);
}

static void put_value(unsigned vcpu, uint64_t value)
{
    put_begin(vcpu, value);
    put_end(vcpu, value);
}

/* An interrupt before the first instruction of the next bit */
static void put_interrupt(unsigned vcpu)
{
    put(vcpu, SPACE, CODE, HANDLER);
}

static void put_return(unsigned vcpu)
{
    put(vcpu, SPACE, HANDLER + 64, CODE);
}

static void test_conditions(void)
{
    static const char *const texts[] = {
        "mark:one", "mark:one=5", "mark:one>=5", "mark:one<5", "mark:two",
        "mark:two!=5", "mark:", NULL,
    };

    begin(1, texts);
    /* Without a condition it is the mark's own record. */
    put_begin(0, 5);
    g_assert_cmpuint(hit_n[0], ==, 1);
    g_assert_cmpuint(hit_n[6], ==, 1);
    g_assert_cmpuint(hit_n[1] + hit_n[2] + hit_n[3], ==, 0);
    put_end(0, 5);
    g_assert_cmphex(hit_cr3, ==, SPACE);
    g_assert_cmpuint(hit_n[1], ==, 1);
    g_assert_cmpuint(hit_n[2], ==, 1);
    for (unsigned i = 0; i < 10; i++) {
        put_value(0, i);
    }
    g_assert_cmpuint(hit_n[0], ==, 11);
    g_assert_cmpuint(hit_n[1], ==, 2);
    g_assert_cmpuint(hit_n[2], ==, 6);
    g_assert_cmpuint(hit_n[3], ==, 5);
    g_assert_cmpuint(hit_n[4], ==, 0);
    put(0, SPACE, AT + 64, AT + 80);
    put_value(0, 7);
    /* It has no value. */
    g_assert_cmpuint(hit_n[4], ==, 1);
    g_assert_cmpuint(hit_n[5], ==, 0);
    g_assert_cmpuint(hit_n[6], ==, 13);
    end();
}

/*
 * All values at random, with interrupts, in which the handler leaves the same
 * mark, as deep as there is room
 */
static void leave(uint64_t value, unsigned depth)
{
    put(0, SPACE, AT, CODE);
    for (uint64_t left = value; left > 1; left >>= 1) {
        if (depth < 7 && !g_test_rand_int_range(0, 12)) {
            put_interrupt(0);
            put(0, SPACE, HANDLER + 8, HANDLER + 32);
            if (g_test_rand_int_range(0, 2)) {
                leave(value ^ 1, depth + 1);
            }
            put_return(0);
        }
        put(0, SPACE, CODE + (left & 1 ? 5 : 3), CODE);
    }
    put_end(0, value);
}

static void test_interrupts(void)
{
    static const char *const texts[] = {
        "mark:one=0xdeadbeef", "mark:one=0xdeadbeee", "mark:one", NULL,
    };

    begin(4, texts);
    for (unsigned i = 1; i <= 500; i++) {
        leave(0xdeadbeef, 0);
        g_assert_cmpuint(hit_n[0], >=, i);
        g_assert_cmpuint(hit_n[0] + hit_n[1], ==, hit_n[2]);
    }
    g_assert_cmpuint(hit_n[1], >, 100);
    end();
}

/* More of them than there is room for: the outermost is not known. */
static void test_deep(void)
{
    static const char *const texts[] = { "mark:one=5", "mark:one", NULL };

    begin(1, texts);
    for (unsigned i = 0; i < 12; i++) {
        put(0, SPACE, AT, CODE);
        put_interrupt(0);
    }
    for (unsigned i = 0; i < 12; i++) {
        put_return(0);
        put(0, SPACE, CODE + 5, CODE);
        put(0, SPACE, CODE + 3, CODE);
        put_end(0, 5);
    }
    g_assert_cmpuint(hit_n[1], ==, 12);
    g_assert_cmpuint(hit_n[0], ==, 8);
    end();
}

/*
 * Another thread, with the same page tables, leaves the same mark meanwhile.
 * With more than one vCPU the first thread may continue elsewhere.
 */
static void check_switch(unsigned vcpus)
{
    static const char *const texts[] = {
        "mark:one=5", "mark:one=6", "mark:one", NULL,
    };

    begin(vcpus, texts);
    put_task(0, 10);
    put(0, SPACE, AT, CODE);
    put(0, SPACE, CODE + 5, CODE);
    put_interrupt(0);
    put_task(0, 11);
    put(0, SPACE, HANDLER, BASE);
    put_value(0, 6);
    put(0, SPACE, BASE, HANDLER);
    put_task(0, 10);
    put_return(0);
    put(0, SPACE, CODE + 3, CODE);
    put_end(0, 5);
    g_assert_cmpuint(hit_n[2], ==, 2);
    g_assert_cmpuint(hit_n[1], ==, 1);
    g_assert_cmpuint(hit_n[0], ==, vcpus == 1);
    /* An interrupt alone is no switch. */
    put(0, SPACE, AT, CODE);
    put_interrupt(0);
    put_task(0, 10);
    put_return(0);
    put(0, SPACE, CODE + 5, CODE);
    put(0, SPACE, CODE + 3, CODE);
    put_end(0, 5);
    g_assert_cmpuint(hit_n[0], ==, (vcpus == 1) + 1);
    end();
}

static void test_switches(void)
{
    check_switch(1);
    check_switch(2);
}

/*
 * Without names of tasks, address spaces say so; of two that belong together,
 * one is the kernel's.
 */
static void test_spaces(void)
{
    static const char *const texts[] = { "mark:one=5", NULL };

    for (unsigned i = 0; i < 3; i++) {
        uint64_t between = i == 0 ? SPACE : i == 1 ? SPACE ^ 0x1000 : 0x9000;

        begin(2, texts);
        put(0, SPACE, AT, CODE);
        put_interrupt(0);
        put(0, between, HANDLER, HANDLER + 32);
        put_return(0);
        put(0, SPACE, CODE + 5, CODE);
        put(0, SPACE, CODE + 3, CODE);
        put_end(0, 5);
        g_assert_cmpuint(hit_n[0], ==, i < 2);
        end();
    }
}

/* The vCPUs do not mix. */
static void test_vcpus(void)
{
    static const char *const texts[] = { "mark:one=5", "mark:one=6", NULL };

    begin(2, texts);
    put_begin(0, 5);
    put_begin(1, 6);
    put_end(0, 5);
    g_assert_cmpuint(hit_n[0], ==, 1);
    g_assert_cmpuint(hit_n[1], ==, 0);
    put_end(1, 6);
    g_assert_cmpuint(hit_n[1], ==, 1);
    end();
}

/* Records are missing in the middle. */
static void test_missing(void)
{
    static const char *const texts[] = { "mark:one=5", NULL };
    const struct btrail_event gap = { .type = BTRAIL_EVENT_GAP };

    begin(1, texts);
    put_begin(0, 5);
    mark_hits_event(hits, 0, &gap);
    put_end(0, 5);
    put_begin(0, 5);
    mark_hits_lost(hits, 0);
    put_end(0, 5);
    g_assert_cmpuint(hit_n[0], ==, 0);
    put_value(0, 5);
    g_assert_cmpuint(hit_n[0], ==, 1);
    end();
}

/* Records that a value cannot have, in its place */
static void test_impossible(void)
{
    static const char *const texts[] = { "mark:one", "mark:one>=0", NULL };

    begin(1, texts);
    for (unsigned i = 0; i < 100000; i++) {
        if (!(i % 16)) {
            put(0, SPACE, AT, CODE);
        }
        put(0, SPACE, CODE + g_test_rand_int_range(-20, 30),
            CODE + g_test_rand_int_range(-20, 30));
    }
    g_assert_cmpuint(hit_n[0], >=, 100000 / 16);
    /* Only what ends as a value does */
    g_assert_cmpuint(hit_n[1], <, 1000);
    put_value(0, 5);
    g_assert_cmpuint(hit_n[1], >, 0);
    end();
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/mark-hits/conditions", test_conditions);
    g_test_add_func("/mark-hits/interrupts", test_interrupts);
    g_test_add_func("/mark-hits/deep", test_deep);
    g_test_add_func("/mark-hits/switches", test_switches);
    g_test_add_func("/mark-hits/spaces", test_spaces);
    g_test_add_func("/mark-hits/vcpus", test_vcpus);
    g_test_add_func("/mark-hits/missing", test_missing);
    g_test_add_func("/mark-hits/impossible", test_impossible);
    return g_test_run();
}
