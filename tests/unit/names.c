/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names from the sideband: which process, mapping and symbol an address has at
 * which time, and how certain that is.
 */

#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "backtrail/names.h"
#include "lib/agent/names-private.h"
#include "snapshot-samples.h"

static char *path;

static struct btrail_writer *begin_meta(const char *meta)
{
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==,
                    0);
    g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    return w;
}

/* Each record was made just at its time. */
static struct btrail_writer *begin(void)
{
    return begin_meta("{\"tick_ns\": 0}");
}

static void put(struct btrail_writer *w, uint16_t kind, uint64_t time,
                const void *data, size_t size)
{
    struct btrail_sideband_info info = { kind, 0, size, time };

    g_assert_cmpint(btrail_writer_sideband(w, &info, data), ==, 0);
}

static void add_snapshot(struct btrail_writer *w, uint64_t time, uint32_t flags,
                         struct btrail_process *processes, uint32_t n)
{
    const struct btrail_snapshot snapshot = {
        time, time + 2, flags, n, processes,
    };
    uint32_t i;

    for (i = 0; i < n; i++) {
        struct btrail_process *p = &processes[i];

        p->comm = p->comm ? p->comm : "";
        p->exe = p->command_line = "";
        if (!p->first) {
            p->first = p->last = time + 1;
        }
    }
    sample_snapshot(w, &snapshot);
}

#define LOOK(time, flags, ...)                                              \
    do {                                                                    \
        struct btrail_process list[] = { __VA_ARGS__ };                     \
                                                                            \
        add_snapshot(w, time, flags, list, G_N_ELEMENTS(list));             \
    } while (0)

#define A   { .pid = 10, .pgd = 0x10000, .user_pgd = 0x11000, .mm = 1 << 12, \
              .start_time = 5, .comm = "a" }
#define B   { .pid = 20, .pgd = 0x10000, .mm = 2 << 12, .start_time = 6,    \
              .comm = "b" }
#define C   { .pid = 30, .pgd = 0x30000, .mm = 3 << 12, .start_time = 7,    \
              .comm = "c" }

static struct btrail_names *end(struct btrail_writer *w)
{
    struct btrail_names *names;
    struct btrail_trace *trace;

    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_names_open(&names, trace), ==, 0);
    btrail_trace_close(trace);
    return names;
}

static void check(struct btrail_names *names, uint64_t time, uint64_t cr3,
                  enum btrail_certainty certainty, const char *comm)
{
    const struct btrail_process *p;

    g_test_message("CR3 %" G_GINT64_MODIFIER "x at %" G_GUINT64_FORMAT, cr3,
                   time);
    g_assert_cmpint(btrail_names_process(names, time, cr3, &p), ==,
                    certainty);
    g_assert_cmpstr(p ? p->comm : NULL, ==, comm);
}

/* Page tables that are used by one process after the other */
static void test_process(void)
{
    struct btrail_writer *w = begin();
    struct btrail_names *names;
    uint64_t t;

    LOOK(100, BTRAIL_SNAPSHOT_WHOLE, A, C);
    LOOK(200, BTRAIL_SNAPSHOT_WHOLE, A);
    LOOK(300, BTRAIL_SNAPSHOT_WHOLE, B);
    LOOK(400, BTRAIL_SNAPSHOT_WHOLE, B);
    names = end(w);

    for (t = 101; t <= 201; t++) {
        check(names, t, 0x10000, BTRAIL_SURE, "a");
        check(names, t, 0x6000000000010fffull, BTRAIL_SURE, "a");
        check(names, t, 0x11001, BTRAIL_SURE, "a");
    }
    /* Whose were they in between?  Maybe those of a third one. */
    for (t = 202; t <= 300; t++) {
        check(names, t, 0x10000, BTRAIL_UNKNOWN, NULL);
        check(names, t, 0x11000, BTRAIL_UNKNOWN, NULL);
    }
    for (t = 301; t <= 401; t++) {
        check(names, t, 0x10000, BTRAIL_SURE, "b");
    }
    check(names, 100, 0x10000, BTRAIL_LIKELY, "a");
    check(names, 402, 0x10000, BTRAIL_LIKELY, "b");
    /* It was gone in the second snapshot, so it may have been before, too. */
    check(names, 101, 0x30000, BTRAIL_SURE, "c");
    check(names, 102, 0x30000, BTRAIL_UNKNOWN, NULL);
    check(names, 500, 0x30000, BTRAIL_UNKNOWN, NULL);
    check(names, 99, 0x30000, BTRAIL_LIKELY, "c");
    check(names, 101, 0x20000, BTRAIL_UNKNOWN, NULL);
    check(names, 101, 0, BTRAIL_UNKNOWN, NULL);
    btrail_names_close(names);
}

