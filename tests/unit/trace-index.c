/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of replay/trace-index.h: what a trace of random turns says of each
 * instruction, against all of its records
 */

#include <glib/gstdio.h>
#include <string.h>

#include "code-samples.h"
#include "replay/trace-index.h"
#include "scratch.h"
#include "snapshot-samples.h"
#include "trace-samples.h"

#define VCPUS   2u
#define TURNS   200u
#define LONGEST 12u
#define MOST    (TURNS * LONGEST)
#define FIRST   5u              /* count of the first record */
#define FUNCTIONS   4u

/* The third one is in no snapshot; the last one is a thread of the kernel. */
enum { SHELL, LIST, UNSEEN, THREAD, N };

static const struct {
    uint32_t pid, tid;
    uint64_t pgd, user_pgd;
    const char *name;
} tasks[N] = {
    { 11, 11, 0x1000, 0x1000, "sh" }, { 12, 13, 0x2000, 0x3000, "a\nb" },
    { 14, 14, 0x4000, 0x4000, "new" }, { 2, 2, 0, 0, "kthr" },
};

/**
 * struct made - a record
 * @icount: instructions executed after it
 */
struct made {
    uint64_t icount;
    uint64_t index;
    unsigned vcpu;
    unsigned task;
    uint64_t cr3;
};

struct scene {
    struct made made[MOST];
    unsigned n;
    uint64_t end;               /* of all */
    unsigned vcpus;
    uint64_t cr3[VCPUS];
    uint64_t next[VCPUS];
    GByteArray *log;
    char *path;
    struct btrail_trace *trace;
    struct turns *turns;
    struct trace_index *index;
};

static void log_put(struct scene *s, uint64_t n, unsigned bytes)
{
    while (bytes--) {
        g_byte_array_append(s->log, &(guint8) { n >> (8 * bytes) }, 1);
    }
}

/* Is it the task's own page table? */
static bool has_own(unsigned task, uint64_t cr3)
{
    return cr3 == tasks[task].pgd || cr3 == tasks[task].user_pgd;
}

/*
 * A task runs on a vCPU.  Before the kernel names it, some records have its
 * page table already, unless it borrows what is there.
 */
static void take_turn(struct scene *s, struct btrail_writer *w, unsigned was,
                      unsigned task, unsigned vcpu, bool counted)
{
    unsigned n = g_test_rand_int_range(1, LONGEST + 1);
    unsigned early = was == N ? 0 : (unsigned)g_test_rand_int_range(0, n);
    struct btrail_record records[LONGEST] = { { 0 } };
    struct btrail_event events[3];
    struct btrail_slab slab = {
        .first_index = s->next[vcpu], .cr3 = s->cr3[vcpu], .records = records,
        .n_records = n, .events = events,
    };
    uint64_t begin = s->end;

    events[slab.n_events++] = (struct btrail_event) {
        .index = slab.first_index, .type = BTRAIL_EVENT_TIME,
        .data = { 1000000 + 1000 * s->end, 0,
                  counted ? s->end : BTRAIL_NO_ICOUNT },
    };
    if (tasks[task].pgd && !has_own(task, s->cr3[vcpu])) {
        s->cr3[vcpu] = g_test_rand_bit() ? tasks[task].pgd :
                                           tasks[task].user_pgd;
        events[slab.n_events++] = (struct btrail_event) {
            .index = slab.first_index, .type = BTRAIL_EVENT_CR3,
            .data = { s->cr3[vcpu] },
        };
    }
    events[slab.n_events] = (struct btrail_event) {
        .index = slab.first_index + early, .type = BTRAIL_EVENT_TASK,
        .reason = task == THREAD ? BTRAIL_TASK_KERNEL : 0,
        .data = { (uint64_t)tasks[task].pid << 32 | tasks[task].tid },
    };
    memcpy(&events[slab.n_events++].data[1], tasks[task].name,
           strlen(tasks[task].name));
    for (unsigned i = 0; i < n; i++) {
        s->end += s->n ? g_test_rand_int_range(1, 6) : 0;
        records[i].from = sample_function(task) + 4;
        records[i].to = sample_function(task) + 8;
        records[i].flags = !counted ? 0 :
                           s->end << BTRAIL_RECORD_ICOUNT_SHIFT;
        s->made[s->n++] = (struct made) {
            .icount = s->end, .index = s->next[vcpu]++, .vcpu = vcpu,
            .task = i < early ? was : task, .cr3 = s->cr3[vcpu],
        };
    }
    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
    /* Who runs, and for how many instructions */
    log_put(s, 39, 1);
    log_put(s, vcpu, 4);
    log_put(s, 0, 1);
    log_put(s, s->end - (s->n == n ? 0 : begin), 4);
}

