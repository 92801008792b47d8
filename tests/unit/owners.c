/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The owners of spans: a process is certain only where snapshots and the trace
 * leave no other.
 */

#include <glib.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backtrail/names.h"
#include "backtrail/transport.h"
#include "snapshot-samples.h"

#define PGD     0x10000
#define OTHER   0x20000

static char *path;
static uint64_t index_of[2];    /* where the stream of each vCPU has come to */

static struct btrail_writer *begin(const char *meta)
{
    struct btrail_writer *w;

    memset(index_of, 0, sizeof(index_of));
    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==,
                    0);
    g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    return w;
}

static struct btrail_writer *begin_whole(void)
{
    return begin("{\"tick_ns\": 10, \"privilege\": \"all\"}");
}

/* Three records: at the times @from, a tick later, @to.  Returns the index. */
static uint64_t span(struct btrail_writer *w, unsigned vcpu, uint64_t cr3,
                     uint64_t from, uint64_t to)
{
    uint64_t first = index_of[vcpu];
    struct btrail_record records[3] = { { 1, 2, 0 }, { 2, 3, 0 }, { 3, 1, 0 } };
    struct btrail_event events[3] = {
        { .index = first, .type = BTRAIL_EVENT_TIME,
          .data = { from, from, BTRAIL_NO_ICOUNT } },
        { .index = first + 1, .type = BTRAIL_EVENT_TIME,
          .data = { from + 10, from + 10, BTRAIL_NO_ICOUNT } },
        { .index = first + 2, .type = BTRAIL_EVENT_TIME,
          .data = { to, to, BTRAIL_NO_ICOUNT } },
    };
    struct btrail_slab slab = {
        .first_index = first, .cr3 = cr3, .records = records, .n_records = 3,
        .events = events, .n_events = 3,
    };

    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
    index_of[vcpu] += 3;
    return first;
}

/* The guest says that a process had them from @first to @last. */
static void tell(struct btrail_writer *w, uint32_t pid, uint64_t pgd,
                 uint64_t first, uint64_t last)
{
    struct btrail_process p = {
        .pid = pid, .pgd = pgd, .user_pgd = pgd, .mm = pid << 12,
        .start_time = pid, .first = first, .last = last, .comm = "",
        .exe = "", .command_line = "",
    };
    const struct btrail_snapshot snapshot = {
        last, last, BTRAIL_SNAPSHOT_WHOLE, 1, &p,
    };
    struct btrail_sideband_info info = {
        .kind = BTRAIL_SIDEBAND_TOLD_PROCESSES, .time = last,
    };
    void *data;
    size_t size;

    g_assert_cmpint(btrail_snapshot_encode(&snapshot, &data, &size), ==, 0);
    info.size = size;
    g_assert_cmpint(btrail_writer_sideband(w, &info, data), ==, 0);
    free(data);
}

/* A process was seen with these page tables. */
static void add_snapshot(struct btrail_writer *w, uint64_t time, uint32_t pid,
                         uint64_t pgd, uint64_t user_pgd)
{
    struct btrail_process p = {
        .pid = pid, .pgd = pgd, .user_pgd = user_pgd, .mm = pid << 12,
        .start_time = pid, .first = time + 1, .last = time + 1, .comm = "",
        .exe = "", .command_line = "",
    };
    const struct btrail_snapshot snapshot = {
        time, time + 2, BTRAIL_SNAPSHOT_WHOLE, 1, &p,
    };

    sample_snapshot(w, &snapshot);
}

struct answers {
    struct btrail_trace *trace;
    struct btrail_names *names;
    struct btrail_owners *owners;
};

static void end(struct btrail_writer *w, struct answers *a)
{
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&a->trace, path), ==, 0);
    g_assert_cmpint(btrail_names_open(&a->names, a->trace), ==, 0);
    g_assert_cmpint(btrail_owners_open(&a->owners, a->trace, a->names), ==,
                    0);
}