/* A snapshot without all of them does not say whether others are gone. */
static void test_parts(void)
{
    struct btrail_writer *w = begin();
    struct btrail_names *names;

    LOOK(100, 0, A);
    LOOK(200, 0, C);
    LOOK(300, BTRAIL_SNAPSHOT_WHOLE, A, C);
    LOOK(400, 0, C);
    names = end(w);
    check(names, 250, 0x10000, BTRAIL_SURE, "a");
    check(names, 450, 0x10000, BTRAIL_UNKNOWN, NULL);
    check(names, 450, 0x30000, BTRAIL_LIKELY, "c");
    check(names, 150, 0x30000, BTRAIL_UNKNOWN, NULL);
    btrail_names_close(names);
}

/* The agent says how long it has seen one; no snapshot in between does. */
static void test_seen(void)
{
    struct btrail_process a = A;
    struct btrail_writer *w = begin();
    struct btrail_names *names;

    LOOK(100, BTRAIL_SNAPSHOT_WHOLE, C);
    a.first = 150;
    a.last = 190;
    LOOK(200, BTRAIL_SNAPSHOT_WHOLE, a);
    LOOK(300, BTRAIL_SNAPSHOT_WHOLE, C);
    names = end(w);
    check(names, 149, 0x10000, BTRAIL_UNKNOWN, NULL);
    check(names, 150, 0x10000, BTRAIL_SURE, "a");
    check(names, 190, 0x10000, BTRAIL_SURE, "a");
    check(names, 191, 0x10000, BTRAIL_UNKNOWN, NULL);
    /* Only the process is sure to have come back. */
    check(names, 250, 0x30000, BTRAIL_SURE, "c");
    btrail_names_close(names);
}

/* Some snapshots only say that it is still there. */
static void test_only_seen(void)
{
    struct btrail_mapping m = { 0x1000, 0x3000, 0, 5, 0, "/one", NULL };
    struct btrail_process a = A, seen = A;
    struct btrail_writer *w = begin();
    struct btrail_names *names;
    const struct btrail_process *p;
    const struct btrail_mapping *found;

    seen.flags = BTRAIL_PROCESS_SEEN;
    seen.comm = "";
    a.mappings = &m;
    a.n_mappings = 1;
    LOOK(100, BTRAIL_SNAPSHOT_WHOLE, seen);
    LOOK(200, BTRAIL_SNAPSHOT_WHOLE, a);
    LOOK(300, BTRAIL_SNAPSHOT_WHOLE, seen);
    LOOK(400, BTRAIL_SNAPSHOT_WHOLE, C);
    names = end(w);
    check(names, 101, 0x10000, BTRAIL_SURE, "a");
    check(names, 301, 0x11000, BTRAIL_SURE, "a");
    check(names, 350, 0x10000, BTRAIL_UNKNOWN, NULL);
    btrail_names_process(names, 301, 0x10000, &p);
    g_assert_cmpint(btrail_names_mapping(names, p, 301, 0x2000, &found), ==,
                    BTRAIL_LIKELY);
    g_assert_cmpstr(found->path, ==, "/one");
    btrail_names_close(names);
}

/* Threads of which nothing is left are charged as long as they are kept. */
static void test_charged(void)
{
    struct btrail_thread threads[1000] = { { 0 } };
    struct btrail_process seen = A;
    struct btrail_writer *w = begin();
    struct btrail_names *names;

    for (unsigned i = 0; i < G_N_ELEMENTS(threads); i++) {
        threads[i].tid = 10 + i;
        threads[i].comm = "a";
    }
    seen.flags = BTRAIL_PROCESS_SEEN;
    seen.threads = threads;
    seen.n_threads = G_N_ELEMENTS(threads);
    LOOK(100, BTRAIL_SNAPSHOT_WHOLE, seen);
    LOOK(200, BTRAIL_SNAPSHOT_WHOLE, A);
    LOOK(300, BTRAIL_SNAPSHOT_WHOLE, A, C);
    names = end(w);
    g_assert_cmpuint(btrail_names_cut(names), ==, UINT64_MAX);
    check(names, 301, 0x30000, BTRAIL_SURE, "c");
    btrail_names_close(names);
}

/* A record may be a tick later than its time, and somebody else's then. */
static void check_tick(const char *meta, uint64_t tick)
{
    struct btrail_writer *w = begin_meta(meta);
    struct btrail_names *names;
    struct btrail_process a = A, b = B;

    a.first = 1000;
    a.last = 5000000;
    b.first = 5000001;
    b.last = 8000000;
    LOOK(5000000, BTRAIL_SNAPSHOT_WHOLE, a);
    LOOK(8000000, BTRAIL_SNAPSHOT_WHOLE, b);
    names = end(w);
    check(names, 1000, 0x10000, BTRAIL_SURE, "a");
    check(names, 5000000 - tick, 0x10000, BTRAIL_SURE, "a");
    check(names, 5000001 - tick, 0x10000, tick ? BTRAIL_UNKNOWN : BTRAIL_SURE,
          tick ? NULL : "b");
    check(names, 5000001, 0x10000, BTRAIL_SURE, "b");
    btrail_names_close(names);
}

