/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tasks, as TASK events name them: names of any bytes and any length; and the
 * task of each record of a trace that is read or copied
 */

#include <glib.h>
#include <string.h>

#include "trace-samples.h"

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

static void test_after_nul(void)
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

static struct btrail_left left_of(uint16_t flags)
{
    const struct btrail_event e = make(flags, 1, 1, "a");
    struct btrail_left left;

    memset(&left, 0xff, sizeof(left));
    g_assert_cmpint(btrail_event_left(&e, &left), ==, 0);
    g_assert_cmpint(left.runnable + left.dead + left.interruptible +
                    left.uninterruptible, <=, left.known);
    return left;
}

static void test_left(void)
{
    g_assert_false(left_of(BTRAIL_TASK_KERNEL).known);
    g_assert_false(left_of(BTRAIL_TASK_UNKNOWN).known);
    g_assert_true(left_of(BTRAIL_TASK_LEFT_RUNNABLE).runnable);
    g_assert_true(left_of(BTRAIL_TASK_LEFT_DEAD).dead);
    g_assert_true(left_of(BTRAIL_TASK_LEFT_BLOCKED).known);
    g_assert_true(left_of(BTRAIL_TASK_LEFT_BLOCKED |
                          BTRAIL_TASK_LEFT_INTERRUPTIBLE).interruptible);
    g_assert_true(left_of(BTRAIL_TASK_LEFT_BLOCKED | BTRAIL_TASK_KERNEL |
                          BTRAIL_TASK_LEFT_UNINTERRUPTIBLE).uninterruptible);
    /* What cannot be */
    g_assert_false(left_of(BTRAIL_TASK_LEFT_RUNNABLE |
                           BTRAIL_TASK_LEFT_INTERRUPTIBLE).interruptible);
}

static void test_wake(void)
{
    struct btrail_event e = {
        .type = BTRAIL_EVENT_WAKE,
        .reason = BTRAIL_WAKE_KERNEL | BTRAIL_WAKE_NEW,
        .data = { UINT64_C(7) << 32 | 8 },
    };
    struct btrail_wake wake;

    g_assert_cmpint(btrail_event_wake(&e, &wake), ==, 0);
    g_assert_true(wake.known && wake.kernel && wake.is_new);
    g_assert_cmpuint(wake.tid, ==, 8);
    g_assert_cmpuint(wake.pid, ==, 7);
    e.reason = BTRAIL_WAKE_UNKNOWN | BTRAIL_WAKE_KERNEL;
    g_assert_cmpint(btrail_event_wake(&e, &wake), ==, 0);
    g_assert_false(wake.known || wake.kernel || wake.is_new || wake.tid);
    e.type = BTRAIL_EVENT_TASK;
    g_assert_cmpint(btrail_event_wake(&e, &wake), ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_event_wake(NULL, &wake), ==, -BTRAIL_ERR_ARGUMENT);
}

static void test_errors(void)
{
    struct btrail_event e = make(0, 1, 1, "a");
    struct btrail_task task;
    struct btrail_left left;

    g_assert_cmpint(btrail_event_task(NULL, &task), ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_event_task(&e, NULL), ==, -BTRAIL_ERR_ARGUMENT);
    e.type = BTRAIL_EVENT_TIME;
    g_assert_cmpint(btrail_event_task(&e, &task), ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_event_left(&e, &left), ==, -BTRAIL_ERR_ARGUMENT);
}

enum { VCPUS = 2, SLABS = 60, RECORDS = 200 };

/* The task of a record: another one after a number of records that varies */
static uint32_t tid_of(unsigned vcpu, uint64_t index)
{
    return 1 + vcpu + index / (37 + 100 * vcpu) % 1000;
}

static void write_parts(const char *path)
{
    static const struct btrail_writer_options options = { .part_size = 60000 };
    struct btrail_record records[RECORDS];
    struct btrail_event events[RECORDS + 1];
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open_with(&w, path, &options), ==, 0);
    for (unsigned i = 0; i < SLABS; i++) {
        struct btrail_slab slab = {
            .first_index = (uint64_t)i / VCPUS * RECORDS, .cr3 = 0x1000,
            .records = records, .n_records = RECORDS, .events = events,
        };
        unsigned vcpu = i % VCPUS;

        events[slab.n_events++] = (struct btrail_event) {
            .index = slab.first_index, .type = BTRAIL_EVENT_TIME,
            .data = { 1000 + 100 * i, 0, BTRAIL_NO_ICOUNT },
        };
        for (unsigned k = 0; k < RECORDS; k++) {
            uint64_t index = slab.first_index + k;
            uint32_t tid = tid_of(vcpu, index);

            records[k] = (struct btrail_record) {
                (uint64_t)g_test_rand_int() << 16, index, 0,
            };
            if (!index || tid != tid_of(vcpu, index - 1)) {
                events[slab.n_events] = make(tid % 2, tid, tid / 2, "task");
                events[slab.n_events++].index = index;
            }
        }
        g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
        if (i % 5 == 4) {
            g_assert_cmpint(btrail_writer_flush(w), ==, 0);
        }
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

/* Checks the task of each record of a batch; returns their number. */
static uint64_t check_batch(unsigned vcpu, const struct btrail_batch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        g_assert_true(b->task.known);
        g_assert_cmpuint(b->records[i].to, ==, b->index + i);
        g_assert_cmpuint(b->task.tid, ==, tid_of(vcpu, b->index + i));
        g_assert_cmpuint(b->task.pid, ==, b->task.tid / 2);
        g_assert_cmpint(b->task.kernel, ==, b->task.tid % 2);
        g_assert_cmpstr(b->task.name, ==, "task");
    }
    return b->count;
}

