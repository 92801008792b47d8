/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of guest-linux/switch.h: where a fake guest's kernel switches tasks
 */
#include <glib.h>
#include <string.h>

#include "fake-linux.h"
#include "guest-linux/switch.h"

static const struct btrail_tasks none;

static void test_found(void)
{
    struct guest_memory *m;
    struct fake_linux f;
    struct linux_kernel *k = fake_linux_begin(&f, 0, &m);
    struct btrail_tasks want = {
        .switch_to = FAKE_SWITCH_TO,
        .set_name = FAKE_SET_NAME,
        .current = FAKE_PCPU_HOT + f.layout.pcpu_current,
        .tid = f.layout.task_pid,
        .pid = f.layout.task_tgid,
        .name = f.layout.task_comm,
        .task_flags = f.layout.task_flags,
        .kernel = 0x200000,
        .number = 3,
        .wake = FAKE_WAKE,
        .waking = { FAKE_WAKE + 0x20, FAKE_WAKE + 0x80 },
        .wake_new = FAKE_WAKE_NEW,
        .waking_new = FAKE_WAKE_NEW + 0x30,
        .state = f.layout.task_state,
        .on_queue = f.layout.task_on_queue,
        .delayed = f.layout.task_delayed,
        .dead = 0x80, .interruptible = 1, .uninterruptible = 2,
    };
    struct btrail_tasks tasks;

    k->number = 3;
    want.mark = k->banner + strlen(FAKE_BANNER) - BTRAIL_TASKS_MARK;
    want.mark_physical = want.mark - FAKE_STEXT;
    memcpy(want.mark_bytes,
           FAKE_BANNER + strlen(FAKE_BANNER) - BTRAIL_TASKS_MARK,
           BTRAIL_TASKS_MARK);
    g_assert_true(linux_switch(k, &tasks));
    g_assert_cmpmem(&tasks, sizeof(tasks), &want, sizeof(want));
    /* A kernel without struct pcpu_hot has the pointer by itself. */
    k->layout.pcpu_current = LINUX_NONE;
    want.current = FAKE_CURRENT;
    g_assert_true(linux_switch(k, &tasks));
    g_assert_cmpmem(&tasks, sizeof(tasks), &want, sizeof(want));
    fake_linux_end(&f, m, k);
}

/* What is not known of why tasks wait is 0, and the rest is as it was. */
static void test_waits(void)
{
    struct guest_memory *m;
    struct fake_linux f;
    struct linux_kernel *k = fake_linux_begin(&f, 0, &m);
    struct btrail_tasks tasks;

    /* Before Linux 5.14, and before 6.12 */
    k->layout.task_state = k->layout.task_delayed = LINUX_NONE;
    g_assert_true(linux_switch(k, &tasks));
    g_assert_cmpuint(tasks.state, ==, f.layout.task_state_before);
    g_assert_cmpuint(tasks.delayed, ==, 0);
    g_assert_cmpuint(tasks.on_queue, ==, f.layout.task_on_queue);
    k->layout.task_on_queue = LINUX_NONE;
    g_assert_true(k->wakes_sought);
    k->wake = 0;
    g_assert_true(linux_switch(k, &tasks));
    g_assert_cmpuint(tasks.state, ==, 0);
    g_assert_cmpuint(tasks.on_queue, ==, 0);
    g_assert_cmpuint(tasks.dead, ==, 0);
    g_assert_cmphex(tasks.wake, ==, 0);
    g_assert_cmphex(tasks.switch_to, ==, FAKE_SWITCH_TO);
    fake_linux_end(&f, m, k);
}

/* The BTF of a guest can say anything. */
static void test_offsets(void)
{
    struct guest_memory *m;
    struct fake_linux f;
    struct linux_kernel *k = fake_linux_begin(&f, 0, &m);
    uint32_t *const offsets[] = {
        &k->layout.task_pid, &k->layout.task_tgid, &k->layout.task_comm,
        &k->layout.task_flags,
    };
    struct btrail_tasks tasks;

    for (unsigned i = 0; i < G_N_ELEMENTS(offsets); i++) {
        uint32_t old = *offsets[i];

        *offsets[i] = BTRAIL_TASKS_MAX_OFFSET - 1;
        g_assert_true(linux_switch(k, &tasks));
        *offsets[i] = BTRAIL_TASKS_MAX_OFFSET;
        g_assert_false(linux_switch(k, &tasks));
        g_assert_cmpmem(&tasks, sizeof(tasks), &none, sizeof(none));
        *offsets[i] = old;
    }
    fake_linux_end(&f, m, k);
}

/* A kernel that is different is found, and has no such description. */
static void test_missing(void)
{
    static const char *const names[] = {
        "__switch_to_asm", "__set_task_comm", "pcpu_hot",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        struct fake_linux f;
        struct guest_memory *m;
        struct linux_kernel *k;
        struct btrail_tasks tasks;
        char *at;

        fake_linux_init(&f, 0);
        /* In the list of symbols, not in BTF */
        at = memmem(f.memory + FAKE_NOTE * GUEST_PAGE_SIZE, FAKE_SIZE -
                    FAKE_NOTE * GUEST_PAGE_SIZE, names[i], strlen(names[i]));
        g_assert_nonnull(at);
        *at = 'x';
        m = guest_memory_new();
        g_assert_true(guest_memory_add_bytes(m, 0, FAKE_SIZE, f.memory));
        k = fake_linux_find(m);
        g_assert_nonnull(k);
        g_assert_true(linux_switch(k, &tasks) == !strcmp(names[i],
                                                         "pcpu_hot"));
        if (tasks.switch_to) {
            g_assert_cmphex(tasks.current, ==, FAKE_CURRENT);
        }
        fake_linux_end(&f, m, k);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/switch/found", test_found);
    g_test_add_func("/switch/waits", test_waits);
    g_test_add_func("/switch/offsets", test_offsets);
    g_test_add_func("/switch/missing", test_missing);
    return g_test_run();
}