static void test_tick(void)
{
    check_tick("{\"tick_ns\": 0}", 0);
    check_tick("{\"a\": 1, \"tick_ns\" :500000}", 500000);
    check_tick("{\"tick_ns\": 1", 1000000);
    check_tick("{\"a\": {\"tick_ns\": 1}}", 1000000);
    check_tick("{}", 1000000);
    check_tick("{\"tick_ns\": \"x\"}", 1000000);
}

/* After exec it is the same pid, with other page tables. */
static void test_exec(void)
{
    struct btrail_process after = A;
    struct btrail_writer *w = begin();
    struct btrail_names *names;

    after.mm = 9 << 12;
    after.comm = "execed";
    LOOK(100, BTRAIL_SNAPSHOT_WHOLE, A);
    LOOK(200, BTRAIL_SNAPSHOT_WHOLE, after);
    names = end(w);
    check(names, 101, 0x10000, BTRAIL_SURE, "a");
    check(names, 150, 0x10000, BTRAIL_UNKNOWN, NULL);
    check(names, 201, 0x10000, BTRAIL_SURE, "execed");
    btrail_names_close(names);
}

/* What was seen of one process, from the last to the first */
static void test_before(void)
{
    struct btrail_thread threads[] = { { 10, -1, 5, "" }, { 11, -1, 6, "" } };
    struct btrail_process one = A, two = A, renamed = A;
    struct btrail_writer *w = begin();
    const struct btrail_process *p;
    struct btrail_names *names;

    one.threads = two.threads = renamed.threads = threads;
    one.n_threads = renamed.n_threads = 1;
    two.n_threads = 2;
    renamed.comm = "z";
    LOOK(100, BTRAIL_SNAPSHOT_WHOLE, one);
    LOOK(200, BTRAIL_SNAPSHOT_WHOLE, two);
    LOOK(300, BTRAIL_SNAPSHOT_WHOLE, two);
    LOOK(400, BTRAIL_SNAPSHOT_WHOLE, renamed);
    names = end(w);
    btrail_names_process(names, 250, 0x10000, &p);
    p = btrail_names_last(p);
    g_assert_cmpstr(p->comm, ==, "z");
    p = btrail_names_before(p);
    g_assert_cmpuint(p->n_threads, ==, 2);
    p = btrail_names_before(p);
    g_assert_cmpuint(p->n_threads, ==, 1);
    g_assert_cmpstr(p->comm, ==, "a");
    g_assert_null(btrail_names_before(p));
    g_assert_null(btrail_names_before(NULL));
    btrail_names_close(names);
}

static void test_shared(void)
{
    struct btrail_process child = A;
    struct btrail_process liar = B;
    struct btrail_writer *w = begin();
    struct btrail_names *names;

    child.pid = 11;
    child.start_time = 99;
    child.comm = "child";
    LOOK(100, BTRAIL_SNAPSHOT_WHOLE, child, A);
    LOOK(200, BTRAIL_SNAPSHOT_WHOLE, child, A);
    names = end(w);
    check(names, 150, 0x10000, BTRAIL_LIKELY, "a");
    btrail_names_close(names);

    /* Two at a time is what no guest can have. */
    w = begin();
    LOOK(100, BTRAIL_SNAPSHOT_WHOLE, liar, A);
    LOOK(200, BTRAIL_SNAPSHOT_WHOLE, liar, A);
    names = end(w);
    check(names, 150, 0x10000, BTRAIL_UNKNOWN, NULL);
    btrail_names_close(names);
}

/* Lives that overlap in any way, against a search of all of them */
static void test_overlap(void)
{
    enum { LIVES = 60, TIMES = 200 };

    for (unsigned round = 0; round < 100; round++) {
        struct btrail_process all[LIVES];
        struct btrail_writer *w = begin();
        struct btrail_names *names;
        unsigned n = g_test_rand_int_range(1, LIVES + 1);

        for (unsigned i = 0; i < n; i++) {
            uint64_t first = g_test_rand_int_range(1, TIMES);
            uint64_t last = g_test_rand_int_range(first, TIMES);

            all[i] = (struct btrail_process) {
                .pid = i + 1, .pgd = 0x10000, .start_time = 1000 - i,
                .mm = g_test_rand_int_range(0, 8) ? 1 << 12 : 2 << 12,
                .first = first,
                .last = g_test_rand_int_range(0, 8) ?
                        MIN(first + 9, last) : last,
            };
        }
        add_snapshot(w, TIMES, 0, all, n);
        names = end(w);
        for (uint64_t t = 1; t < TIMES; t++) {
            const struct btrail_process *want = NULL, *got;
            bool shared = false, other = false;
            enum btrail_certainty c = btrail_names_process(names, t, 0x10000,
                                                           &got);

            for (unsigned i = 0; i < n; i++) {
                if (all[i].first <= t && t <= all[i].last) {
                    shared |= want != NULL;
                    other |= want && want->mm != all[i].mm;
                    want = &all[i];
                }
            }
            if (want) {
                g_assert_cmpint(c, ==, other ? BTRAIL_UNKNOWN :
                                shared ? BTRAIL_LIKELY : BTRAIL_SURE);
                g_assert_cmpuint(got ? got->pid : 0, ==,
                                 other ? 0 : want->pid);
            } else {
                g_assert_cmpint(c, !=, BTRAIL_SURE);
            }
        }
        btrail_names_close(names);
    }
}

