/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test which page tables a space has
 */

#include "guest-names/name-owners.h"
#include "name-samples.h"

/* A TSC of 1 GHz, which is 5 s ahead of the host's clock; times are in µs. */
#define TSC(us)     (UINT64_C(1000) * (us))
#define HOST(us)    (UINT64_C(1000) * (us) + UINT64_C(5000000000))

struct fixture {
    struct btrail_budget *budget;
    struct name_spaces *spaces;
    struct name_owners *owners;
    GByteArray *said;
};

static void set_up(struct fixture *f, gconstpointer data)
{
    f->budget = btrail_budget_new_fixed(BTRAIL_BUDGET_GUEST, 4);
    f->spaces = name_spaces_new(f->budget);
    f->owners = name_owners_new(f->budget);
    f->said = g_byte_array_new();
    /* Two processes; the rate of the TSC is known from the start. */
    say_process(f->said, TSC(1), 7, "sh");
    say_mapping(f->said, TSC(1), 7, 0x10000, 4, "/bin/sh");
    say_process(f->said, TSC(1), 8, "cat");
    say_mapping(f->said, TSC(1), 8, 0x50000, 4, "/bin/cat");
    say_kernel_thread(f->said, TSC(1), 2);
    for (unsigned i = 0; i < 2; i++) {
        name_owners_sample(f->owners, &(struct name_sample) {
            TSC(10 + 6000 * i), HOST(10 + 6000 * i), 0, 0 });
    }
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    name_spaces_free(f->spaces);
    name_owners_free(f->owners);
    g_assert_cmpuint(btrail_budget_left(f->budget), ==, BTRAIL_BUDGET_GUEST);
    btrail_budget_unref(f->budget);
    g_byte_array_unref(f->said);
}

static void take(void *opaque, const struct word *w)
{
    struct fixture *f = opaque;

    if (w->type == BTRAIL_GUEST_SWITCHES) {
        name_owners_switches(f->owners, w);
    }
    name_spaces_take(f->spaces, w);
}

static void let_hear(struct fixture *f)
{
    hear(f->said, take, f);
    g_byte_array_set_size(f->said, 0);
}

static void sample(struct fixture *f, unsigned vcpu, uint64_t us,
                   uint64_t root)
{
    name_owners_sample(f->owners, &(struct name_sample) {
        TSC(us), HOST(us), root, vcpu });
}

static void page(struct fixture *f, uint64_t us, uint64_t root,
                 uint64_t address)
{
    name_owners_page(f->owners, &(struct name_page) {
        TSC(us), TSC(us + 100), root, address });
}

/* CPU @cpu runs processes, each from a time on, in µs */
static void runs(struct fixture *f, unsigned cpu,
                 const struct btrail_guest_switch *list)
{
    struct btrail_guest_switch in_tsc[64] = { { 0 } };

    for (unsigned i = 0; list[i].time; i++) {
        in_tsc[i] = list[i];
        in_tsc[i].time = TSC(list[i].time);
    }
    say_switches(f->said, cpu, in_tsc);
}

static uint64_t root_of(struct fixture *f, uint32_t pid, uint64_t us)
{
    const struct name_space *space = name_spaces_find(f->spaces, pid, TSC(us));

    return space ? space->root : 0;
}

static void decide(struct fixture *f, uint64_t us)
{
    let_hear(f);
    name_owners_count(f->owners, f->spaces, TSC(us));
    name_owners_decide(f->owners, f->spaces);
}

static void test_samples(struct fixture *f, gconstpointer data)
{
    static const struct btrail_guest_switch cpu0[] = {
        { 7000, 7, 7 }, { 8000, 2, 2 }, { 9000, 8, 8 }, { 10000, 0, 0 },
        { 0 },
    };
    static const struct btrail_guest_switch cpu1[] = {
        { 7000, 8, 8 }, { 8500, 7, 7 }, { 0 },
    };
    uint64_t last;

    runs(f, 0, cpu0);
    runs(f, 1, cpu1);
    sample(f, 0, 7500, 0x7000 | 3);
    /* The kernel's thread, and the idle task, have borrowed these. */
    sample(f, 0, 8500, 0x7000);
    sample(f, 0, 9500, 0x8000);
    sample(f, 0, 10500, 0x8000);
    sample(f, 1, 7500, 0x8000);
    sample(f, 1, 8600, 0x7000);
    g_assert_cmpuint(name_owners_waiting(f->owners, &last), ==, 8);
    g_assert_cmpuint(last, ==, TSC(8600));
    decide(f, 7400);
    g_assert_cmpuint(root_of(f, 7, 7000), ==, 0);
    decide(f, 11000);
    g_assert_cmpuint(name_owners_waiting(f->owners, &last), ==, 0);
    g_assert_cmpuint(root_of(f, 7, 7000), ==, 0x7000);
    g_assert_cmpuint(root_of(f, 8, 7000), ==, 0x8000);
    g_assert_cmpuint(root_of(f, 2, 7000), ==, 0);
}

