/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of symbolize/thread-lives.h: whether a process can have had threads
 * that no snapshot has found
 */

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "snapshot-samples.h"
#include "symbolize/runs.h"
#include "symbolize/thread-lives.h"

#define KERNEL  UINT64_C(0xffffffff81000000)
#define CODE    (KERNEL + 0x5000)

#define PGD     0x10000u
#define OTHER   0x20000u
#define NOBODY  0x30000u

/* All is between these times, at which both processes were seen. */
#define BEGIN   1000u
#define END     90000u
#define TICK    10u

#define WHOLE   "{\"tick_ns\": 10, \"privilege\": \"all\"}"

static const struct runs_symbols symbols = {
    .switch_to = KERNEL + 0x100, .lazy = KERNEL + 0x200,
    .switch_mm = KERNEL + 0x300,
    .idle = { { KERNEL + 0x400, KERNEL + 0x500 } },
    .birth = KERNEL + 0x700, .clone = KERNEL + 0x800, .exit = KERNEL + 0x900,
};

/* What a task with some page table does, on a vCPU at a time */
struct act {
    enum { NOTHING, BIRTH, CLONE, EXIT, LOSE } what;
    uint64_t time;
    unsigned vcpu;
    uint64_t cr3;
};

struct scene {
    char *path;
    struct btrail_trace *trace;
    struct btrail_names *names;
    struct btrail_owners *owners;
    struct runs *runs;
    struct thread_lives *lives;
};

static void put_snapshot(struct btrail_writer *w, uint64_t time)
{
    struct btrail_process p[2];
    const struct btrail_snapshot snapshot = {
        time, time + 2, BTRAIL_SNAPSHOT_WHOLE, G_N_ELEMENTS(p), p,
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(p); i++) {
        p[i] = (struct btrail_process) {
            .pid = 1 + i, .pgd = i ? OTHER : PGD, .mm = (1 + i) << 12,
            .start_time = 1 + i, .first = time + 1, .last = time + 1,
            .comm = "", .exe = "", .command_line = "",
        };
        p[i].user_pgd = p[i].pgd;
    }
    sample_snapshot(w, &snapshot);
}

static void put_act(struct btrail_writer *w, const struct act *a,
                    uint64_t *index)
{
    static const uint64_t places[] = {
        [NOTHING] = CODE + 8, [BIRTH] = KERNEL + 0x700,
        [CLONE] = KERNEL + 0x800, [EXIT] = KERNEL + 0x900, [LOSE] = CODE + 8,
    };
    const struct btrail_record records[] = {
        { CODE, symbols.switch_mm }, { CODE, symbols.switch_to },
        { CODE, CODE + 4 }, { CODE, places[a->what] }, { CODE, CODE + 4 },
    };
    struct btrail_event events[2];
    struct btrail_slab slab = {
        .cr3 = a->cr3, .records = records, .events = events,
        .n_records = G_N_ELEMENTS(records),
    };
    uint64_t lost = a->what == LOSE ? 3 : 0;

    slab.first_index = *index += lost;
    if (lost) {
        events[slab.n_events++] = (struct btrail_event) {
            .index = *index, .type = BTRAIL_EVENT_GAP,
            .reason = BTRAIL_GAP_OVERFLOW, .data = { lost },
        };
    }
    events[slab.n_events++] = (struct btrail_event) {
        .index = *index, .type = BTRAIL_EVENT_TIME,
        .data = { a->time, a->time, BTRAIL_NO_ICOUNT },
    };
    g_assert_cmpint(btrail_writer_append(w, a->vcpu, &slab), ==, 0);
    *index += slab.n_records;
}

static void scene_init(struct scene *s, const char *meta,
                       const struct act *acts, unsigned n)
{
    struct act idle = { NOTHING, 0, 0, PGD };
    struct btrail_writer *w;
    uint64_t index[2] = { 0 };
    int fd = g_file_open_tmp("backtrail-XXXXXX", &s->path, NULL);

    g_assert_true(g_close(fd, NULL));
    g_assert_cmpint(btrail_writer_open(&w, s->path, BTRAIL_WRITER_REPLACE),
                    ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    put_snapshot(w, BEGIN);
    for (; idle.vcpu < 2; idle.vcpu++) {
        idle.time = BEGIN + 100;
        put_act(w, &idle, &index[idle.vcpu]);
    }
    for (unsigned i = 0; i < n; i++) {
        put_act(w, &acts[i], &index[acts[i].vcpu]);
    }
    for (idle.vcpu = 0; idle.vcpu < 2; idle.vcpu++) {
        idle.time = END - 100;
        put_act(w, &idle, &index[idle.vcpu]);
    }
    put_snapshot(w, END);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&s->trace, s->path), ==, 0);
    g_assert_cmpint(btrail_names_open(&s->names, s->trace), ==, 0);
    g_assert_cmpint(btrail_owners_open(&s->owners, s->trace, s->names), ==, 0);
    s->runs = runs_new(s->trace, NULL, &symbols, 1);
    g_assert_nonnull(s->runs);
    s->lives = thread_lives_new(s->runs, s->names, s->owners);
}

static void scene_clear(struct scene *s)
{
    thread_lives_free(s->lives);
    runs_free(s->runs);
    btrail_owners_close(s->owners);
    btrail_names_close(s->names);
    btrail_trace_close(s->trace);
    g_unlink(s->path);
    g_free(s->path);
}

/* A process by its page table, which was seen first at a time */
static bool all_seen(const struct scene *s, uint64_t root, uint64_t first)
{
    const struct btrail_process *p;

    g_assert_cmpint(btrail_names_process(s->names, BEGIN + 1, root, &p), !=,
                    BTRAIL_UNKNOWN);
    return thread_lives_all_seen(s->lives, btrail_names_last(p), root, first);
}

