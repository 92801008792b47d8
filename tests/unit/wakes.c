/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of guest-linux/wakes.h: where a fake guest's kernel wakes tasks, and
 * tables of jumps that say something else
 */

#include <glib.h>
#include <string.h>

#include "fake-linux.h"
#include "guest-linux/wakes.h"

struct rig {
    struct fake_linux f;
    struct guest_memory *m;
    struct linux_kernel *k;
    uint64_t key;
};

static void begin(struct rig *r)
{
    r->k = fake_linux_begin(&r->f, 0, &r->m);
    r->key = r->f.waking + r->f.layout.tracepoint_key;
}

static void end(struct rig *r)
{
    fake_linux_end(&r->f, r->m, r->k);
}

static void assert_waking(const struct rig *r, unsigned n,
                          const uint64_t *offsets)
{
    g_assert_cmphex(r->k->wake, ==, FAKE_WAKE);
    g_assert_cmphex(r->k->wake_new, ==, FAKE_WAKE_NEW);
    g_assert_cmphex(r->k->waking_new, ==, FAKE_WAKE_NEW + 0x30);
    for (unsigned i = 0; i < BTRAIL_TASKS_WAKING; i++) {
        g_assert_cmphex(r->k->waking[i], ==,
                        i < n ? FAKE_WAKE + offsets[i] : 0);
    }
}

/* Nothing of it is there then. */
static void assert_none(struct rig *r)
{
    g_assert_false(linux_wakes_find(r->k));
    g_assert_cmphex(r->k->wake, ==, 0);
    g_assert_cmphex(r->k->wake_new, ==, 0);
    g_assert_cmphex(r->k->waking_new, ==, 0);
    for (unsigned i = 0; i < BTRAIL_TASKS_WAKING; i++) {
        g_assert_cmphex(r->k->waking[i], ==, 0);
    }
}

static void test_found(void)
{
    struct rig r;

    begin(&r);
    g_assert_false(r.k->wakes_sought);
    g_assert_true(linux_wakes_find(r.k));
    g_assert_true(r.k->wakes_sought);
    assert_waking(&r, 2, (const uint64_t[]) { 0x20, 0x80 });
    end(&r);
}

/* As many places as there is room for, and one more */
static void test_many(void)
{
    struct rig r;

    begin(&r);
    fake_linux_jump(&r.f, 0, FAKE_WAKE + 0x10, r.key);
    fake_linux_jump(&r.f, FAKE_JUMPS - 1, FAKE_WAKE + 0xff, r.key);
    g_assert_true(linux_wakes_find(r.k));
    assert_waking(&r, 4, (const uint64_t[]) { 0x10, 0x20, 0x80, 0xff });
    fake_linux_jump(&r.f, 1, FAKE_WAKE + 0x11, r.key);
    assert_none(&r);
    end(&r);
}

/* What a compiler has put elsewhere wakes a task that nobody knows. */
static void test_elsewhere(void)
{
    static const uint64_t places[] = {
        FAKE_WAKE, FAKE_WAKE - 1, FAKE_WAKE_NEW, FAKE_STEXT,
        UINT64_C(0xffffffffc0000000),
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(places); i++) {
        struct rig r;

        begin(&r);
        fake_linux_jump(&r.f, FAKE_WAKING, places[i], r.key);
        assert_none(&r);
        end(&r);
    }
}

static void test_none(void)
{
    struct rig r;

    begin(&r);
    fake_linux_jump(&r.f, FAKE_WAKING, FAKE_WAKE + 0x20, r.key + 4);
    fake_linux_jump(&r.f, FAKE_WAKING + 1, FAKE_WAKE + 0x80, r.key - 4);
    assert_none(&r);
    end(&r);
    begin(&r);
    r.k->layout.tracepoint_key = LINUX_NONE;
    assert_none(&r);
    end(&r);
    begin(&r);
    fake_linux_jump(&r.f, FAKE_WAKING_NEW, FAKE_WAKE + 0x30,
                    r.f.waking_new + r.f.layout.tracepoint_key);
    assert_none(&r);
    end(&r);
}

/* A kernel that is different has none. */
static void test_missing(void)
{
    static const char *const names[] = {
        "try_to_wake_up", "wake_up_new_task", "__tracepoint_sched_waking",
        "__tracepoint_sched_wakeup_new",
        "__start___jump_table", "__stop___jump_table",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        struct rig r;
        char *at;

        fake_linux_init(&r.f, 0);
        at = memmem(r.f.memory + FAKE_NOTE * GUEST_PAGE_SIZE, FAKE_SIZE -
                    FAKE_NOTE * GUEST_PAGE_SIZE, names[i], strlen(names[i]));
        g_assert_nonnull(at);
        *at = 'x';
        r.m = guest_memory_new();
        g_assert_true(guest_memory_add_bytes(r.m, 0, FAKE_SIZE, r.f.memory));
        r.k = fake_linux_find(r.m);
        g_assert_nonnull(r.k);
        assert_none(&r);
        end(&r);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/wakes/found", test_found);
    g_test_add_func("/wakes/many", test_many);
    g_test_add_func("/wakes/elsewhere", test_elsewhere);
    g_test_add_func("/wakes/none", test_none);
    g_test_add_func("/wakes/missing", test_missing);
    return g_test_run();
}