/* Shortly before it says so, the kernel has loaded CR3 already. */
static void test_late(struct fixture *f, gconstpointer data)
{
    static const struct btrail_guest_switch cpu0[] = {
        { 7000, 7, 7 }, { 8000, 8, 8 }, { 9000, 7, 7 }, { 0 },
    };

    runs(f, 0, cpu0);
    sample(f, 0, 7990, 0x8000);
    sample(f, 0, 8995, 0x7000);
    decide(f, 11000);
    g_assert_cmpuint(root_of(f, 7, 7000), ==, 0);
    g_assert_cmpuint(root_of(f, 8, 7000), ==, 0);
}

/* Most samples must agree, and what was executed with them. */
static void test_majority(struct fixture *f, gconstpointer data)
{
    static const struct btrail_guest_switch cpu0[] = {
        { 7000, 7, 7 }, { 9000, 8, 8 }, { 0 },
    };

    runs(f, 0, cpu0);
    for (unsigned i = 0; i < 3; i++) {
        sample(f, 0, 7100 + i, i ? 0x7000 : 0x9000);
    }
    sample(f, 0, 9100, 0x8000);
    page(f, 9200, 0x8000, 0x50000);
    page(f, 9200, 0x8000, 0x90000);
    decide(f, 10000);
    g_assert_cmpuint(root_of(f, 7, 7000), ==, 0x7000);
    g_assert_cmpuint(root_of(f, 8, 7000), ==, 0);
    for (unsigned i = 1; i < 4; i++) {
        page(f, 9200, 0x8000, 0x50000 + i * 4096);
    }
    decide(f, 10000);
    /* A single vote is none where one page denies it. */
    g_assert_cmpuint(root_of(f, 8, 7000), ==, 0);
    sample(f, 0, 9300, 0x8000);
    sample(f, 0, 9400, 0x8000);
    decide(f, 10000);
    g_assert_cmpuint(root_of(f, 8, 7000), ==, 0x8000);
}

/* Where no samples say anything, the only one that has all pages is it. */
static void test_pages(struct fixture *f, gconstpointer data)
{
    page(f, 7000, 0x7000, 0x10123);
    page(f, 7000, 0x7000, 0x13fff);
    page(f, 7000, 0x8000, 0x50000);
    page(f, 7000, 0x8000, 0x10000);
    decide(f, 8000);
    g_assert_cmpuint(root_of(f, 7, 7000), ==, 0x7000);
    g_assert_cmpuint(root_of(f, 8, 7000), ==, 0);
    /* A child has the same addresses: from then on it can be either. */
    say_fork(f->said, TSC(9000), 8, 9);
    page(f, 9100, 0x9000, 0x51000);
    decide(f, 9500);
    g_assert_cmpuint(root_of(f, 8, 9200), ==, 0);
    g_assert_cmpuint(root_of(f, 9, 9200), ==, 0);
}

/* The page tables of one that has ended are used again. */
static void test_again(struct fixture *f, gconstpointer data)
{
    static const struct btrail_guest_switch cpu0[] = {
        { 7000, 7, 7 }, { 8000, 8, 8 }, { 9000, 10, 10 }, { 0 },
    };

    say_exit(f->said, TSC(8000), 7, 7);
    say_fork(f->said, TSC(8500), 8, 10);
    say_name(f->said, TSC(8600), 10, true, "ls");
    say_mapping(f->said, TSC(8700), 10, 0x70000, 1, "/bin/ls");
    runs(f, 0, cpu0);
    sample(f, 0, 7500, 0x7000);
    page(f, 7500, 0x7000, 0x10000);
    sample(f, 0, 8300, 0x8000);
    sample(f, 0, 9300, 0x7000);
    page(f, 9300, 0x7000, 0x70000);
    decide(f, 10000);
    g_assert_cmpuint(root_of(f, 7, 7000), ==, 0x7000);
    g_assert_cmpuint(root_of(f, 8, 7000), ==, 0x8000);
    g_assert_cmpuint(root_of(f, 10, 8550), ==, 0);
    g_assert_cmpuint(root_of(f, 10, 9000), ==, 0x7000);
}

/* The kernel says late that a program is executed; page tables are new by then. */
static void test_exec(struct fixture *f, gconstpointer data)
{
    static const struct btrail_guest_switch cpu0[] = {
        { 7000, 9, 9 }, { 0 },
    };

    say_fork(f->said, TSC(6900), 7, 9);
    say_name(f->said, TSC(8000), 9, true, "ls");
    runs(f, 0, cpu0);
    sample(f, 0, 7100, 0x9000);
    sample(f, 0, 7800, 0xa000);
    sample(f, 0, 7900, 0xa000);
    sample(f, 0, 8100, 0xa000);
    decide(f, 10000);
    g_assert_cmpuint(root_of(f, 9, 7500), ==, 0x9000);
    g_assert_cmpuint(root_of(f, 9, 9000), ==, 0xa000);
}

