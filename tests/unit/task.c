/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tasks, as TASK events name them: names of any bytes and any length
 */

#include <glib.h>
#include <string.h>

#include "backtrail/trace.h"

static struct btrail_event make(uint16_t flags, uint32_t tid, uint32_t pid,
                                const char *name)
{
    struct btrail_event e = {
        .type = BTRAIL_EVENT_TASK, .reason = flags,
        .data = { (uint64_t)pid << 32 | tid },
    };

    for (unsigned i = 0; i < 16 && name[i]; i++) {
        e.data[1 + i / 8] |= (uint64_t)(uint8_t)name[i] << i % 8 * 8;
    }
    return e;
}

static void check(uint16_t flags, uint32_t tid, uint32_t pid,
                  const char *name, const char *want)
{
    const struct btrail_event e = make(flags, tid, pid, name);
    struct btrail_task task;

    memset(&task, 0xff, sizeof(task));
    g_assert_cmpint(btrail_event_task(&e, &task), ==, 0);
    g_assert_true(task.known);
    g_assert_true(task.kernel == (flags & BTRAIL_TASK_KERNEL));
    g_assert_cmpuint(task.tid, ==, tid);
    g_assert_cmpuint(task.pid, ==, pid);
    g_assert_cmpstr(task.name, ==, want);
}

static void test_names(void)
{
    check(0, 78, 77, "nginx", "nginx");
    check(BTRAIL_TASK_KERNEL, 0, 0, "", "");
    check(0, UINT32_MAX, UINT32_MAX - 1, "fifteen letters",
          "fifteen letters");
    check(0, 1, 1, "sixteen letters!", "sixteen letters!");
    check(0, 1, 1, "seventeen letters", "seventeen letter");
    check(0, 1, 1, "\x01\x80\xff\"\\\n", "\x01\x80\xff\"\\\n");
}

static void test_behind_nul(void)
{
    struct btrail_event e = make(0, 1, 1, "a");
    struct btrail_task task;

    e.data[1] |= UINT64_C(0x5858585858580000);
    e.data[2] = UINT64_MAX;
    g_assert_cmpint(btrail_event_task(&e, &task), ==, 0);
    g_assert_cmpstr(task.name, ==, "a");
    for (unsigned i = 1; i < sizeof(task.name); i++) {
        g_assert_cmpint(task.name[i], ==, 0);
    }
}

static void test_unknown(void)
{
    const struct btrail_event e = make(BTRAIL_TASK_UNKNOWN, 5, 5, "x");
    static const struct btrail_task none;
    struct btrail_task task;

    memset(&task, 0, sizeof(task));
    task.tid = 9;
    task.known = true;
    g_assert_cmpint(btrail_event_task(&e, &task), ==, 0);
    g_assert_cmpmem(&task, sizeof(task), &none, sizeof(none));
}

static void test_errors(void)
{
    struct btrail_event e = make(0, 1, 1, "a");
    struct btrail_task task;

    g_assert_cmpint(btrail_event_task(NULL, &task), ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_event_task(&e, NULL), ==, -BTRAIL_ERR_ARGUMENT);
    e.type = BTRAIL_EVENT_TIME;
    g_assert_cmpint(btrail_event_task(&e, &task), ==, -BTRAIL_ERR_ARGUMENT);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/task/names", test_names);
    g_test_add_func("/task/behind-nul", test_behind_nul);
    g_test_add_func("/task/unknown", test_unknown);
    g_test_add_func("/task/errors", test_errors);
    return g_test_run();
}
