/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/diff-tasks.h: tasks of traces that the test writes, and
 * which of two sets of tasks are the same
 */
#include <glib.h>
#include <string.h>

#include "analyze/diff-tasks.h"
#include "code-samples.h"
#include "scratch.h"

#define KERNEL  UINT64_C(0xffffffff81000000)

enum { SWITCH_TO, LAZY, SWITCH_MM, IDLE, BIRTH, CLONE, EXIT, OTHER };

/**
 * struct step - what a vCPU does from a moment on
 * @name: of the task, as events say it; NULL: nothing names it
 * @to:   the function of the kernel that all records go to
 */
struct step {
    unsigned vcpu;
    uint64_t time;
    uint64_t cr3;
    uint32_t pid;
    uint32_t tid;
    const char *name;
    bool kernel;
    unsigned records;
    unsigned to;
};

/* A trace, and its tasks */
struct sample {
    struct btrail_trace *trace;
    struct symbolizer *names;
    struct diff_tasks tasks;
};

static char *folder;

static void add_events(const struct step *s, uint64_t index,
                       struct btrail_slab *slab, struct btrail_event *events)
{
    struct btrail_event task = {
        .index = index, .type = BTRAIL_EVENT_TASK,
        .reason = s->kernel ? BTRAIL_TASK_KERNEL : 0,
        .data = { (uint64_t)s->pid << 32 | s->tid },
    };

    events[0] = (struct btrail_event) {
        .index = index, .type = BTRAIL_EVENT_TIME,
        .data = { s->time, 0, BTRAIL_NO_ICOUNT },
    };
    if (s->name) {
        memcpy(&task.data[1], s->name, strlen(s->name));
        events[1] = task;
    }
    slab->events = events;
    slab->n_events = s->name ? 2 : 1;
}