static void put_snapshot(struct btrail_writer *w, uint64_t time)
{
    struct btrail_process p[2];
    const struct btrail_snapshot snapshot = {
        time, time + 2, BTRAIL_SNAPSHOT_WHOLE, G_N_ELEMENTS(p), p,
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(p); i++) {
        p[i] = (struct btrail_process) {
            .pid = tasks[i].pid, .pgd = tasks[i].pgd,
            .user_pgd = tasks[i].user_pgd, .mm = 1 + i, .start_time = 1 + i,
            .first = time + 1, .last = time + 1, .comm = tasks[i].name,
            .exe = "", .command_line = "",
        };
    }
    sample_snapshot(w, &snapshot);
}

static void make_turns(struct scene *s)
{
    g_autofree char *folder = scratch_new();
    g_autofree char *path = g_build_filename(folder, "log", NULL);
    const struct log_start start = { 0 };
    g_autoptr(GError) error = NULL;

    log_put(s, 40, 1);
    g_assert_true(g_file_set_contents(path, (const char *)s->log->data,
                                      s->log->len, NULL));
    s->turns = turns_load(path, &start, &error);
    g_assert_no_error(error);
    scratch_remove(g_steal_pointer(&folder));
}

static struct scene *scene_new(unsigned vcpus, bool counted)
{
    static const char meta[] = "{\"tick_ns\": 0, \"privilege\": \"all\"}";
    const struct symbolizer_options options = { NULL };
    struct scene *s = g_new0(struct scene, 1);
    g_autoptr(GError) error = NULL;
    unsigned was[VCPUS] = { N, N };
    struct btrail_writer *w;

    s->vcpus = vcpus;
    s->end = FIRST;
    s->log = g_byte_array_new();
    log_put(s, 0xe0200e, 4);
    log_put(s, 0, 8);
    s->path = sample_path();
    g_assert_cmpint(btrail_writer_open(&w, s->path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    sample_functions(w, tasks[SHELL].pgd, FUNCTIONS);
    put_snapshot(w, 10);
    for (unsigned i = 0; i < TURNS; i++) {
        unsigned vcpu = g_test_rand_int_range(0, vcpus);
        unsigned task = was[vcpu] == N ? SHELL :
                        (unsigned)g_test_rand_int_range(0, N);

        take_turn(s, w, was[vcpu], task, vcpu, counted);
        was[vcpu] = task;
    }
    put_snapshot(w, UINT64_C(10000000000));
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&s->trace, s->path), ==, 0);
    if (vcpus > 1) {
        make_turns(s);
    }
    s->index = trace_index_new(s->trace, s->turns, &options, &error);
    g_assert_no_error(error);
    return s;
}

static void scene_free(struct scene *s)
{
    trace_index_free(s->index);
    if (s->turns) {
        turns_free(s->turns);
    }
    btrail_trace_close(s->trace);
    sample_remove(s->path);
    g_byte_array_unref(s->log);
    g_free(s);
}

/* The last record of a vCPU before an instruction; NULL if there is none */
static const struct made *last_of(const struct scene *s, unsigned vcpu,
                                  uint64_t icount)
{
    const struct made *last = NULL;

    for (unsigned i = 0; i < s->n && s->made[i].icount <= icount; i++) {
        if (s->made[i].vcpu == vcpu) {
            last = &s->made[i];
        }
    }
    return last;
}

static void check_where(const struct where *where, const struct made *m)
{
    const struct symbolizer_where at = where_record(where);

    g_assert_cmpuint(where->vcpu, ==, m->vcpu);
    g_assert_cmpuint(where->at.index, ==, m->index);
    g_assert_cmpuint(where->at.count, ==, m->icount);
    g_assert_cmphex(where->at.cr3, ==, m->cr3);
    g_assert_cmpuint(where->at.task.tid, ==, tasks[m->task].tid);
    g_assert_nonnull(where->process);
    g_assert_cmpint(where->process->pid, ==, tasks[m->task].pid);
    g_assert_cmpuint(at.vcpu, ==, m->vcpu);
    g_assert_cmpuint(at.index, ==, m->index);
    g_assert_cmphex(at.cr3, ==, m->cr3);
    g_assert_cmpuint(at.time, ==, where->at.time.host);
}

/* Each instruction, on each vCPU */
static void test_where(void)
{
    for (unsigned vcpus = 1; vcpus <= VCPUS; vcpus++) {
        struct scene *s = scene_new(vcpus, true);

        for (uint64_t c = 0; c < s->end + 10; c++) {
            for (unsigned v = 0; v < vcpus; v++) {
                const struct made *m = last_of(s, v, c);
                struct where where;

                if (trace_index_where(s->index, v, c, &where)) {
                    g_assert_nonnull(m);
                    check_where(&where, m);
                } else {
                    g_assert_null(m);
                }
            }
        }
        scene_free(s);
    }
}