#define SCENE(s, meta, acts) scene_init(s, meta, acts, G_N_ELEMENTS(acts))

/* After the acts, whether all threads were seen of the one that was seen first
 * at @first; the other process has done nothing. */
#define CHECK(seen, first, ...)                             \
    do {                                                    \
        const struct act acts_[] = { __VA_ARGS__ };         \
        struct scene s_;                                    \
                                                            \
        SCENE(&s_, WHOLE, acts_);                           \
        g_assert_nonnull(s_.lives);                         \
        g_assert_cmpint(all_seen(&s_, PGD, first), ==, seen);   \
        g_assert_true(all_seen(&s_, OTHER, first));         \
        scene_clear(&s_);                                   \
    } while (0)

static void test_nothing(void)
{
    CHECK(true, BEGIN, { NOTHING, 5000, 0, PGD });
    /* It has tried to make a thread, or a process, which is another one. */
    CHECK(true, BEGIN, { CLONE, 5000, 0, PGD });
    CHECK(true, BEGIN, { CLONE, 5000, 0, PGD }, { CLONE, 6000, 1, PGD });
}

/* One is its own, unless it has made a thread before. */
static void test_births(void)
{
    CHECK(true, BEGIN, { BIRTH, 5000, 0, PGD });
    CHECK(true, BEGIN, { BIRTH, 5000, 0, PGD }, { CLONE, 6000, 0, PGD });
    CHECK(false, BEGIN, { CLONE, 5000, 0, PGD }, { BIRTH, 6000, 0, PGD });
    CHECK(false, BEGIN, { BIRTH, 5000, 0, PGD }, { BIRTH, 6000, 0, PGD });
    CHECK(false, BEGIN, { BIRTH, 5000, 0, PGD }, { CLONE, 6000, 0, PGD },
          { BIRTH, 7000, 1, PGD });
}

/* On two vCPUs, the order is as exact as their clocks. */
static void test_order(void)
{
    CHECK(true, BEGIN, { BIRTH, 5000, 0, PGD }, { NOTHING, 5008, 0, PGD },
          { CLONE, 5000 + TICK + 1, 1, PGD });
    CHECK(false, BEGIN, { BIRTH, 5000, 0, PGD }, { NOTHING, 5008, 0, PGD },
          { CLONE, 5000 + TICK, 1, PGD });
    /* A tick was late. */
    CHECK(false, BEGIN, { BIRTH, 5000, 0, PGD }, { NOTHING, 5300, 0, PGD },
          { CLONE, 5000 + TICK + 1, 1, PGD });
    CHECK(false, BEGIN, { CLONE, 5000, 1, PGD }, { BIRTH, 5100, 0, PGD });
    /* On one it is sure, whatever its clock says. */
    CHECK(true, BEGIN, { BIRTH, 5000, 0, PGD }, { CLONE, 5001, 0, PGD });
}

/* Who has ended before the process was seen was not seen. */
static void test_exits(void)
{
    CHECK(true, 4999, { EXIT, 5000, 0, PGD });
    CHECK(false, 5000, { EXIT, 5000, 0, PGD });
    CHECK(false, 7000, { EXIT, 5000, 0, PGD });
    /* The first one decides. */
    CHECK(false, 5500, { EXIT, 5000, 0, PGD }, { EXIT, 6000, 0, PGD });
    CHECK(true, 4000, { EXIT, 5000, 0, PGD }, { EXIT, 6000, 0, PGD });
    CHECK(false, 5500, { EXIT, 6000, 1, PGD }, { EXIT, 5000, 0, PGD });
}

/* Of page tables that nobody was seen with, threads can be anybody's who had
 * them. */
static void test_strangers(void)
{
    static const struct act acts[] = { { BIRTH, 5000, 0, NOBODY } };
    static const struct act quiet[] = {
        { CLONE, 5000, 0, NOBODY }, { EXIT, 5000, 0, NOBODY },
    };
    const struct btrail_process *p;
    struct scene s;

    SCENE(&s, WHOLE, acts);
    g_assert_true(all_seen(&s, PGD, BEGIN));
    btrail_names_process(s.names, BEGIN + 1, PGD, &p);
    g_assert_false(thread_lives_all_seen(s.lives, btrail_names_last(p), NOBODY,
                                         BEGIN));
    scene_clear(&s);
    SCENE(&s, WHOLE, quiet);
    btrail_names_process(s.names, BEGIN + 1, PGD, &p);
    g_assert_true(thread_lives_all_seen(s.lives, btrail_names_last(p), NOBODY,
                                        BEGIN));
    scene_clear(&s);
}

/* Where records are missing, or vCPUs are not traced, nothing is known. */
static void test_lacking(void)
{
    static const struct act lost[] = { { LOSE, 5000, 1, PGD } };
    static const struct act acts[] = { { NOTHING, 5000, 1, PGD } };
    struct scene s;

    SCENE(&s, WHOLE, lost);
    g_assert_null(s.lives);
    scene_clear(&s);
    SCENE(&s, "{\"tick_ns\": 10, \"privilege\": \"all\", "
          "\"vcpu_filter\": [0, 1]}",
          acts);
    g_assert_null(s.lives);
    scene_clear(&s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/thread-lives/nothing", test_nothing);
    g_test_add_func("/thread-lives/births", test_births);
    g_test_add_func("/thread-lives/order", test_order);
    g_test_add_func("/thread-lives/exits", test_exits);
    g_test_add_func("/thread-lives/strangers", test_strangers);
    g_test_add_func("/thread-lives/lacking", test_lacking);
    return g_test_run();
}