static void test_kernel(void)
{
    struct btrail_writer *w = begin();
    struct btrail_names *names;
    struct btrail_process idle = {
        .flags = BTRAIL_PROCESS_KERNEL, .pgd = 0x5000, .comm = "swapper"
    };
    struct btrail_process borrows = {
        .flags = BTRAIL_PROCESS_KERNEL, .pid = 3, .pgd = 0x10000,
        .comm = "kworker"
    };

    LOOK(100, BTRAIL_SNAPSHOT_WHOLE, idle, borrows, A);
    LOOK(200, BTRAIL_SNAPSHOT_WHOLE, idle, borrows, A);
    names = end(w);
    check(names, 150, 0x5000, BTRAIL_SURE, "swapper");
    check(names, 150, 0x10000, BTRAIL_SURE, "a");
    btrail_names_close(names);
}

/* Against what a plain search of all that was written says */
static void test_many(void)
{
    enum { LOOKS = 300, ROOTS = 4 };
    unsigned who[LOOKS][ROOTS];
    struct btrail_writer *w = begin();
    struct btrail_names *names;
    unsigned pid = 1;
    unsigned i, k;

    for (i = 0; i < LOOKS; i++) {
        struct btrail_process list[ROOTS] = { 0 };
        char *comms[ROOTS];
        unsigned n = 0;

        for (k = 0; k < ROOTS; k++) {
            who[i][k] = i ? who[i - 1][k] : 0;
            if (g_test_rand_int_range(0, 4) == 0) {
                who[i][k] = g_test_rand_bit() ? pid++ : 0;
            }
            if (who[i][k]) {
                comms[n] = g_strdup_printf("%u", who[i][k]);
                list[n].pid = who[i][k];
                list[n].mm = who[i][k] * 8;
                list[n].pgd = (k + 1) << 12;
                list[n].comm = comms[n];
                n++;
            }
        }
        add_snapshot(w, 100 * (i + 1), BTRAIL_SNAPSHOT_WHOLE, list, n);
        while (n--) {
            g_free(comms[n]);
        }
    }
    names = end(w);
    for (i = 0; i + 1 < LOOKS; i++) {
        for (k = 0; k < ROOTS; k++) {
            g_autofree char *comm = g_strdup_printf("%u", who[i][k]);
            bool same = who[i][k] && who[i][k] == who[i + 1][k];

            check(names, 100 * (i + 1) + 50, (k + 1) << 12,
                  same ? BTRAIL_SURE : BTRAIL_UNKNOWN, same ? comm : NULL);
        }
    }
    btrail_names_close(names);
}

static void check_mapping(struct btrail_names *names, uint64_t time,
                          uint64_t address, enum btrail_certainty certainty,
                          const char *file)
{
    const struct btrail_process *p;
    const struct btrail_mapping *m;

    btrail_names_process(names, time, 0x10000, &p);
    g_assert_nonnull(p);
    g_assert_cmpint(btrail_names_mapping(names, p, time, address, &m), ==,
                    certainty);
    g_assert_cmpstr(m ? m->path : NULL, ==, file);
}