static void write_trace(const char *path, const struct step *steps, unsigned n)
{
    static const char meta[] = "{\"tick_ns\": 0, \"privilege\": \"all\"}";
    uint64_t index[BTRAIL_MAX_VCPUS] = { 0 };
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    for (unsigned i = 0; i < n; i++) {
        const struct step *s = &steps[i];
        g_autofree struct btrail_record *records =
            g_new0(struct btrail_record, s->records);
        struct btrail_event events[2];
        struct btrail_slab slab = {
            .first_index = index[s->vcpu], .cr3 = s->cr3, .records = records,
            .n_records = s->records,
        };

        for (unsigned k = 0; k < s->records; k++) {
            records[k].from = KERNEL + 0x710;
            records[k].to = KERNEL + 0x100 * s->to;
        }
        add_events(s, index[s->vcpu], &slab, events);
        g_assert_cmpint(btrail_writer_append(w, s->vcpu, &slab), ==, 0);
        index[s->vcpu] += s->records;
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

static void read_sample(struct sample *s, const struct step *steps, unsigned n,
                        const char *map, const struct window *window)
{
    g_autofree char *path = g_build_filename(folder, "t.btrail", NULL);
    g_autofree char *map_path = g_build_filename(folder, "t.map", NULL);
    const struct symbolizer_options options = { .map = map_path };

    write_trace(path, steps, n);
    g_assert_true(g_file_set_contents(map_path, map, -1, NULL));
    g_assert_cmpint(btrail_trace_open(&s->trace, path), ==, 0);
    s->names = symbolizer_new(&options, s->trace, NULL);
    g_assert_nonnull(s->names);
    g_assert_cmpint(diff_tasks_read(&s->tasks, s->trace, s->names, window), ==,
                    0);
}

static void clear_sample(struct sample *s)
{
    diff_tasks_clear(&s->tasks);
    symbolizer_free(s->names);
    btrail_trace_close(s->trace);
}

/* Each record is of a task that was found, and that has counted it. */
static void check_records(const struct sample *s)
{
    g_autoptr(GHashTable) records = g_hash_table_new(NULL, NULL);
    struct btrail_stream_info info;

    for (unsigned i = 0; !btrail_trace_stream(s->trace, i, &info); i++) {
        struct btrail_cursor *cursor;
        struct btrail_batch b;

        g_assert_cmpint(btrail_cursor_open(&cursor, s->trace, info.vcpu, 0),
                        ==, 0);
        while (!btrail_cursor_next(cursor, &b)) {
            struct btrail_batch part = { .count = 0 };
            struct task task;

            while (symbolizer_part(s->names, info.vcpu, &b, &part, &task)) {
                gpointer d = diff_tasks_find(&s->tasks, info.vcpu, &task);
                gpointer n = g_hash_table_lookup(records, d);

                g_hash_table_insert(records, d, (char *)n + part.count);
            }
        }
        btrail_cursor_close(cursor);
    }
    g_assert_cmpuint(g_hash_table_size(records), ==, s->tasks.all->len);
    for (unsigned i = 0; i < s->tasks.all->len; i++) {
        const struct diff_task *d = s->tasks.all->pdata[i];

        g_assert_cmpuint(GPOINTER_TO_SIZE(g_hash_table_lookup(records, d)), ==,
                         d->records);
    }
}

/* A line for each task: what is known of it, its records, and all names */
static void check(const struct diff_tasks *tasks, const char *expected)
{
    g_autoptr(GString) text = g_string_new(NULL);

    for (unsigned i = 0; i < tasks->all->len; i++) {
        const struct diff_task *d = tasks->all->pdata[i];

        g_string_append_printf(
            text, "%s%s%s %" G_GINT64_FORMAT "/%" G_GINT64_FORMAT " cpu %u %"
            G_GUINT64_FORMAT " at %" G_GUINT64_FORMAT ":",
            d->comm, d->kernel ? " kernel" : "", d->known ? "" : " unknown",
            d->pid, d->tid, d->vcpu, d->records, d->time);
        for (unsigned k = 0; k < d->names->len; k++) {
            g_string_append_printf(text, " %s",
                                   (const char *)d->names->pdata[k]);
        }
        g_string_append_c(text, '\n');
    }
    g_assert_cmpstr(text->str, ==, expected);
}

static const struct step two_vcpus[] = {
    { 0, 100, 0x1000, 10, 10, "sh", false, 3 },
    { 0, 200, 0x1000, 0, 0, "swapper/0", true, 5 },
    { 0, 400, 0x2000, 20, 21, "thread", false, 7 },
    { 1, 50, 0x1000, 0, 0, "swapper/1", true, 11 },
    { 1, 150, 0x2000, 20, 20, "main", false, 13 },
    { 1, 300, 0x2000, 20, 21, "thread", false, 17 },
    { 1, 500, 0x1000, 2, 2, "kthreadd", true, 19 },
};

/* Threads are tasks, wherever they run; each vCPU has its own idle task. */
static void test_named(void)
{
    struct sample s;

    read_sample(&s, two_vcpus, G_N_ELEMENTS(two_vcpus), "", &WINDOW_ALL(0));
    check(&s.tasks,
          "swapper/1 kernel 0/0 cpu 1 11 at 50: swapper/1\n"
          "sh 10/10 cpu 0 3 at 100: sh\n"
          "main 20/20 cpu 1 13 at 150: main\n"
          "swapper/0 kernel 0/0 cpu 0 5 at 200: swapper/0\n"
          "thread 20/21 cpu 1 24 at 300: thread\n"
          "kthreadd kernel 2/2 cpu 1 19 at 500: kthreadd\n");
    g_assert_cmpuint(s.tasks.records, ==, 3 + 5 + 7 + 11 + 13 + 17 + 19);
    g_assert_cmpuint(s.tasks.damage, ==, 0);
    check_records(&s);
    clear_sample(&s);
}

static void test_window(void)
{
    const struct window window = { 50, 100, 350 };
    struct sample s;

    read_sample(&s, two_vcpus, G_N_ELEMENTS(two_vcpus), "", &window);
    check(&s.tasks,
          "main 20/20 cpu 1 13 at 150: main\n"
          "swapper/0 kernel 0/0 cpu 0 5 at 200: swapper/0\n"
          "thread 20/21 cpu 1 17 at 300: thread\n");
    g_assert_cmpuint(s.tasks.records, ==, 13 + 5 + 17);
    clear_sample(&s);
}

/* The task of a record is that of the list. */
static void test_find(void)
{
    struct sample s;

    read_sample(&s, two_vcpus, G_N_ELEMENTS(two_vcpus), "", &WINDOW_ALL(0));
    for (unsigned i = 0; i < s.tasks.all->len; i++) {
        struct diff_task *d = s.tasks.all->pdata[i];
        const struct task task = { .process = d->process, .tid = d->tid };
        const struct task other = { .process = d->process, .tid = d->tid + 50 };

        g_assert_true(diff_tasks_find(&s.tasks, d->vcpu, &task) == d);
        /* All but idle tasks run anywhere. */
        g_assert_true((diff_tasks_find(&s.tasks, !d->vcpu, &task) == d) ==
                      !!d->tid);
        g_assert_null(diff_tasks_find(&s.tasks, d->vcpu, &other));
    }
    clear_sample(&s);
}

/* The vCPU that has executed the program is not the one that is read last. */
static void test_exec(void)
{
    static const struct step steps[] = {
        { 1, 100, 0x1000, 10, 10, "sh", false, 3 },
        { 0, 200, 0x1000, 10, 10, "env", false, 4 },
        { 0, 300, 0x2000, 10, 10, "ls", false, 5 },
        { 1, 150, 0x1000, 10, 10, "sh", false, 6 },
    };
    struct sample s;

    read_sample(&s, steps, G_N_ELEMENTS(steps), "", &WINDOW_ALL(0));
    check(&s.tasks, "ls 10/10 cpu 1 18 at 100: env ls sh\n");
    check_records(&s);
    clear_sample(&s);
}

/* Without events, there is one task for each address space. */
static void test_unnamed(void)
{
    static const struct step steps[] = {
        { 0, 100, 0x1000, .records = 3 },
        { 0, 200, 0x2000, .records = 4 },
        { 1, 300, 0x1000, .records = 5 },
        { 1, 400, 0x3000, .records = 6 },
    };
    struct sample s;

    read_sample(&s, steps, G_N_ELEMENTS(steps), "cr3 3000 pid=7 sorter\n",
                &WINDOW_ALL(0));
    check(&s.tasks,
          "cr3:0x1000 unknown -1/-1 cpu 0 8 at 100: cr3:0x1000\n"
          "cr3:0x2000 unknown -1/-1 cpu 0 4 at 200: cr3:0x2000\n"
          "sorter 7/-1 cpu 1 6 at 400: sorter\n");
    check_records(&s);
    clear_sample(&s);
}

/* Switches to a task of the kernel: its records are those after the last. */
#define SWITCH_KERNEL(cpu, t) \
    { cpu, t, 0x1000, .records = 1, .to = LAZY }, \
    { cpu, t, 0x1000, .records = 1, .to = SWITCH_TO }

/*
 * The tasks of a boot have no names at first.  The first records of all are of
 * none that is known.
 */
static void test_boot(void)
{
    static const struct step steps[] = {
        SWITCH_KERNEL(0, 100),
        { 0, 110, 0x1000, .records = 10, .to = OTHER },
        SWITCH_KERNEL(0, 120),
        { 0, 130, 0x1000, .records = 20, .to = IDLE },
        { 0, 140, 0x1000, 1, 1, "swapper/0", true, 30, OTHER },
        { 0, 150, 0x1000, 0, 0, "swapper/0", true, 40, IDLE },
        { 0, 160, 0x1000, 1, 1, "init", false, 50, OTHER },
        SWITCH_KERNEL(1, 135),
        { 1, 136, 0x1000, .records = 60, .to = OTHER },
    };
    struct sample s;

    read_sample(&s, steps, G_N_ELEMENTS(steps), SAMPLE_KERNEL,
                &WINDOW_ALL(0));
    /* What leads to a switch is of the task that ran before. */
    check(&s.tasks,
          "cr3:0x1000 unknown -1/-1 cpu 0 4 at 100: cr3:0x1000\n"
          "init 1/1 cpu 0 92 at 110: swapper/0 init\n"
          "swapper/0 kernel 0/0 cpu 0 60 at 130: swapper/0\n"
          "[kernel] kernel -1/-1 cpu 1 60 at 136: [kernel]\n");
    check_records(&s);
    clear_sample(&s);
}

/*
 * A task of the kernel is one task in all address spaces.  It is not init if
 * that had a name before, and the idle task of another vCPU is another one.
 */
static void test_no_boot(void)
{
    static const struct step steps[] = {
        SWITCH_KERNEL(0, 100),
        { 0, 110, 0x1000, .records = 10, .to = OTHER },
        { 0, 115, 0x2000, .records = 15, .to = OTHER },
        SWITCH_KERNEL(0, 120),
        { 0, 130, 0x2000, .records = 20, .to = IDLE },
        { 1, 90, 0x1000, 1, 1, "init", false, 30, OTHER },
        { 1, 140, 0x1000, 0, 0, "swapper/1", true, 40, IDLE },
    };
    struct sample s;

    read_sample(&s, steps, G_N_ELEMENTS(steps), SAMPLE_KERNEL,
                &WINDOW_ALL(0));
    check(&s.tasks,
          "init 1/1 cpu 1 30 at 90: init\n"
          "cr3:0x1000 unknown -1/-1 cpu 0 2 at 100: cr3:0x1000\n"
          "[kernel] kernel -1/-1 cpu 0 27 at 110: [kernel]\n"
          "swapper kernel 0/0 cpu 0 20 at 130: swapper\n"
          "swapper/1 kernel 0/0 cpu 1 40 at 140: swapper/1\n");
    check_records(&s);
    clear_sample(&s);
}

/*
 * Tasks of two traces, in the order of their first records.  @other is the
 * place of the same task in the other trace; -1: there is none.
 */
struct row {
    const char *name;
    const char *former;
    int64_t pid;
    int64_t tid;
    bool kernel;
    bool unknown;
    unsigned vcpu;
    int other;
};

static void make_tasks(struct diff_tasks *tasks, const struct row *rows,
                       unsigned n)
{
    *tasks = (struct diff_tasks) { .all = g_ptr_array_new() };
    for (unsigned i = 0; i < n && rows[i].name; i++) {
        struct diff_task *d = g_new0(struct diff_task, 1);
        const struct row *row = &rows[i];

        d->comm = row->name;
        d->names = g_ptr_array_new();
        if (row->former) {
            g_ptr_array_add(d->names, (char *)row->former);
        }
        g_ptr_array_add(d->names, (char *)row->name);
        d->pid = row->pid;
        d->tid = row->tid;
        d->kernel = row->kernel;
        d->known = !row->unknown;
        d->vcpu = row->vcpu;
        d->time = i;
        g_ptr_array_add(tasks->all, d);
    }
}

static void free_tasks(struct diff_tasks *tasks)
{
    for (unsigned i = 0; i < tasks->all->len; i++) {
        struct diff_task *d = tasks->all->pdata[i];

        g_ptr_array_unref(d->names);
        g_free(d);
    }
    g_ptr_array_unref(tasks->all);
}

static void check_side(const struct diff_tasks tasks[DIFF_SIDES], unsigned side,
                       const struct row *rows)
{
    for (unsigned i = 0; i < tasks[side].all->len; i++) {
        const struct diff_task *d = tasks[side].all->pdata[i];
        int other = rows[i].other;

        g_assert_true(d->other == (other < 0 ? NULL :
                                   tasks[!side].all->pdata[other]));
    }
}

enum { MOST_ROWS = 8 };

static const struct {
    const char *what;
    struct row rows[DIFF_SIDES][MOST_ROWS];
} matches[] = {
    { "numbers before order", {
        { { "sh", .pid = 10, .tid = 10, .other = 1 },
          { "sh", .pid = 11, .tid = 11, .other = 0 } },
        { { "sh", .pid = 11, .tid = 11, .other = 1 },
          { "sh", .pid = 10, .tid = 10, .other = 0 } },
    } },
    { "names in order, one left", {
        { { "cc", .pid = 20, .tid = 20, .other = 0 },
          { "ld", .pid = 21, .tid = 21, .other = 2 },
          { "cc", .pid = 22, .tid = 22, .other = 1 },
          { "cc", .pid = 23, .tid = 23, .other = -1 } },
        { { "cc", .pid = 30, .tid = 30, .other = 0 },
          { "cc", .pid = 31, .tid = 31, .other = 2 },
          { "ld", .pid = 32, .tid = 32, .other = 1 } },
    } },
    { "a name before a number", {
        { { "ls", "sh", 40, 40, .other = 1 },
          { "cat", "sh", 41, 41, .other = 0 } },
        { { "cat", "sh", 40, 40, .other = 1 },
          { "ls", "sh", 41, 41, .other = 0 } },
    } },
    { "a number and a former name", {
        { { "ls", "sh", 40, 40, .other = 0 },
          { "one", .pid = 50, .tid = 50, .other = -1 } },
        { { "sh", .pid = 40, .tid = 40, .other = 0 },
          { "other", .pid = 50, .tid = 50, .other = -1 } },
    } },
    { "threads of other processes", {
        { { "ls", "sh", 60, 61, .other = -1 } },
        { { "sh", .pid = 62, .tid = 61, .other = -1 } },
    } },
    { "kinds of tasks", {
        { { "sh", .pid = 10, .tid = 10, .other = -1 },
          { "kworker", .pid = 11, .tid = 11, .kernel = true, .other = 2 } },
        { { "sh", .pid = 10, .tid = 10, .kernel = true, .other = -1 },
          { "sh", .pid = 10, .tid = -1, .other = -1 },
          { "kworker", .pid = 15, .tid = 15, .kernel = true, .other = 1 },
          { "sh", .pid = -1, .tid = -1, .unknown = true, .other = -1 } },
    } },
    { "idle tasks", {
        { { "swapper/1", .kernel = true, .vcpu = 1, .other = 1 },
          { "swapper/0", .kernel = true, .other = 0 },
          { "swapper/2", .kernel = true, .vcpu = 2, .other = -1 } },
        { { "swapper/0", .kernel = true, .other = 1 },
          { "swapper/1", .kernel = true, .vcpu = 1, .other = 0 } },
    } },
    { "idle tasks of one name, and a task of that name", {
        { { "swapper", .kernel = true, .vcpu = 1, .other = 1 },
          { "swapper", .kernel = true, .other = 0 },
          { "swapper", NULL, 1, 1, true, .other = -1 } },
        { { "swapper", .kernel = true, .other = 1 },
          { "swapper", .kernel = true, .vcpu = 1, .other = 0 },
          { "swapper", .kernel = true, .vcpu = 2, .other = -1 } },
    } },
    { "unnamed tasks of the kernel, of each vCPU", {
        { { "[kernel]", NULL, -1, -1, true, .vcpu = 1, .other = 1 },
          { "[kernel]", NULL, -1, -1, true, .vcpu = 2, .other = -1 } },
        { { "[kernel]", NULL, -1, -1, true, .other = -1 },
          { "[kernel]", NULL, -1, -1, true, .vcpu = 1, .other = 0 } },
    } },
    { "processes whose threads have no names", {
        { { "sorter", NULL, 7, -1, .other = 1 } },
        { { "seller", NULL, 7, -1, .other = -1 },
          { "sorter", NULL, 9, -1, .vcpu = 1, .other = 0 } },
    } },
    { "an address space of a process, and one of nobody", {
        { { "cr3:0x5000", NULL, -1, -1, .unknown = true, .other = -1 } },
        { { "sorter", NULL, 7, -1, .other = -1 } },
    } },
    { "address spaces in order", {
        { { "cr3:0x5000", NULL, -1, -1, .unknown = true, .other = 1 },
          { "cr3:0x1000", NULL, -1, -1, .unknown = true, .other = 0 },
          { "cr3:0x6000", NULL, -1, -1, .unknown = true, .other = 2 },
          { "cr3:0x7000", NULL, -1, -1, .unknown = true, .other = -1 } },
        { { "cr3:0x1000", NULL, -1, -1, .unknown = true, .other = 1 },
          { "cr3:0x2000", NULL, -1, -1, .unknown = true, .other = 0 },
          { "cr3:0x3000", NULL, -1, -1, .unknown = true, .other = 2 } },
    } },
    { "nothing", { { { NULL } }, { { "sh", .pid = 1, .tid = 1, .other = -1 } },
    } },
};

static void test_match(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(matches); i++) {
        const struct row (*rows)[MOST_ROWS] = matches[i].rows;

        /* Which trace is the first one makes no difference. */
        for (unsigned first = 0; first < DIFF_SIDES; first++) {
            struct diff_tasks tasks[DIFF_SIDES];

            g_test_message("%s", matches[i].what);
            make_tasks(&tasks[0], rows[first], MOST_ROWS);
            make_tasks(&tasks[1], rows[!first], MOST_ROWS);
            diff_tasks_match(tasks);
            check_side(tasks, 0, rows[first]);
            check_side(tasks, 1, rows[!first]);
            free_tasks(&tasks[0]);
            free_tasks(&tasks[1]);
        }
    }
}

/* Many of one name, of which one trace has more, with other numbers */
static void test_many(void)
{
    enum { MANY = 2000, MORE = 100 };
    g_autofree struct row *rows = g_new0(struct row, MANY + MORE);
    struct diff_tasks tasks[DIFF_SIDES];

    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        for (unsigned i = 0; i < MANY + MORE; i++) {
            rows[i] = (struct row) {
                "cc", NULL, (side + 1) * 10000 + i, (side + 1) * 10000 + i,
                .other = i < MANY ? (int)i : -1,
            };
        }
        make_tasks(&tasks[side], rows, side ? MANY + MORE : MANY);
    }
    diff_tasks_match(tasks);
    check_side(tasks, 0, rows);
    check_side(tasks, 1, rows);
    free_tasks(&tasks[0]);
    free_tasks(&tasks[1]);
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    folder = scratch_new();
    g_test_add_func("/diff-tasks/named", test_named);
    g_test_add_func("/diff-tasks/window", test_window);
    g_test_add_func("/diff-tasks/find", test_find);
    g_test_add_func("/diff-tasks/exec", test_exec);
    g_test_add_func("/diff-tasks/unnamed", test_unnamed);
    g_test_add_func("/diff-tasks/boot", test_boot);
    g_test_add_func("/diff-tasks/no-boot", test_no_boot);
    g_test_add_func("/diff-tasks/match", test_match);
    g_test_add_func("/diff-tasks/many", test_many);
    ret = g_test_run();
    scratch_remove(folder);
    return ret;
}
