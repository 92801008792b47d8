/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands of gdb's "monitor" where it walks a trace: from any place, each goes
 * where a search of all places says, or says that there is none and stays
 */

#include <inttypes.h>
#include <string.h>

#include "code-samples.h"
#include "gdb-side.h"
#include "gdb/trace-target.h"
#include "trace-samples.h"

#define START(f)    (UINT64_C(0xffffffff81000000) + 256 * (f))

enum { N = 60, STEPS = 2 * N - 1, FUNCTIONS = 6, TASKS = 3, MOVES = 60 };

/**
 * struct fixture
 * @steps: addresses: where record i goes to is number 2 * i, and the branch of
 *         the next one comes after that
 * @tasks: that have made the records
 * @at:    which step gdb is at
 */
struct fixture {
    char *path;
    struct btrail_trace *trace;
    struct symbolizer *symbols;
    struct trace_target *target;
    struct gdb gdb;
    uint64_t steps[STEPS];
    unsigned tasks[N];
    unsigned at;
};

static struct btrail_event task_event(uint64_t index, unsigned task)
{
    struct btrail_event e = {
        .index = index, .type = BTRAIL_EVENT_TASK,
        .data = { (uint64_t)(1 + task) << 32 | (1 + task) },
    };

    memcpy(&e.data[1], "task", 4);
    return e;
}

static void write_trace(struct fixture *f, unsigned tasks)
{
    struct btrail_record records[N];
    struct btrail_event events[N + 1] = {
        { .type = BTRAIL_EVENT_TIME, .data = { 1000, 0, BTRAIL_NO_ICOUNT } },
    };
    struct btrail_slab slab = {
        .cr3 = 0x1000, .records = records, .n_records = N, .events = events,
        .n_events = 1,
    };
    struct btrail_writer *w;

    for (unsigned i = 0; i < N; i++) {
        records[i] = (struct btrail_record) {
            .from = i ? records[i - 1].to + 4 : START(0),
            /* The last function is not called. */
            .to = START(g_test_rand_int_range(0, FUNCTIONS - 1)) +
                  (g_test_rand_bit() ? 0 : 32),
        };
        if (i) {
            f->steps[2 * i - 1] = records[i].from;
        }
        f->steps[2 * i] = records[i].to;
        f->tasks[i] = i ? f->tasks[i - 1] : 0;
        if (!i || g_test_rand_int_range(0, 8) == 0) {
            f->tasks[i] = g_test_rand_int_range(0, tasks);
            events[slab.n_events++] = task_event(i, f->tasks[i]);
        }
    }
    g_assert_cmpint(btrail_writer_open(&w, f->path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

static struct fixture *begin(unsigned tasks)
{
    struct fixture *f = g_new0(struct fixture, 1);
    g_autoptr(GString) map = g_string_new(NULL);
    struct trace_target_options options = { .walk = { NULL, -1 } };
    int sock;

    f->path = sample_path();
    write_trace(f, tasks);
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        g_string_append_printf(map, "%" PRIx64 " T call_%u\n", START(i), i);
    }
    g_assert_cmpint(btrail_trace_open(&f->trace, f->path), ==, 0);
    f->symbols = sample_symbolizer(f->trace, map->str);
    options.trace = f->trace;
    options.symbols = f->symbols;
    f->target = trace_target_new(&options, NULL);
    g_assert_nonnull(f->target);
    f->gdb = gdb_new(&sock);
    trace_target_serve(f->target, NULL, sock, sock);
    f->at = STEPS - 1;
    return f;
}

static void end(struct fixture *f)
{
    leave(&f->gdb);
    g_assert_true(trace_target_left(f->target));
    trace_target_free(f->target);
    symbolizer_free(f->symbols);
    btrail_trace_close(f->trace);
    sample_remove(f->path);
    g_free(f);
}

static void require_at(struct fixture *f)
{
    g_autofree char *pc = g_strdup_printf(
        "%016" PRIx64, GUINT64_SWAP_LE_BE(f->steps[f->at]));

    check(&f->gdb, "p10", pc);
}

/* To any step */
static void go(struct fixture *f)
{
    unsigned at = g_test_rand_int_range(0, STEPS);
    g_autofree char *line = g_strdup_printf("goto 0:%u", at / 2);

    monitor(&f->gdb, line, "pc        0x");
    f->at = at - at % 2;
    if (at % 2) {
        check(&f->gdb, "s", "T05thread:01;");
        f->at++;
    }
    require_at(f);
}

/* Requires a command to go to a step, or to fail with a message. */
static void require(struct fixture *f, const char *line, int to,
                    const char *message)
{
    g_autofree char *pc = NULL;

    if (to >= 0) {
        pc = g_strdup_printf("pc        0x%" PRIx64 "\n", f->steps[to]);
        f->at = to;
    }
    monitor(&f->gdb, line, pc ?: message);
    require_at(f);
}

static void test_calls(void)
{
    struct fixture *f = begin(TASKS);

    for (unsigned i = 0; i < MOVES; i++) {
        unsigned function = g_test_rand_int_range(0, FUNCTIONS);
        int by = i % 2 ? 1 : -1, to;
        g_autofree char *line = g_strdup_printf("%s-call call_%u",
                                                by > 0 ? "next" : "prev",
                                                function);
        g_autofree char *message = g_strdup_printf(
            "call_%u does not run %s this", function,
            by > 0 ? "after" : "before");

        go(f);
        to = f->at + by;
        while (to >= 0 && to < STEPS && f->steps[to] != START(function)) {
            to += by;
        }
        require(f, line, to < STEPS ? to : -1, message);
    }
    require(f, "next-call nothing", -1, "neither the kernel nor the process");
    require(f, "prev-call", -1, "");
    end(f);
}

/* The last record of another task before here, or -1 */
static int find_switch(const struct fixture *f)
{
    int i = f->at / 2;

    while (i > 0 && f->tasks[i - 1] == f->tasks[i]) {
        i--;
    }
    return i - 1;
}

static void test_switches(void)
{
    struct fixture *f = begin(TASKS);

    for (unsigned i = 0; i < MOVES; i++) {
        int record;

        if (i % 3 == 0) {
            go(f);
        }
        record = find_switch(f);
        require(f, "prev-switch", record < 0 ? -1 : 2 * record,
                "nothing else runs before this");
    }
    end(f);
    /* Of a single task, however often events name it */
    f = begin(1);
    for (unsigned i = 0; i < 5; i++) {
        go(f);
        require(f, "prev-switch", -1, "nothing else runs before this");
    }
    end(f);
}

/* Looking does not move. */
static void test_looks(void)
{
    struct fixture *f = begin(TASKS);

    for (unsigned i = 0; i < 10; i++) {
        g_autofree char *here = NULL, *calls = NULL;

        go(f);
        here = g_strdup_printf("pc        0x%" PRIx64 "\nfunction  call_%u+0x%x"
                               " ", f->steps[f->at],
                               (unsigned)(f->steps[f->at] - START(0)) / 256,
                               (unsigned)f->steps[f->at] % 256);
        monitor(&f->gdb, "where", here);
        require_at(f);
        calls = g_strdup_printf("#0   0x%016" PRIx64 " call_%u+",
                                f->steps[f->at],
                                (unsigned)(f->steps[f->at] - START(0)) / 256);
        monitor(&f->gdb, "why", calls);
        require_at(f);
    }
    end(f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/trace-monitor/calls", test_calls);
    g_test_add_func("/trace-monitor/switches", test_switches);
    g_test_add_func("/trace-monitor/looks", test_looks);
    return g_test_run();
}