static void test_mapping(void)
{
    struct btrail_mapping first[] = {
        { 0x1000, 0x3000, 0, 5, 0, "/one", NULL },
        { 0x3000, 0x4000, 0x2000, 5, 0, "/one", NULL },
        { 0x8000, 0x9000, 0, 5, 0, "/old", NULL },
        { 0xa000, 0xb000, 0, 3, 0, "", NULL },
        { 0xc000, 0xd000, 0, 5, 0, "/gone", NULL },
    };
    struct btrail_mapping second[] = {
        { 0x1000, 0x4000, 0, 5, 0, "/one", NULL },
        { 0x6000, 0x7000, 0, 5, 0, "/new", NULL },
        { 0x8000, 0x9000, 0, 5, 0, "/other", NULL },
        { 0xa000, 0xb000, 0, 5, 0, "/late", NULL },
        { 0xc000, 0xd000, 0, 3, 0, "", NULL },
    };
    struct btrail_process a = A, b = A, c = A;
    struct btrail_writer *w = begin();
    struct btrail_names *names;

    a.mappings = first;
    a.n_mappings = G_N_ELEMENTS(first);
    b.mappings = c.mappings = second;
    b.n_mappings = c.n_mappings = G_N_ELEMENTS(second);
    LOOK(100, BTRAIL_SNAPSHOT_WHOLE, a);
    LOOK(200, BTRAIL_SNAPSHOT_WHOLE, b);
    LOOK(300, BTRAIL_SNAPSHOT_WHOLE, c);
    names = end(w);
    check_mapping(names, 102, 0x8000, BTRAIL_SURE, "/old");
    check_mapping(names, 150, 0x1000, BTRAIL_SURE, "/one");
    check_mapping(names, 150, 0x3fff, BTRAIL_SURE, "/one");
    check_mapping(names, 150, 0x4000, BTRAIL_UNKNOWN, NULL);
    check_mapping(names, 150, 0xa000, BTRAIL_LIKELY, "/late");
    check_mapping(names, 150, 0xc000, BTRAIL_LIKELY, "/gone");
    check_mapping(names, 150, 0x6000, BTRAIL_LIKELY, "/new");
    check_mapping(names, 150, 0x8000, BTRAIL_UNKNOWN, NULL);
    check_mapping(names, 250, 0x8000, BTRAIL_SURE, "/other");
    check_mapping(names, 250, 0x6fff, BTRAIL_SURE, "/new");
    check_mapping(names, 250, 0x7000, BTRAIL_UNKNOWN, NULL);
    check_mapping(names, 99, 0x8000, BTRAIL_LIKELY, "/old");
    check_mapping(names, 400, 0x8000, BTRAIL_LIKELY, "/other");
    btrail_names_close(names);
}

static void check_symbol(struct btrail_names *names, uint64_t time,
                         uint64_t address, const char *name,
                         const char *module, uint64_t offset)
{
    struct btrail_symbol s;
    int ret = btrail_names_kernel_symbol(names, time, address, &s);

    g_assert_cmpint(ret, ==, name ? 0 : -BTRAIL_ERR_END);
    if (name) {
        g_assert_cmpstr(s.name, ==, name);
        g_assert_cmpstr(s.module, ==, module);
        g_assert_cmphex(address - s.address, ==, offset);
        g_assert_cmphex(address, <, s.end);
    }
}

static void test_symbols(void)
{
    static const char first[] =
        "0000000000001000 A per_cpu\n"
        "ffffffff81000100 T second\n"
        "ffffffff81000100 t its_alias\n"
        "nonsense\n"
        "ffffffff81000000 T _stext\n"
        "ffffffff81000200 t last";
    static const char second[] =
        "ffffffff81000000 T _stext\n"
        "ffffffffc0000000 t load\t[module]\n"
        "ffffffffc0000010 t run\t[module]\n";
    g_autoptr(GString) all = g_string_new(NULL);
    struct btrail_writer *w = begin();
    struct btrail_names *names;
    struct btrail_symbol s;
    size_t i;

    put(w, BTRAIL_SIDEBAND_SYMBOLS, 100, first, sizeof(first) - 1);
    put(w, BTRAIL_SIDEBAND_SYMBOLS, 200, second, sizeof(second) - 1);
    names = end(w);
    check_symbol(names, 0, 0x1000, NULL, NULL, 0);
    check_symbol(names, 0, 0xffffffff80ffffff, NULL, NULL, 0);
    check_symbol(names, 0, 0xffffffff81000000, "_stext", NULL, 0);
    check_symbol(names, 100, 0xffffffff810000ff, "_stext", NULL, 0xff);
    check_symbol(names, 199, 0xffffffff81000101, "second", NULL, 1);
    check_symbol(names, 199, 0xffffffff81000201, "last", NULL, 1);
    check_symbol(names, 199, 0xffffffffc0000000, NULL, NULL, 0);
    check_symbol(names, 200, 0xffffffffc0000001, "load", "module", 1);
    check_symbol(names, 200, 0xffffffffc0000010, "run", "module", 0);
    check_symbol(names, 200, UINT64_MAX, NULL, NULL, 0);

    /* All of them, with where each ends */
    for (i = 0; !btrail_names_symbol(names, i, &s); i++) {
        g_string_append_printf(all, "%s %" G_GINT64_MODIFIER "x %c%s ",
                               s.name, s.end - s.address, s.type,
                               s.module ? s.module : "");
    }
    g_assert_cmpstr(all->str, ==, "_stext 100 T second 100 T "
                    "its_alias 100 t last e00 t "
                    "_stext 1000 T load 10 tmodule run ff0 tmodule ");
    g_assert_cmpint(btrail_names_symbol(names, i, &s), ==, -BTRAIL_ERR_END);
    g_assert_cmpint(btrail_names_symbol(names, 0, NULL), ==,
                    -BTRAIL_ERR_ARGUMENT);
    btrail_names_close(names);
}