static int check_piece(void *opaque, const struct btrail_piece *piece,
                       const struct btrail_batch *b)
{
    *(uint64_t *)opaque += b ? check_batch(piece->vcpu, b) : 0;
    return 0;
}

/* Checks all records of a trace in three ways; returns their number. */
static uint64_t check_trace(const struct btrail_trace *trace)
{
    struct btrail_stream_info info;
    struct btrail_merged *merged;
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    uint64_t n = 0, others = 0;
    unsigned vcpu, i;

    g_assert_cmpint(btrail_merged_open(&merged, trace, NULL, 0, 0, 10), ==, 0);
    while (!btrail_merged_next(merged, &vcpu, NULL, &b)) {
        n += check_batch(vcpu, &b);
    }
    btrail_merged_close(merged);
    g_assert_cmpint(btrail_parallel_decode(trace, NULL, 0, 0, 1, check_piece,
                                           &others), ==, 0);
    g_assert_cmpuint(others, ==, n);
    for (i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        g_assert_cmpint(btrail_cursor_open(&cursor, trace, info.vcpu, 0), ==,
                        0);
        for (unsigned k = 0; k < 50; k++) {
            uint64_t index = g_test_rand_int_range(0, info.end_index);

            btrail_cursor_seek(cursor, index);
            while (!btrail_cursor_next(cursor, &b) && b.event) {
            }
            g_assert_cmpuint(check_batch(info.vcpu, &b), >, 0);
        }
        btrail_cursor_close(cursor);
    }
    return n;
}

/* What reads and copies a trace knows the task of each record. */
static void test_copies(void)
{
    char *path = sample_path();
    g_autofree char *out = g_strconcat(path, ".out", NULL);
    g_autofree char *content = NULL;
    struct btrail_merge_result merged;
    struct btrail_trace *trace;
    gsize size;

    write_parts(path);
    g_assert_cmpint(btrail_trace_open_parts(&trace, path), ==, 0);
    g_assert_cmpuint(check_trace(trace), ==, SLABS * RECORDS);
    g_assert_cmpint(btrail_merge(trace, out, 0, &merged), ==, 0);
    g_assert_cmpuint(merged.chunks, >, 10);
    btrail_trace_close(trace);
    g_assert_cmpint(btrail_trace_open(&trace, out), ==, 0);
    g_assert_cmpuint(check_trace(trace), ==, SLABS * RECORDS);
    btrail_trace_close(trace);
    /* Cut off */
    g_assert_true(g_file_get_contents(out, &content, &size, NULL));
    g_assert_true(g_file_set_contents(path, content, size * 2 / 3, NULL));
    g_assert_cmpint(btrail_repair(path, out, BTRAIL_WRITER_REPLACE, NULL), ==,
                    0);
    g_assert_cmpint(btrail_trace_open(&trace, out), ==, 0);
    g_assert_cmpuint(check_trace(trace), >, SLABS * RECORDS / 3);
    btrail_trace_close(trace);
    /* Without its beginning, in which the tasks were named first */
    memset(content + size / 4, 0, 3000);
    g_assert_true(g_file_set_contents(path, content, size, NULL));
    g_assert_cmpint(btrail_repair(path, out, BTRAIL_WRITER_REPLACE, NULL), ==,
                    0);
    g_assert_cmpint(btrail_trace_open(&trace, out), ==, 0);
    g_assert_cmpuint(check_trace(trace), >, SLABS * RECORDS / 3);
    btrail_trace_close(trace);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/task/names", test_names);
    g_test_add_func("/task/after-nul", test_after_nul);
    g_test_add_func("/task/unknown", test_unknown);
    g_test_add_func("/task/left", test_left);
    g_test_add_func("/task/wake", test_wake);
    g_test_add_func("/task/errors", test_errors);
    g_test_add_func("/task/copies", test_copies);
    return g_test_run();
}
