/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of whether a kernel still runs: guest-linux/kernel-watch.h
 */

#include <glib.h>
#include <string.h>

#include "fake-linux.h"
#include "guest-linux/kernel-watch.h"
#include "util/hash.h"

#define MS      UINT64_C(1000000)
/* Page tables of another kernel, and those that no RAM has */
#define OTHER   UINT64_C(0x800000)
#define NOWHERE UINT64_C(0x40000000)

struct rig {
    struct fake_linux f;
    struct guest_memory *m;
    struct linux_kernel *k;
    struct kernel_watch w;
    uint8_t *more;
    int done;
};

static void begin(struct rig *r, unsigned flags)
{
    *r = (struct rig) { .more = g_malloc0(GUEST_PAGE_SIZE) };
    r->k = fake_linux_begin(&r->f, flags, &r->m);
    g_assert_true(guest_memory_add_bytes(r->m, OTHER, GUEST_PAGE_SIZE,
                                         r->more));
    kernel_watch_begin(&r->w, 50 * MS);
}

static void end(struct rig *r)
{
    fake_linux_end(&r->f, r->m, r->k);
    g_free(r->more);
}

static bool look(struct rig *r)
{
    return kernel_watch_look(&r->w, r->k, r->m);
}

/* One thing is reported, and then looked at. */
static void ran(struct rig *r, uint64_t cr3, uint64_t ms)
{
    kernel_watch_report(&r->w, cr3, ms * MS);
    g_assert_true(look(r));
    g_assert_false(look(r));
}

static void test_runs(void)
{
    for (unsigned i = 0; i < 2; i++) {
        struct rig r;

        begin(&r, i ? FAKE_PTI : 0);
        g_assert_false(look(&r));
        ran(&r, FAKE_ROOT, 100);
        g_assert_cmpuint(r.w.alive, ==, 100 * MS);
        /* With isolation, those of user mode are of the same process. */
        ran(&r, FAKE_ROOT + 0x1000, 110);
        g_assert_cmpuint(r.w.alive, ==, 110 * MS);
        /* One that maps the kernel is enough, whatever else runs. */
        kernel_watch_report(&r.w, OTHER, 200 * MS);
        kernel_watch_report(&r.w, FAKE_ROOT | 5, 150 * MS);
        g_assert_true(look(&r));
        g_assert_cmpuint(r.w.alive, ==, 150 * MS);
        g_assert_false(kernel_watch_doubts(&r.w));
        end(&r);
    }
}

static void test_ends(void)
{
    struct rig r;

    begin(&r, 0);
    ran(&r, FAKE_ROOT, 100);
    ran(&r, OTHER, 200);
    g_assert_true(kernel_watch_doubts(&r.w));
    ran(&r, OTHER, 490);
    /* Twice is chance, and so is a short time. */
    g_assert_false(kernel_watch_ended(&r.w));
    ran(&r, OTHER, 499);
    g_assert_false(kernel_watch_ended(&r.w));
    ran(&r, 0, 500);
    g_assert_true(kernel_watch_ended(&r.w));
    g_assert_cmpuint(r.w.alive, ==, 100 * MS);
    /* While paging is off, no kernel runs, and none is searched for. */
    g_assert_cmphex(r.w.stranger, ==, OTHER);
    end(&r);
}

/* Firmware runs, or page tables are gone when they are looked at. */
static void test_returns(void)
{
    struct rig r;

    begin(&r, 0);
    for (unsigned i = 1; i < 10; i++) {
        ran(&r, OTHER, 1000 * i);
        ran(&r, OTHER, 1000 * i + 100);
        ran(&r, 0, 1000 * i + 250);
        g_assert_false(kernel_watch_ended(&r.w));
        ran(&r, FAKE_ROOT, 1000 * i + 260);
        g_assert_false(kernel_watch_doubts(&r.w));
    }
    /* What cannot be read says nothing. */
    for (unsigned i = 0; i < 10; i++) {
        ran(&r, NOWHERE, 20000 + 1000 * i);
        g_assert_false(kernel_watch_doubts(&r.w));
    }
    /* A guest that does nothing keeps its kernel. */
    ran(&r, OTHER, 40000);
    for (unsigned i = 0; i < 10; i++) {
        g_assert_false(look(&r));
    }
    ran(&r, OTHER, 90000);
    g_assert_false(kernel_watch_ended(&r.w));
    end(&r);
}