/* Until when symbols hold, as a trace says it */
static void test_held(void)
{
    static const char own[] = "ffffffff81000000 T _stext\n";
    static const char one[] = "ffffffffc0000000 t load\t[module]\n"
                              "ffffffffc0000020 e .end\t[module]\n";
    static const char other[] = "ffffffffc0000000 t run\t[other]\n";
    const uint64_t second = 1000000000;
    struct btrail_writer *w = begin();
    struct btrail_names *names;

    /* Pieces need not be in the order of time. */
    put(w, BTRAIL_SIDEBAND_SYMBOLS, 4 * second, other, sizeof(other) - 1);
    put(w, BTRAIL_SIDEBAND_HELD, 2 * second, NULL, 0);
    put(w, BTRAIL_SIDEBAND_SYMBOLS, second, own, sizeof(own) - 1);
    put(w, BTRAIL_SIDEBAND_SYMBOLS, second, one, sizeof(one) - 1);
    put(w, BTRAIL_SIDEBAND_HELD, 5 * second, NULL, 0);
    names = end(w);
    check_symbol(names, second - 1, 0xffffffffc0000001, NULL, NULL, 0);
    check_symbol(names, second, 0xffffffffc0000001, "load", "module", 1);
    check_symbol(names, second, 0xffffffffc0000020, NULL, NULL, 0);
    check_symbol(names, 2 * second, 0xffffffffc0000001, "load", "module", 1);
    check_symbol(names, 2 * second + 1, 0xffffffffc0000001, NULL, NULL, 0);
    check_symbol(names, 4 * second, 0xffffffffc0000001, "run", "other", 1);
    check_symbol(names, 5 * second + 1, 0xffffffffc0000001, NULL, NULL, 0);
    check_symbol(names, 6 * second, 0xffffffff81000000, "_stext", NULL, 0);
    btrail_names_close(names);
}

static void put_of(struct btrail_writer *w, uint16_t kernel, uint16_t kind,
                   uint64_t time, const void *data, size_t size)
{
    struct btrail_sideband_info info = { kind, kernel, size, time };

    g_assert_cmpint(btrail_writer_sideband(w, &info, data), ==, 0);
}

static int find_syscall(const struct btrail_names *names, uint64_t time)
{
    struct btrail_syscall s;

    return btrail_names_syscall(names, 0, time, 0xffffffff81000010, &s) ? -1 :
           (int)s.number;
}

/* A kernel ends, and it takes time until the next one is found. */
static void test_ended(void)
{
    static const char first[] = "ffffffff81000000 T first\n";
    static const char second[] = "ffffffff81000000 T second\n";
    static const char calls[2][25] = {
        "64 3 ffffffff81000010\n", "64 4 ffffffff81000010\n",
    };
    const uint64_t known = GUINT64_TO_LE(350);
    struct btrail_writer *w = begin();
    struct btrail_names *names;

    put_of(w, 1, BTRAIL_SIDEBAND_SYMBOLS, 100, first, sizeof(first) - 1);
    put_of(w, 1, BTRAIL_SIDEBAND_SYSCALLS, 100, calls[0], strlen(calls[0]));
    LOOK(100, BTRAIL_SNAPSHOT_WHOLE, A, C);
    LOOK(340, BTRAIL_SNAPSHOT_WHOLE, A, C);
    put_of(w, 1, BTRAIL_SIDEBAND_ENDED, 300, &known, sizeof(known));
    put_of(w, 2, BTRAIL_SIDEBAND_SYMBOLS, 400, second, sizeof(second) - 1);
    put_of(w, 2, BTRAIL_SIDEBAND_SYSCALLS, 400, calls[1], strlen(calls[1]));
    LOOK(400, BTRAIL_SNAPSHOT_WHOLE, B);
    names = end(w);
    check(names, 300, 0x10000, BTRAIL_SURE, "a");
    check(names, 301, 0x10000, BTRAIL_UNKNOWN, NULL);
    check(names, 341, 0x10000, BTRAIL_UNKNOWN, NULL);
    check(names, 401, 0x10000, BTRAIL_SURE, "b");
    check_symbol(names, 300, 0xffffffff81000001, "first", NULL, 1);
    check_symbol(names, 301, 0xffffffff81000001, NULL, NULL, 0);
    check_symbol(names, 399, 0xffffffff81000001, NULL, NULL, 0);
    check_symbol(names, 400, 0xffffffff81000001, "second", NULL, 1);
    g_assert_cmpint(find_syscall(names, 300), ==, 3);
    g_assert_cmpint(find_syscall(names, 301), ==, -1);
    g_assert_cmpint(find_syscall(names, 399), ==, -1);
    g_assert_cmpint(find_syscall(names, 400), ==, 4);
    btrail_names_close(names);
}