/* A file that all have at the same address says nothing. */
static void test_same_pages(struct fixture *f, gconstpointer data)
{
    say_mapping(f->said, TSC(1), 7, 0x50000, 4, "/bin/cat");
    page(f, 7000, 0x8000, 0x50000);
    page(f, 7000, 0x8000, 0x10000);
    decide(f, 8000);
    /* The first one has both, and it alone has one of them. */
    g_assert_cmpuint(root_of(f, 7, 7000), ==, 0x8000);
    say_mapping(f->said, TSC(8500), 8, 0x10000, 4, "/bin/sh");
    say_mapping(f->said, TSC(8500), 8, 0x90000, 4, "/lib");
    page(f, 9000, 0x9000, 0x50000);
    page(f, 9000, 0x9000, 0x10000);
    decide(f, 10000);
    g_assert_cmpuint(root_of(f, 8, 9000), ==, 0);
}

/* After vfork() the child has those of its parent, which owns them. */
static void test_vfork(struct fixture *f, gconstpointer data)
{
    static const struct btrail_guest_switch cpu0[] = {
        { 7000, 7, 7 }, { 8000, 9, 9 }, { 0 },
    };

    say_fork(f->said, TSC(7900), 7, 9);
    runs(f, 0, cpu0);
    sample(f, 0, 7500, 0x7000);
    for (unsigned i = 0; i < 5; i++) {
        sample(f, 0, 8100 + i, 0x7000);
    }
    decide(f, 10000);
    g_assert_cmpuint(root_of(f, 7, 7000), ==, 0x7000);
    g_assert_cmpuint(root_of(f, 9, 9000), ==, 0);
}

/*
 * Two cannot have them at once: the guest lies, or its CPUs have other
 * numbers.  One with two thirds of the samples is more likely.
 */
static void test_conflict(struct fixture *f, gconstpointer data)
{
    static const struct btrail_guest_switch cpu0[] = {
        { 7000, 7, 7 }, { 8000, 8, 8 }, { 0 },
    };
    static const struct btrail_guest_switch cpu1[] = {
        { 7000, 7, 7 }, { 0 },
    };

    runs(f, 0, cpu0);
    sample(f, 0, 7500, 0x7000);
    sample(f, 0, 8500, 0x7000);
    sample(f, 0, 8600, 0x7000);
    decide(f, 10000);
    g_assert_cmpuint(root_of(f, 7, 7000), ==, 0);
    g_assert_cmpuint(root_of(f, 8, 7000), ==, 0x7000);
    runs(f, 1, cpu1);
    sample(f, 1, 7500, 0x7000);
    decide(f, 10000);
    g_assert_cmpuint(root_of(f, 7, 7000), ==, 0);
    g_assert_cmpuint(root_of(f, 8, 7000), ==, 0);
}

/* With PTI user mode has the page tables after. */
static void test_pti(struct fixture *f, gconstpointer data)
{
    static const struct btrail_guest_switch cpu0[] = {
        { 7000, 7, 7 }, { 0 },
    };

    name_owners_set_pti(f->owners, true);
    runs(f, 0, cpu0);
    sample(f, 0, 7500, 0x6000 | 0x800);
    sample(f, 0, 7600, 0x7000 | 0x800);
    page(f, 7700, 0x7000, 0x10000);
    decide(f, 10000);
    g_assert_cmpuint(root_of(f, 7, 7000), ==, 0x6000);
}

static void test_clock(struct fixture *f, gconstpointer data)
{
    g_assert_cmpuint(name_owners_host_time(f->owners, TSC(1)), ==, HOST(10));
    g_assert_cmpuint(name_owners_host_time(f->owners, TSC(3010)), ==,
                     HOST(3010));
    g_assert_cmpuint(name_owners_host_time(f->owners, TSC(9999)), ==,
                     HOST(6010));
    g_assert_cmpuint(name_owners_before(f->owners, TSC(9000), 1000000), ==,
                     TSC(8000));
    g_assert_cmpuint(name_owners_before(f->owners, TSC(9), 1000000), ==, 0);
}

/* As many of all as a guest likes */
static void test_many(struct fixture *f, gconstpointer data)
{
    gint64 begin = g_get_monotonic_time();

    for (unsigned i = 0; i < 2000; i++) {
        say_fork(f->said, TSC(6500), 7, 100 + i);
    }
    let_hear(f);
    for (unsigned i = 0; i < 1000000; i++) {
        sample(f, i % 8, 7000 + i, (i % 100000) << 12);
    }
    for (unsigned i = 0; i < 1000000; i++) {
        page(f, 7000, (i % 50000) << 12, (i % 1000) << 12);
    }
    for (unsigned i = 0; i < 20; i++) {
        decide(f, 10000);
    }
    /* Seconds where all spaces are compared with all pages */
    g_assert_cmpint(g_get_monotonic_time() - begin, <, 30000000);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name, function) \
    g_test_add("/name-owners/" name, struct fixture, NULL, set_up, function, \
               tear_down)
    ADD("samples", test_samples);
    ADD("late", test_late);
    ADD("majority", test_majority);
    ADD("pages", test_pages);
    ADD("again", test_again);
    ADD("exec", test_exec);
    ADD("same-pages", test_same_pages);
    ADD("vfork", test_vfork);
    ADD("conflict", test_conflict);
    ADD("pti", test_pti);
    ADD("clock", test_clock);
    ADD("many", test_many);
    return g_test_run();
}