static void clear(struct answers *a)
{
    btrail_owners_close(a->owners);
    btrail_names_close(a->names);
    btrail_trace_close(a->trace);
    g_unlink(path);
}

/* Whose are the records of a span?  0 for nobody's as far as is known */
static void check_as(const struct answers *a, unsigned vcpu, uint64_t first,
                     uint64_t time, uint64_t cr3, uint32_t pid,
                     enum btrail_certainty certainty)
{
    const struct btrail_process *p;
    unsigned i;

    for (i = 0; i < 3; i++) {
        enum btrail_certainty c = btrail_owners_process(
            a->owners, vcpu, first + i, time, cr3, &p);

        g_assert_cmpint(c, ==, pid ? certainty : BTRAIL_UNKNOWN);
        g_assert_cmpuint(p ? p->pid : 0, ==, pid);
        g_assert_cmpuint(p ? btrail_names_last(p)->pid : 0, ==, pid);
    }
}

static void check(const struct answers *a, unsigned vcpu, uint64_t first,
                  uint64_t time, uint64_t cr3, uint32_t pid)
{
    check_as(a, vcpu, first, time, cr3, pid, BTRAIL_SURE);
}

/* Page tables that are used again, by processes that were seen once each */
static void test_again(void)
{
    struct btrail_writer *w = begin_whole();
    struct answers a;
    uint64_t s[7];

    add_snapshot(w, 10, 1, OTHER, 0);
    s[0] = span(w, 0, PGD, 100, 200);
    add_snapshot(w, 150, 2, PGD, 0);
    s[1] = span(w, 0, OTHER, 300, 400);
    s[2] = span(w, 0, PGD | 0xfff, 500, 600);
    s[3] = span(w, 0, OTHER, 700, 800);
    s[4] = span(w, 0, PGD, 900, 1000);
    add_snapshot(w, 950, 3, PGD, 0);
    s[5] = span(w, 0, OTHER, 1100, 1200);
    add_snapshot(w, 1150, 1, OTHER, 0);
    s[6] = span(w, 0, PGD, 1300, 1400);
    add_snapshot(w, 1500, 1, OTHER, 0);
    end(w, &a);

    check(&a, 0, s[0], 100, PGD, 2);
    check(&a, 0, s[1], 300, OTHER, 1);
    /* Nobody was seen while it lasted. */
    check(&a, 0, s[2], 500, PGD, 0);
    check(&a, 0, s[4], 900, PGD, 3);
    check(&a, 0, s[6], 1300, PGD, 0);
    clear(&a);
}

/* Threads of a process on two vCPUs at once */
static void test_overlap(void)
{
    struct btrail_writer *w = begin_whole();
    struct answers a;
    uint64_t s[4];

    add_snapshot(w, 10, 1, OTHER, 0);
    s[0] = span(w, 0, PGD, 100, 200);
    add_snapshot(w, 120, 2, PGD, 0);
    s[1] = span(w, 1, PGD, 180, 300);
    s[2] = span(w, 0, OTHER, 210, 250);
    s[3] = span(w, 0, PGD, 291, 400);
    add_snapshot(w, 450, 1, OTHER, 0);
    end(w, &a);

    check(&a, 0, s[0], 100, PGD, 2);
    check(&a, 1, s[1], 180, PGD, 2);
    check(&a, 0, s[2], 210, OTHER, 1);
    /* It overlaps for less than a tick with the one on vCPU 1. */
    check(&a, 0, s[3], 291, PGD, 0);
    clear(&a);
}

/* Two that were seen in one span: one of the snapshots is a lie. */
static void test_contradiction(void)
{
    struct btrail_writer *w = begin_whole();
    struct answers a;
    uint64_t s;

    add_snapshot(w, 10, 1, OTHER, 0);
    s = span(w, 0, PGD, 100, 200);
    add_snapshot(w, 120, 2, PGD, 0);
    add_snapshot(w, 160, 3, PGD, 0);
    add_snapshot(w, 250, 1, OTHER, 0);
    end(w, &a);
    check(&a, 0, s, 105, PGD, 0);
    clear(&a);
}