/* A snapshot of the guest's own word, of processes that it had all the while */
static void tell(struct btrail_writer *w, uint64_t first, uint64_t last,
                 struct btrail_process p)
{
    const struct btrail_snapshot snapshot = { last, last, 0, 1, &p };
    void *data;
    size_t size;

    p.first = first;
    p.last = last;
    p.exe = p.command_line = "";
    g_assert_cmpint(btrail_snapshot_encode(&snapshot, &data, &size), ==, 0);
    put(w, BTRAIL_SIDEBAND_TOLD_PROCESSES, last, data, size);
    g_free(data);
}

/* What was found in memory counts; what was told is likely at best. */
static void test_told(void)
{
    static const char found[] = "ffffffff81000000 T found\n";
    static const char told[] = "ffffffff81000000 T told\n";
    struct btrail_mapping mapping = { 0x1000, 0x2000, 0, BTRAIL_MAPPING_EXEC,
                                      0, "/told", NULL };
    struct btrail_process c = C, liar = C, b = B;
    const struct btrail_process *p;
    const struct btrail_mapping *m;
    struct btrail_writer *w = begin();
    struct btrail_names *names;

    c.mappings = &mapping;
    c.n_mappings = 1;
    liar.pgd = 0x10000;
    liar.comm = "liar";
    LOOK(100, BTRAIL_SNAPSHOT_WHOLE, A);
    LOOK(200, BTRAIL_SNAPSHOT_WHOLE, A);
    LOOK(300, BTRAIL_SNAPSHOT_WHOLE, C);
    tell(w, 50, 250, liar);
    tell(w, 50, 400, c);
    tell(w, 260, 300, b);
    put(w, BTRAIL_SIDEBAND_TOLD_SYMBOLS, 100, told, sizeof(told) - 1);
    names = end(w);
    /* Memory knows better, however long the guest has said something else. */
    check(names, 150, 0x10000, BTRAIL_SURE, "a");
    check(names, 50, 0x10000, BTRAIL_LIKELY, "a");
    check(names, 225, 0x10000, BTRAIL_LIKELY, "liar");
    check(names, 280, 0x10000, BTRAIL_LIKELY, "b");
    check(names, 255, 0x10000, BTRAIL_UNKNOWN, NULL);
    /* What memory does not know is never sure. */
    check(names, 150, 0x30000, BTRAIL_LIKELY, "c");
    check(names, 301, 0x30000, BTRAIL_SURE, "c");
    btrail_names_process(names, 150, 0x30000, &p);
    g_assert_cmpuint(p->flags, ==, BTRAIL_PROCESS_TOLD);
    g_assert_cmpint(btrail_names_mapping(names, p, 400, 0x1800, &m), ==,
                    BTRAIL_LIKELY);
    g_assert_cmpstr(m->path, ==, "/told");
    btrail_names_process(names, 150, 0x10000, &p);
    g_assert_cmpuint(p->flags, ==, 0);
    check_symbol(names, 100, 0xffffffff81000001, "told", NULL, 1);
    btrail_names_close(names);

    w = begin();
    put(w, BTRAIL_SIDEBAND_TOLD_SYMBOLS, 100, told, sizeof(told) - 1);
    put(w, BTRAIL_SIDEBAND_SYMBOLS, 200, found, sizeof(found) - 1);
    names = end(w);
    check_symbol(names, 100, 0xffffffff81000001, "found", NULL, 1);
    btrail_names_close(names);
}

/*
 * The guest says what a process has compiled, of which memory has addresses
 * alone.  Where memory has a file it is that.
 */