/* Another kernel is loaded to the place of the first one. */
static void test_replaced(void)
{
    struct rig r;
    char *banner;

    begin(&r, 0);
    ran(&r, FAKE_ROOT, 100);
    banner = memmem(r.f.memory, FAKE_SIZE, FAKE_BANNER, strlen(FAKE_BANNER));
    g_assert_nonnull(banner);
    banner[strlen("Linux version ")]++;
    ran(&r, FAKE_ROOT, 200);
    g_assert_true(kernel_watch_doubts(&r.w));
    g_assert_cmpuint(r.w.alive, ==, 100 * MS);
    banner[strlen("Linux version ")]--;
    ran(&r, FAKE_ROOT, 300);
    g_assert_false(kernel_watch_doubts(&r.w));
    end(&r);
}

/* More page tables than are kept: some of them are, with their times. */
static void test_many(void)
{
    struct rig r;

    begin(&r, 0);
    for (unsigned i = 0; i < 10000; i++) {
        kernel_watch_report(&r.w, OTHER + ((uint64_t)i << 32), (i + 1) * MS);
    }
    g_assert_true(look(&r));
    /* Only one of them can be read. */
    g_assert_cmpuint(r.w.last, <=, 10000 * MS);
    kernel_watch_report(&r.w, FAKE_ROOT, 20000 * MS);
    g_assert_true(look(&r));
    g_assert_cmpuint(r.w.alive, ==, 20000 * MS);
    /* Without a kernel, all are strangers; the last one is searched with. */
    kernel_watch_report(&r.w, FAKE_ROOT, 30000 * MS);
    kernel_watch_report(&r.w, OTHER, 29000 * MS);
    g_assert_true(kernel_watch_look(&r.w, NULL, r.m));
    g_assert_cmphex(r.w.stranger, ==, FAKE_ROOT);
    end(&r);
}

/* Others that have the same place as the process's */
static uint64_t same_place(void)
{
    uint64_t root = OTHER;

    do {
        root += GUEST_PAGE_SIZE;
    } while ((btrail_hash(root) >> 32) % KERNEL_WATCH_SLOTS !=
             (btrail_hash(FAKE_ROOT) >> 32) % KERNEL_WATCH_SLOTS);
    return root;
}

/*
 * One thread reports while another one looks: no root has another's time.  Time
 * does not go back.
 */
static gpointer report_many(gpointer opaque)
{
    struct rig *r = opaque;
    uint64_t other = same_place();

    for (uint64_t i = 1; !g_atomic_int_get(&r->done); i++) {
        kernel_watch_report(&r->w, i % 2 ? other : FAKE_ROOT, i);
    }
    return NULL;
}

static void test_threads(void)
{
    struct rig r;
    GThread *thread;

    begin(&r, 0);
    g_assert_true(guest_memory_add_bytes(r.m, same_place(), GUEST_PAGE_SIZE,
                                         r.more));
    kernel_watch_begin(&r.w, 0);
    thread = g_thread_new("report", report_many, &r);
    for (unsigned i = 0; i < 20000 || !r.w.alive || !r.w.last; i++) {
        look(&r);
    }
    g_atomic_int_set(&r.done, 1);
    g_thread_join(thread);
    look(&r);
    g_assert_cmpuint(r.w.alive % 2, ==, 0);
    g_assert_cmpuint(r.w.last % 2, ==, 1);
    end(&r);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/kernel-watch/runs", test_runs);
    g_test_add_func("/kernel-watch/ends", test_ends);
    g_test_add_func("/kernel-watch/returns", test_returns);
    g_test_add_func("/kernel-watch/replaced", test_replaced);
    g_test_add_func("/kernel-watch/many", test_many);
    g_test_add_func("/kernel-watch/threads", test_threads);
    return g_test_run();
}