/* Page tables of user mode and of the kernel belong together. */
static void test_user(void)
{
    struct btrail_writer *w = begin_whole();
    struct answers a;
    uint64_t s[3];

    add_snapshot(w, 10, 1, OTHER, 0);
    s[0] = span(w, 0, PGD, 100, 105);
    s[1] = span(w, 0, PGD + 0x1000, 106, 150);
    s[2] = span(w, 0, PGD, 151, 200);
    add_snapshot(w, 180, 2, PGD, PGD + 0x1000);
    add_snapshot(w, 250, 1, OTHER, 0);
    end(w, &a);
    check(&a, 0, s[0], 100, PGD, 2);
    check(&a, 0, s[1], 106, PGD + 0x1000, 2);
    check(&a, 0, s[2], 151, PGD, 2);
    clear(&a);
}

/*
 * The tick came late, so page tables may have been loaded long after the TIME
 * event.  The process that was seen to have them a tick after it can be gone.
 */
static void late_tick(struct btrail_writer *w, unsigned vcpu)
{
    struct btrail_record records[4] = {
        { 1, 2, 0 }, { 2, 3, 0 }, { 3, 1, 0 }, { 1, 2, 0 },
    };
    struct btrail_event events[3] = {
        { .index = 0, .type = BTRAIL_EVENT_TIME,
          .data = { 100, 100, BTRAIL_NO_ICOUNT } },
        { .index = 1, .type = BTRAIL_EVENT_CR3, .data = { PGD } },
        { .index = 3, .type = BTRAIL_EVENT_TIME,
          .data = { 500, 500, BTRAIL_NO_ICOUNT } },
    };
    struct btrail_slab slab = {
        .cr3 = OTHER, .records = records, .n_records = 4, .events = events,
        .n_events = 3,
    };
    const struct btrail_process *p;
    struct answers a;
    uint64_t i;

    add_snapshot(w, 90, 1, OTHER, 0);
    add_snapshot(w, 150, 2, PGD, 0);
    add_snapshot(w, 450, 1, OTHER, 0);
    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
    end(w, &a);
    for (i = 1; i < 4; i++) {
        g_assert_cmpint(btrail_owners_process(a.owners, vcpu, i, 100, PGD,
                                              &p), <, BTRAIL_SURE);
    }
    clear(&a);
}

static void test_late_tick(void)
{
    late_tick(begin_whole(), 0);
}

/* Another vCPU has had this many late ticks that no more are kept. */
static void test_late_ticks(void)
{
    enum { N = 1 << 15 };
    g_autofree struct btrail_record *records = g_new0(struct btrail_record, N);
    g_autofree struct btrail_event *events = g_new0(struct btrail_event, N);
    struct btrail_slab slab = {
        .cr3 = OTHER, .records = records, .n_records = N, .events = events,
        .n_events = N,
    };
    struct btrail_writer *w = begin_whole();
    uint64_t n = 0;
    unsigned i;

    while (n <= 1u << 22) {
        slab.first_index = n;
        for (i = 0; i < N; i++, n++) {
            events[i] = (struct btrail_event) {
                .index = n, .type = BTRAIL_EVENT_TIME,
                .data = { 100 * n + 100, 0, BTRAIL_NO_ICOUNT },
            };
        }
        g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    }
    late_tick(w, 1);
}

/* Whoever else ran in between is not in a trace that is filtered. */
static void test_filtered(void)
{
    static const char *const meta[] = {
        "{\"tick_ns\": 10, \"privilege\": \"user\"}",
        "{\"tick_ns\": 10, \"privilege\": \"all\", \"cr3_filter\": [1]}",
        "{\"tick_ns\": 10}",
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(meta); i++) {
        struct btrail_writer *w = begin(meta[i]);
        struct answers a;
        uint64_t s[2];

        add_snapshot(w, 10, 1, OTHER, 0);
        s[0] = span(w, 0, PGD, 100, 200);
        s[1] = span(w, 0, PGD | 1, 300, 400);
        add_snapshot(w, 350, 2, PGD, 0);
        add_snapshot(w, 450, 1, OTHER, 0);
        end(w, &a);
        check(&a, 0, s[0], 100, PGD, 0);
        check(&a, 0, s[1], 300, PGD, 2);
        clear(&a);
    }
}