static void test_compiled(void)
{
    static const uint8_t id[20] = { 1 };
    struct btrail_mapping found[] = {
        { 0x10000, 0x20000, 0, 5, 0, "", NULL },
        { 0x30000, 0x40000, 0, 5 | BTRAIL_MAPPING_FILE, 0, "/one", NULL },
        { 0x50000, 0x60000, 0, 5 | BTRAIL_MAPPING_FILE, 0, "/memfd:jit",
          NULL },
        { 0x70000, 0x80000, 0, 5, 0, "[stack]", NULL },
    };
    struct btrail_mapping said[] = {
        { 0x12000, 0x14000, 0x12000, 5, sizeof(id), "/map", id },
        { 0x15000, 0x58000, 0x15000, 5, sizeof(id), "/map", id },
        { 0x5a000, 0x5b000, 0, 5, sizeof(id), "/lie", id },
        { 0x70000, 0x90000, 0x70000, 5, sizeof(id), "/map", id },
    };
    static const struct {
        uint64_t address;
        const char *path;
    } want[] = {
        { 0x10000, "" }, { 0x11fff, "" }, { 0x12000, "/map" },
        { 0x13fff, "/map" }, { 0x14000, "" }, { 0x15000, "/map" },
        { 0x2ffff, "/map" }, { 0x30000, "/one" }, { 0x3ffff, "/one" },
        { 0x40000, "/map" }, { 0x57fff, "/map" }, { 0x58000, "/memfd:jit" },
        { 0x5a000, "/memfd:jit" }, { 0x70000, "[stack]" },
        { 0x80000, "/map" }, { 0x8ffff, "/map" },
    };
    struct btrail_process a = A, b = A, told = A, other = B;
    const struct btrail_mapping *m;
    const struct btrail_process *p;
    struct btrail_writer *w = begin();
    struct btrail_names *names;

    a.mappings = b.mappings = found;
    a.n_mappings = 1;
    b.n_mappings = G_N_ELEMENTS(found);
    told.mappings = other.mappings = said;
    told.n_mappings = other.n_mappings = G_N_ELEMENTS(said);
    told.mm = 77;
    LOOK(100, BTRAIL_SNAPSHOT_WHOLE, a);
    LOOK(200, BTRAIL_SNAPSHOT_WHOLE, b);
    tell(w, 150, 250, told);
    /* It says the same of another one. */
    tell(w, 150, 250, other);
    names = end(w);
    for (unsigned i = 0; i < G_N_ELEMENTS(want); i++) {
        check_mapping(names, 202, want[i].address, BTRAIL_SURE, want[i].path);
    }
    btrail_names_process(names, 202, 0x10000, &p);
    g_assert_cmpuint(p->flags, ==, 0);
    btrail_names_mapping(names, p, 202, 0x56000, &m);
    g_assert_cmphex(m->offset + (0x56000 - m->start), ==, 0x56000);
    btrail_names_mapping(names, p, 202, 0x59000, &m);
    g_assert_cmphex(m->offset + (0x59000 - m->start), ==, 0x9000);
    /* What it compiled before the next snapshot was there by then. */
    check_mapping(names, 101, 0x12000, BTRAIL_SURE, "/map");
    btrail_names_close(names);
}

static void test_none(void)
{
    static const uint8_t bytes[] = { 1, 2, 3 };
    struct btrail_names *names = end(begin());
    struct btrail_symbol s;
    const struct btrail_mapping *m;
    struct btrail_writer *w;

    check(names, 1, 0x1000, BTRAIL_UNKNOWN, NULL);
    g_assert_cmpint(btrail_names_mapping(names, NULL, 1, 1, &m), ==,
                    BTRAIL_UNKNOWN);
    g_assert_cmpint(btrail_names_kernel_symbol(names, 1, 1, &s), ==,
                    -BTRAIL_ERR_END);
    g_assert_cmpint(btrail_names_kernel_symbol(names, 1, 1, NULL), ==,
                    -BTRAIL_ERR_ARGUMENT);
    btrail_names_close(names);
    btrail_names_close(NULL);

    /* What is no snapshot is left out. */
    w = begin();
    put(w, BTRAIL_SIDEBAND_PROCESSES, 50, bytes, sizeof(bytes));
    put(w, BTRAIL_SIDEBAND_SYMBOLS, 50, "", 0);
    put(w, 99, 50, bytes, sizeof(bytes));
    LOOK(100, BTRAIL_SNAPSHOT_WHOLE, A);
    names = end(w);
    check(names, 101, 0x10000, BTRAIL_SURE, "a");
    btrail_names_close(names);
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    path = g_strdup_printf("%s/backtrail-names-%d.btrail", g_get_tmp_dir(),
                           (int)getpid());
    g_test_add_func("/names/process", test_process);
    g_test_add_func("/names/parts", test_parts);
    g_test_add_func("/names/seen", test_seen);
    g_test_add_func("/names/only-seen", test_only_seen);
    g_test_add_func("/names/charged", test_charged);
    g_test_add_func("/names/tick", test_tick);
    g_test_add_func("/names/exec", test_exec);
    g_test_add_func("/names/before", test_before);
    g_test_add_func("/names/shared", test_shared);
    g_test_add_func("/names/overlap", test_overlap);
    g_test_add_func("/names/kernel", test_kernel);
    g_test_add_func("/names/many", test_many);
    g_test_add_func("/names/mapping", test_mapping);
    g_test_add_func("/names/symbols", test_symbols);
    g_test_add_func("/names/held", test_held);
    g_test_add_func("/names/ended", test_ended);
    g_test_add_func("/names/none", test_none);
    g_test_add_func("/names/told", test_told);
    g_test_add_func("/names/compiled", test_compiled);
    ret = g_test_run();
    g_unlink(path);
    g_free(path);
    return ret;
}