static void check_process(struct scene *s, unsigned vcpu, uint64_t c)
{
    const struct process *p = trace_index_process(s->index, c);
    const struct made *m = last_of(s, vcpu, c);

    if (!m) {
        g_assert_null(p);
        return;
    }
    g_assert_nonnull(p);
    g_assert_cmpint(p->pid, ==, tasks[m->task].pid);
    if (m->task == THREAD) {
        g_assert_true(p->kernel);
    } else {
        /* Its own page table, also if another one is in force already; whose
         * that is, no snapshot says of one. */
        g_assert_cmpint(p->owner->pid, ==, m->task == UNSEEN ? -1 : p->pid);
        g_assert_cmpint(s->index->left, ==, !has_own(m->task, m->cr3));
    }
}

/* Which vCPU executes an instruction: the one that makes the next record */
static void test_running(void)
{
    struct scene *s = scene_new(VCPUS, true);
    unsigned i = 0;

    for (uint64_t c = 0; c < s->end; c++) {
        const struct made *m;
        struct where where;

        while (s->made[i].icount <= c) {
            i++;
        }
        m = last_of(s, s->made[i].vcpu, c);
        if (trace_index_running(s->index, c, &where)) {
            g_assert_nonnull(m);
            check_where(&where, m);
        } else {
            g_assert_null(m);
        }
        check_process(s, s->made[i].vcpu, c);
    }
    scene_free(s);
}

static void test_process(void)
{
    for (unsigned round = 0; round < 4; round++) {
        struct scene *s = scene_new(1, true);

        for (uint64_t c = 0; c < s->end + 10; c++) {
            check_process(s, 0, c);
        }
        for (unsigned i = 0; i < 500; i++) {
            check_process(s, 0, g_test_rand_int_range(0, s->end));
        }
        for (uint64_t c = s->end; c--; ) {
            check_process(s, 0, c);
        }
        scene_free(s);
    }
}

/* A trace that does not count instructions */
static void test_uncounted(void)
{
    struct scene *s = scene_new(1, false);
    struct where where;

    g_assert_null(s->index->history);
    for (unsigned i = 0; i < 3; i++) {
        g_assert_false(trace_index_where(s->index, 0, i * 20, &where));
        g_assert_false(trace_index_running(s->index, i * 20, &where));
        g_assert_null(trace_index_process(s->index, i * 20));
    }
    scene_free(s);
    trace_index_free(NULL);
}

static void test_error(void)
{
    const struct symbolizer_options options = { .map = "/does/not/exist" };
    struct scene *s = scene_new(1, true);
    g_autoptr(GError) error = NULL;

    g_assert_null(trace_index_new(s->trace, NULL, &options, &error));
    g_assert_nonnull(error);
    scene_free(s);
}

#define CHECK_TEXT(call, wanted) \
    do { \
        g_autofree char *text_ = call; \
        \
        g_assert_cmpstr(text_, ==, wanted); \
    } while (0)

/* Names are quoted: they are the guest's. */
static void test_names(void)
{
    struct scene *s = scene_new(1, true);
    struct btrail_task task = { .known = true, .tid = 3, .pid = 2 };
    const uint64_t f1 = sample_function(1);
    struct where where;

    CHECK_TEXT(where_owner(&(struct btrail_task) { 0 }), NULL);
    strcpy(task.name, "\x1b[0m");
    CHECK_TEXT(where_owner(&task), "\\x1b[0m 2/3");
    g_assert_true(trace_index_where(s->index, 0, FIRST, &where));
    CHECK_TEXT(where_task(&where), "sh 11/11");
    where.at.task.known = false;
    CHECK_TEXT(where_task(&where), "sh");
    CHECK_TEXT(trace_index_name(s->index, &where, f1),
               "f1+0x0 [kernel.kallsyms]");
    CHECK_TEXT(trace_index_name(s->index, &where, f1 + 0x15),
               "f1+0x15 [kernel.kallsyms]");
    CHECK_TEXT(trace_index_name(s->index, &where, 0x400000), NULL);
    for (unsigned c = FIRST; c < s->end; c++) {
        const struct made *m = last_of(s, 0, c);

        if (m->task == LIST) {
            g_assert_true(trace_index_where(s->index, 0, c, &where));
            CHECK_TEXT(where_task(&where), "a\\nb 12/13");
        }
    }
    scene_free(s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/trace-index/where", test_where);
    g_test_add_func("/trace-index/running", test_running);
    g_test_add_func("/trace-index/process", test_process);
    g_test_add_func("/trace-index/uncounted", test_uncounted);
    g_test_add_func("/trace-index/error", test_error);
    g_test_add_func("/trace-index/names", test_names);
    return g_test_run();
}