/* What happened in a hole nobody knows. */
static void test_hole(void)
{
    struct btrail_writer *w = begin_whole();
    struct answers a;
    uint64_t s[2];

    add_snapshot(w, 10, 1, OTHER, 0);
    s[0] = span(w, 0, PGD, 100, 200);
    index_of[0] += 1000;
    s[1] = span(w, 0, PGD, 300, 400);
    add_snapshot(w, 350, 2, PGD, 0);
    add_snapshot(w, 450, 1, OTHER, 0);
    end(w, &a);
    check(&a, 0, s[0], 100, PGD, 0);
    check(&a, 0, s[1], 300, PGD, 0);
    clear(&a);
}

/*
 * The guest has said of one process when it had page tables, and nothing of the
 * one that had them before.
 */
static void test_told(void)
{
    struct btrail_writer *w = begin_whole();
    struct answers a;
    uint64_t before, around, after;

    before = span(w, 0, PGD, 970, 990);
    span(w, 0, OTHER, 1050, 1080);
    around = span(w, 0, PGD, 1095, 1500);
    span(w, 0, OTHER, 1510, 1600);
    after = span(w, 0, PGD, 1710, 1730);
    span(w, 0, OTHER, 1740, 1800);
    tell(w, 1, PGD, 1000, 1090);
    tell(w, 2, PGD, 1100, 1700);
    end(w, &a);
    /* The next TIME event is after the first process's begin. */
    check(&a, 0, before, 990, PGD, 0);
    /* Where they stayed, one moment in its life says that they are its. */
    check_as(&a, 0, around, 1095, PGD, 2, BTRAIL_LIKELY);
    check_as(&a, 0, around, 1500, PGD, 2, BTRAIL_LIKELY);
    check(&a, 0, after, 1710, PGD, 0);
    clear(&a);
}

static void test_arguments(void)
{
    struct btrail_writer *w = begin_whole();
    const struct btrail_process *p;
    struct btrail_owners *owners;
    struct answers a;

    span(w, 0, PGD, 100, 200);
    end(w, &a);
    g_assert_cmpint(btrail_owners_open(NULL, a.trace, a.names), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_owners_open(&owners, NULL, a.names), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_owners_open(&owners, a.trace, NULL), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_owners_process(NULL, 0, 0, 0, 0, &p), ==,
                    BTRAIL_UNKNOWN);
    g_assert_cmpint(btrail_owners_process(a.owners, 0, 0, 0, 0, NULL), ==,
                    BTRAIL_UNKNOWN);
    check(&a, 4711, 0, 100, PGD, 0);
    g_assert_null(btrail_names_last(NULL));
    btrail_owners_close(NULL);
    clear(&a);
}

int main(int argc, char **argv)
{
    g_autofree char *folder = g_dir_make_tmp("backtrail-XXXXXX", NULL);
    int ret;

    g_test_init(&argc, &argv, NULL);
    path = g_build_filename(folder, "owners.btrail", NULL);
    g_test_add_func("/owners/again", test_again);
    g_test_add_func("/owners/overlap", test_overlap);
    g_test_add_func("/owners/contradiction", test_contradiction);
    g_test_add_func("/owners/user", test_user);
    g_test_add_func("/owners/late-tick", test_late_tick);
    g_test_add_func("/owners/late-ticks", test_late_ticks);
    g_test_add_func("/owners/filtered", test_filtered);
    g_test_add_func("/owners/hole", test_hole);
    g_test_add_func("/owners/told", test_told);
    g_test_add_func("/owners/arguments", test_arguments);
    ret = g_test_run();
    g_free(path);
    g_rmdir(folder);
    return ret;
}
