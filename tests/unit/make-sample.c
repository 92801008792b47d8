/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: make-sample FILE CHUNKS|CHUNKS+sideband|large|code|threads|exec|
 *                         tree|syscalls|paused|waits|switches|woken|preempted|
 *                         wakes|replay|replay+tsc|marks|kvm|mapped:BUILD-ID|
 *                         boot|boot+late|boot+later|moved-marks
 *                    [PART-SIZE [RING-SIZE]]
 *
 * Writes the sample trace (see trace-samples.h) for tests in other languages;
 * or one with a lot of everything.  With PART-SIZE in several files.
 */

#include <stdio.h>
#include <stdlib.h>

#include "lib/agent/code-piece.h"
#include "mark-samples.h"
#include "snapshot-samples.h"
#include "trace-samples.h"

static void add_event(struct btrail_slab *slab, struct btrail_event *events,
                      uint64_t index, uint16_t type, uint16_t reason,
                      uint64_t data0)
{
    events[slab->n_events++] = (struct btrail_event) {
        .index = index, .type = type, .reason = reason, .data = { data0 },
    };
}

static void add_clock(struct btrail_slab *slab, struct btrail_event *events,
                      uint64_t index, uint64_t host)
{
    add_event(slab, events, index, BTRAIL_EVENT_TIME, 0, host);
    events[slab->n_events - 1].data[2] = BTRAIL_NO_ICOUNT;
}

/* A clock, and the task that runs from there on; @name: up to 8 bytes */
static void add_turn(struct btrail_slab *slab, struct btrail_event *events,
                     uint64_t index, uint64_t host, uint16_t left,
                     uint64_t task, const char *name)
{
    add_clock(slab, events, index, host);
    add_event(slab, events, index, BTRAIL_EVENT_TASK, left, task);
    memcpy(&events[slab->n_events - 1].data[1], name, strlen(name));
}

/*
 * More than one chunk, with few and with many address spaces, the second one
 * with instruction counts; addresses and flags that vary; events of every type,
 * also one in a hole that no GAP of the slab explains.
 */
static void write_large(const char *path,
                        const struct btrail_writer_options *options)
{
    enum { SLABS = 30, RECORDS = 1000, LOST = 13, START = 5000000,
           SPACES = 70 };
    static const char json[] =
        "{\"start\": {\"monotonic\": 5000000, \"realtime\": 7000000}}";
    struct btrail_record records[RECORDS];
    static const uint16_t lefts[] = {
        0, BTRAIL_TASK_LEFT_RUNNABLE, BTRAIL_TASK_LEFT_BLOCKED,
        BTRAIL_TASK_LEFT_DEAD,
        BTRAIL_TASK_LEFT_BLOCKED | BTRAIL_TASK_LEFT_INTERRUPTIBLE,
        BTRAIL_TASK_LEFT_BLOCKED | BTRAIL_TASK_LEFT_UNINTERRUPTIBLE,
    };
    static const uint16_t wakes[] = {
        0, BTRAIL_WAKE_KERNEL, BTRAIL_WAKE_NEW | BTRAIL_WAKE_KERNEL,
        BTRAIL_WAKE_UNKNOWN,
    };
    struct btrail_event events[10 + SPACES];
    struct btrail_slab slab = {
        .records = records, .n_records = RECORDS, .events = events,
    };
    struct btrail_writer *w;
    uint64_t random = 1, count = 100;
    unsigned i, j;

    g_assert_cmpint(btrail_writer_open_with(&w, path, options), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, json, strlen(json)), ==, 0);
    for (i = 0; i < SLABS; i++) {
        uint64_t first = slab.first_index + LOST;
        uint64_t host = START + 1000000 + i * 12345;

        for (j = 0; j < RECORDS; j++) {
            uint64_t place = j % 37;

            random = random * 6364136223846793005ull + 1442695040888963407ull;
            if (random >> 60 == 0) {
                place = random >> 40 & 0xffff;
            }
            records[j].from = 0xffffffff81000000ull + place * 24;
            records[j].to = random >> 57 == 5 ? random : place * 8;
            records[j].flags = random >> 56 == 9 ? random >> 20 :
                               place < 5 ? BTRAIL_RECORD_PREDICTED : 0;
            if (i > SLABS / 2) {
                count += random >> 52 == 7 ? random : place % 7;
                records[j].flags &= BTRAIL_RECORD_PREDICTED;
                records[j].flags |= count << BTRAIL_RECORD_ICOUNT_SHIFT;
            }
        }
        slab.n_events = 0;
        slab.cr3 = 0x1000 * i;
        if (i % 8 == 3) {
            add_event(&slab, events, slab.first_index, BTRAIL_EVENT_PAUSE,
                      BTRAIL_PAUSE_VM_STOP, host);
        } else {
            add_event(&slab, events, first, BTRAIL_EVENT_GAP,
                      BTRAIL_GAP_OVERFLOW, LOST);
        }
        slab.first_index = first;
        events[slab.n_events++] = (struct btrail_event) {
            first, BTRAIL_EVENT_TIME, 0, 0,
            { host, random, i % 2 ? i * 1000 : BTRAIL_NO_ICOUNT },
        };
        if (i % 8 == 3) {
            add_event(&slab, events, first, BTRAIL_EVENT_RESUME,
                      BTRAIL_PAUSE_VM_STOP, host + 1);
        }
        add_event(&slab, events, first + 500, BTRAIL_EVENT_CR3, 0,
                  0x1000 * (i + 1));
        if (i % 3 == 1) {
            add_event(&slab, events, first + 520, BTRAIL_EVENT_WAKE, wakes[i % 4],
                      wakes[i % 4] & BTRAIL_WAKE_UNKNOWN ? 0 :
                      UINT64_C(9) << 32 | i);
        }
        if (i > 4) {
            /* One is unknown, and the chunk ends after it. */
            events[slab.n_events++] = (struct btrail_event) {
                first + 550, BTRAIL_EVENT_TASK,
                i == SLABS / 2 ? BTRAIL_TASK_UNKNOWN :
                (i & 1) | lefts[i % G_N_ELEMENTS(lefts)], 0,
                { UINT64_C(7) << 32 | i, 0x2022c3a90a785b + i, ~0ull >> i },
            };
        }
        if (i == SLABS / 2) {
            memset(events[slab.n_events - 1].data, 0, 3 * sizeof(uint64_t));
        }
        if (i > 6 && i % 4 == 2) {
            /* A kernel, a nested guest, or nobody knows; tasks end there. */
            static const struct btrail_event kernels[] = {
                { .data = { 1 } },
                { .reason = BTRAIL_KERNEL_NESTED, .data = { 0, 0x7654000 } },
                { .data = { 0 } },
                { .reason = BTRAIL_KERNEL_NESTED, .data = { 2 } },
                { .reason = BTRAIL_KERNEL_UNKNOWN },
            };
            struct btrail_event e = kernels[i / 4 % G_N_ELEMENTS(kernels)];

            e.type = BTRAIL_EVENT_KERNEL;
            e.index = first + 570;
            events[slab.n_events++] = e;
        }
        if (i % 8 == 5) {
            add_event(&slab, events, first + 600, BTRAIL_EVENT_GAP,
                      BTRAIL_GAP_RESET, 0);
        }
        for (j = 0; i == 20 && j < SPACES; j++) {
            add_event(&slab, events, first + 700, BTRAIL_EVENT_CR3, 0,
                      0x100000 + j * 0x1000);
        }
        if (i == SLABS - 1) {
            add_event(&slab, events, first + RECORDS, BTRAIL_EVENT_GAP,
                      BTRAIL_GAP_PRODUCER_LOST, BTRAIL_LOST_UNKNOWN);
            add_event(&slab, events, first + RECORDS, BTRAIL_EVENT_END,
                      BTRAIL_END_PRODUCER_LOST, host + 2);
        }
        g_assert_cmpint(btrail_writer_append(w, 2, &slab), ==, 0);
        slab.first_index += RECORDS;
        if (i == SLABS / 2) {
            g_assert_cmpint(btrail_writer_flush(w), ==, 0);
        }
    }
    g_assert_cmpint(btrail_writer_meta(w, "{}", 2), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

/*
 * Code: entry i of 100 is for vCPU i % 3, from record i * 10 on, in address
 * space i % 4, and has content i + 1, which is full of bytes i % 60.  Of these
 * entries the 50th says that some are lost.  Four pieces.
 */
static void write_code(const char *path,
                       const struct btrail_writer_options *options)
{
    struct btrail_code_builder *b = btrail_code_builder_new();
    struct btrail_writer *w;
    unsigned i;

    g_assert_cmpint(btrail_writer_open_with(&w, path, options), ==, 0);
    for (i = 0; i < 100; i++) {
        const struct btrail_code_entry entry = {
            .vcpu = i % 3, .order = i, .index = i * 10,
            .cr3 = 0x1000 * (i % 4), .physical = 0x2000 * i,
            .linear = i == 50 ? 477 : 0xffffffff81000000 + i % 7 * 4096,
            .number = i == 50 ? 0 : i + 1,
        };
        uint8_t page[BTRAIL_CODE_PAGE_SIZE];

        memset(page, i % 60, sizeof(page));
        btrail_code_builder_content(b, i + 1, page);
        btrail_code_builder_entry(b, &entry);
        if (i % 25 == 24) {
            struct btrail_sideband_info info = { BTRAIL_SIDEBAND_CODE };
            size_t size;
            g_autofree uint8_t *data = btrail_code_builder_take(b, &size);

            info.size = size;
            g_assert_cmpint(btrail_writer_sideband(w, &info, data), ==, 0);
        }
    }
    btrail_code_builder_free(b);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

/*
 * Adds records that a thread of process 11 makes at 5 + @i milliseconds, from
 * @next on, which becomes the index after them.
 */
static void append_named(struct btrail_writer *w, unsigned i, unsigned vcpu,
                         unsigned tid, const char *name, uint64_t *next,
                         const struct btrail_record *records, size_t n)
{
    struct btrail_event events[] = {
        { *next, BTRAIL_EVENT_TIME, 0, 0,
          { 5000000 + i * 1000000, 0, BTRAIL_NO_ICOUNT } },
        { *next, BTRAIL_EVENT_TASK, 0, 0, { UINT64_C(11) << 32 | tid } },
    };
    const struct btrail_slab slab = {
        .first_index = *next, .cr3 = 0x5000, .records = records,
        .n_records = n, .events = events, .n_events = G_N_ELEMENTS(events),
    };

    memcpy(&events[1].data[1], name, 3);
    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
    *next += n;
}

/* The same; 11, 12 and 13 are "one", "two" and "six". */
static void append_step(struct btrail_writer *w, unsigned i, unsigned vcpu,
                        unsigned tid, uint64_t *next,
                        const struct btrail_record *records, size_t n)
{
    static const char *const names[] = { "one", "two", "six" };

    append_named(w, i, vcpu, tid, names[tid - 11], next, records, n);
}

/*
 * Two threads of process 11, "one" and "two".  On vCPU 0 thread 11 calls b from
 * a, then thread 12 calls c from a; thread 11 returns from b.  On vCPU 1 thread
 * 12 returns from c.  a, b and c begin at 0x1000, 0x2000 and 0x3000, with CR3
 * 0x5000.  Record i of all of them is made at 5 + i milliseconds.
 */
static void write_threads(const char *path,
                          const struct btrail_writer_options *options)
{
    static const struct {
        unsigned vcpu;
        unsigned tid;
        struct btrail_record record;
    } steps[] = {
        { 0, 11, { 0x1020, 0x1010, 0 } }, { 0, 11, { 0x1020, 0x2000, 0 } },
        { 0, 11, { 0x2020, 0x2010, 0 } }, { 0, 12, { 0x1020, 0x1010, 0 } },
        { 0, 12, { 0x1020, 0x3000, 0 } }, { 0, 12, { 0x3020, 0x3010, 0 } },
        { 0, 11, { 0x2020, 0x2010, 0 } }, { 0, 11, { 0x2024, 0x1025, 0 } },
        { 0, 11, { 0x1030, 0x1020, 0 } }, { 1, 12, { 0x3020, 0x3010, 0 } },
        { 1, 12, { 0x3024, 0x1025, 0 } }, { 1, 12, { 0x1030, 0x1020, 0 } },
        { 0, 11, { 0x1030, 0x1020, 0 } }, { 1, 12, { 0x1030, 0x1020, 0 } },
    };
    uint64_t index[2] = { 0, 0 };
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open_with(&w, path, options), ==, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(steps); i++) {
        append_step(w, i, steps[i].vcpu, steps[i].tid, &index[steps[i].vcpu],
                    &steps[i].record, 1);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

/* Thread 12 of process 11 runs, and thread 11, which then has another name. */
static void write_exec(const char *path,
                       const struct btrail_writer_options *options)
{
    static const struct {
        unsigned tid;
        const char *name;
    } steps[] = {
        { 12, "two" }, { 11, "one" }, { 11, "one" }, { 11, "new" },
        { 11, "new" }, { 12, "two" },
    };
    const struct btrail_record jump = { 0x1020, 0x1010, 0 };
    struct btrail_writer *w;
    uint64_t index = 0;

    g_assert_cmpint(btrail_writer_open_with(&w, path, options), ==, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(steps); i++) {
        append_named(w, i, 0, steps[i].tid, steps[i].name, &index, &jump, 1);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

/*
 * Two threads in turn, half a million times, which do nothing but jump over
 * 0x123456: whoever searches for that address along one of them reads for long.
 */
static void write_turns(const char *path,
                        const struct btrail_writer_options *options)
{
    enum { SLABS = 8, TURNS = 60000, JUMPS = 32, N = TURNS * JUMPS };
    g_autofree struct btrail_record *records = g_new(struct btrail_record, N);
    g_autofree struct btrail_event *events = g_new0(struct btrail_event,
                                                    TURNS + 1);
    struct btrail_slab slab = {
        .cr3 = 0x5000, .records = records, .n_records = N, .events = events,
        .n_events = TURNS + 1,
    };
    struct btrail_writer *w;

    for (unsigned i = 0; i < N; i++) {
        records[i] = (struct btrail_record) { 0x123500, 0x123400, 0 };
    }
    g_assert_cmpint(btrail_writer_open_with(&w, path, options), ==, 0);
    for (unsigned i = 0; i < SLABS; i++) {
        events[0] = (struct btrail_event) {
            slab.first_index, BTRAIL_EVENT_TIME, 0, 0,
            { 5000000 + i, 0, BTRAIL_NO_ICOUNT },
        };
        for (uint64_t k = 0; k < TURNS; k++) {
            events[k + 1] = (struct btrail_event) {
                slab.first_index + k * JUMPS, BTRAIL_EVENT_TASK, 0, 0,
                { UINT64_C(11) << 32 | (11 + k % 2), 0x656e6f },
            };
        }
        g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
        slab.first_index += N;
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

#define MARKS       UINT64_C(0x400000)

/* Where the marks "request", "answer" and "tick" are, on a page */
static const struct {
    const char *name;
    uint64_t at;
    bool valued;
} marks[] = {
    { "request", 0x100, true }, { "answer", 0x200, true },
    { "tick", 0x300, false },
};

static void write_marks_code(struct btrail_writer *w)
{
    struct btrail_code_builder *b = btrail_code_builder_new();
    struct btrail_sideband_info info = { .kind = BTRAIL_SIDEBAND_CODE };
    uint8_t page[BTRAIL_CODE_PAGE_SIZE] = { 0 };
    g_autofree uint8_t *data = NULL;
    size_t size;

    for (unsigned i = 0; i < G_N_ELEMENTS(marks); i++) {
        sample_mark(page + marks[i].at, marks[i].name, marks[i].valued);
    }
    btrail_code_builder_content(b, 1, page);
    for (unsigned vcpu = 0; vcpu < 2; vcpu++) {
        const struct btrail_code_entry entry = {
            .vcpu = vcpu, .cr3 = 0x5000, .linear = MARKS, .number = 1,
        };

        btrail_code_builder_entry(b, &entry);
    }
    data = btrail_code_builder_take(b, &size);
    btrail_code_builder_free(b);
    info.size = size;
    g_assert_cmpint(btrail_writer_sideband(w, &info, data), ==, 0);
}

/* The records of a mark; of a value, one for each bit.  Returns their number. */
static unsigned make_mark(unsigned mark, unsigned value,
                          struct btrail_record *records)
{
    uint64_t from = MARKS + marks[mark].at;
    uint64_t to = from + 13 + strlen(marks[mark].name);
    unsigned n = 0;

    records[n++] = (struct btrail_record) { from, to, 0 };
    for (; marks[mark].valued && value > 1; value >>= 1) {
        records[n++] = (struct btrail_record) { to + (value & 1 ? 5 : 3), to };
    }
    if (marks[mark].valued) {
        records[n++] = (struct btrail_record) { to + 7, to + 11 };
    }
    return n;
}

/*
 * Threads 11, 12 and 13 of process 11, "one", "two" and "six", leave marks, with
 * all else as in write_threads().  Mark i is left at 5 + i milliseconds.
 * Requests are within others, handed from vCPU to vCPU and to other threads, or
 * not answered.
 */
static void write_marks(const char *path,
                        const struct btrail_writer_options *options)
{
    static const struct {
        unsigned vcpu;
        unsigned tid;
        unsigned mark;
        unsigned value;
    } steps[] = {
        { 0, 11, 0, 3 }, { 0, 12, 0, 5 }, { 1, 13, 0, 9 }, { 0, 11, 0, 4 },
        { 0, 11, 1, 4 }, { 1, 12, 1, 5 }, { 0, 11, 1, 3 }, { 0, 13, 1, 8 },
        { 0, 11, 0, 6 }, { 0, 12, 2, 0 }, { 1, 12, 1, 9 },
    };
    uint64_t index[2] = { 0, 0 };
    struct btrail_record records[40];
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open_with(&w, path, options), ==, 0);
    write_marks_code(w);
    for (unsigned i = 0; i < G_N_ELEMENTS(steps); i++) {
        unsigned n = make_mark(steps[i].mark, steps[i].value, records);

        append_step(w, i, steps[i].vcpu, steps[i].tid, &index[steps[i].vcpu],
                    records, n);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

/*
 * Thread 11 leaves marks "tick" on two vCPUs: the last one on vCPU 1, by the
 * time that is estimated; its last clock before is that of an earlier time than
 * the one before the last mark on vCPU 0.
 */
static void write_moved_marks(const char *path,
                              const struct btrail_writer_options *options)
{
    static const struct {
        unsigned ms;
        unsigned vcpu;
        unsigned ticks;
        unsigned value;         /* of a request after them; 0: none */
    } steps[] = {
        { 0, 0, 1, 0 }, { 1, 1, 4, 0 }, { 2, 0, 1, 3 }, { 3, 0, 0, 1 },
        { 3, 1, 0, 1 },
    };
    uint64_t index[2] = { 0, 0 };
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open_with(&w, path, options), ==, 0);
    write_marks_code(w);
    for (unsigned i = 0; i < G_N_ELEMENTS(steps); i++) {
        struct btrail_record records[40];
        unsigned n = 0;

        for (unsigned k = 0; k < steps[i].ticks; k++) {
            n += make_mark(2, 0, records + n);
        }
        if (steps[i].value) {
            n += make_mark(0, steps[i].value, records + n);
        }
        append_step(w, steps[i].ms, steps[i].vcpu, 11, &index[steps[i].vcpu],
                    records, n);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

/* Calls a function, which calls both down to @depth, and returns. */
static void call_both(GArray *records, uint64_t from, uint64_t to,
                      unsigned depth)
{
    struct btrail_record r = { from, to, 0 };

    g_array_append_val(records, r);
    for (unsigned i = 0; depth && i < 2; i++) {
        call_both(records, to + 0x80 + 0x10 * i, 0x2000 + 0x1000 * i,
                  depth - 1);
    }
    r = (struct btrail_record) { to + 0xf0, from + 5, 0 };
    g_array_append_val(records, r);
}

/*
 * Thread 11 is in a; then thread 12 makes a tree of calls of b and c from a, of
 * more functions than readers keep, and is in a for the last 100,000 of its
 * records; then thread 11 is in a again.  All is as in write_threads().
 */
static void write_tree(const char *path,
                       const struct btrail_writer_options *options)
{
    static const uint32_t tids[] = { 11, 12, 11 };
    const struct btrail_record jump = { 0x1020, 0x1010, 0 };
    g_autoptr(GArray) records = g_array_new(FALSE, FALSE, sizeof(jump));
    struct btrail_writer *w;
    uint64_t index = 0;

    g_assert_cmpint(btrail_writer_open_with(&w, path, options), ==, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(tids); i++) {
        struct btrail_event events[] = {
            { index, BTRAIL_EVENT_TIME, 0, 0,
              { 5000000 + i * 1000000, 0, BTRAIL_NO_ICOUNT } },
            { index, BTRAIL_EVENT_TASK, 0, 0,
              { UINT64_C(11) << 32 | tids[i] } },
        };
        struct btrail_slab slab = {
            .first_index = index, .cr3 = 0x5000, .events = events,
            .n_events = G_N_ELEMENTS(events),
        };

        g_array_set_size(records, 0);
        g_array_append_val(records, jump);
        if (tids[i] == 12) {
            call_both(records, 0x1080, 0x2000, 19);
            for (unsigned k = 0; k < 100000; k++) {
                g_array_append_val(records, jump);
            }
        }
        slab.records = (const struct btrail_record *)records->data;
        slab.n_records = records->len;
        memcpy(&events[1].data[1], tids[i] == 11 ? "one" : "two", 3);
        g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
        index += records->len;
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

/* Functions of a kernel */
#define ENTRY   UINT64_C(0xffffffff81000000)
#define CALL    (ENTRY + 0x100)
#define READ    (ENTRY + 0x200)
#define WRITE   (ENTRY + 0x300)
#define WAIT    (ENTRY + 0x400)

/*
 * Thread 11 waits in a read while thread 12 writes on the same vCPU, continues
 * it on another, and writes at the end.  Thread 12 reads, and some of its
 * records are lost.  There is a record each millisecond.  @paused: before each
 * third one its vCPU waits for room for 20 ms, and some are stopped, too
 */
static void write_syscalls(const char *path,
                           const struct btrail_writer_options *options,
                           bool paused)
{
    static const char json[] = "{\"tick_ns\": 1000000, "
                               "\"start\": {\"monotonic\": 5000000}, "
                               "\"overflow\": \"pause\", \"vcpus\": 2, "
                               "\"privilege\": \"all\"}";
    static const struct {
        unsigned vcpu;
        unsigned tid;
        uint64_t from;
        uint64_t to;
    } steps[] = {
        { 0, 11, 0x1010, ENTRY }, { 0, 11, ENTRY + 0x10, CALL },
        { 0, 11, CALL + 0x10, READ }, { 0, 11, READ + 0x10, WAIT },
        { 0, 12, 0x1010, ENTRY }, { 0, 12, ENTRY + 0x10, CALL },
        { 0, 12, CALL + 0x10, WRITE }, { 0, 12, WRITE + 0x20, CALL + 0x15 },
        { 0, 12, CALL + 0x30, ENTRY + 0x15 }, { 0, 12, ENTRY + 0x40, 0x1012 },
        { 1, 11, WAIT + 0x20, READ + 0x15 },
        { 1, 11, READ + 0x30, CALL + 0x15 },
        { 1, 11, CALL + 0x30, ENTRY + 0x15 }, { 1, 11, ENTRY + 0x40, 0x1012 },
        { 1, 11, 0x1010, ENTRY }, { 1, 11, ENTRY + 0x10, CALL },
        { 1, 11, CALL + 0x10, WRITE }, { 0, 12, 0x1010, ENTRY },
        { 0, 12, ENTRY + 0x10, CALL }, { 0, 12, CALL + 0x10, READ },
        { 0, 12, READ + 0x10, READ + 8 },
        /* One is lost before this. */
        { 0, 12, ENTRY + 0x40, 0x1012 }, { 0, 12, 0x1010, 0x1000 },
        { 1, 11, WRITE + 0x10, WRITE + 8 }, { 1, 11, WRITE + 0x10, WRITE + 8 },
    };
    enum { LOST = 21, MS = 1000000 };
    uint64_t index[2] = { 0, 0 }, host = 5 * MS;
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open_with(&w, path, options), ==, 0);
    if (paused) {
        g_assert_cmpint(btrail_writer_meta(w, json, strlen(json)), ==, 0);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(steps); i++) {
        uint64_t *next = &index[steps[i].vcpu];
        struct btrail_record record = { steps[i].from, steps[i].to, 0 };
        struct btrail_event events[7];
        struct btrail_slab slab = {
            .first_index = *next, .cr3 = 0x5000, .records = &record,
            .n_records = 1, .events = events,
        };

        if (i == LOST) {
            slab.first_index = ++*next;
            add_event(&slab, events, *next, BTRAIL_EVENT_GAP,
                      BTRAIL_GAP_OVERFLOW, 1);
        }
        if (paused && i % 3 == 2) {
            add_event(&slab, events, *next, BTRAIL_EVENT_PAUSE,
                      BTRAIL_PAUSE_OVERFLOW, host - MS / 2);
            add_event(&slab, events, *next, BTRAIL_EVENT_PAUSE,
                      i % 2 ? BTRAIL_PAUSE_VM_STOP : BTRAIL_PAUSE_OVERFLOW + 8,
                      host);
            host += 20 * MS;
            add_event(&slab, events, *next, BTRAIL_EVENT_RESUME,
                      BTRAIL_PAUSE_OVERFLOW, host - 2 * MS);
            add_event(&slab, events, *next, BTRAIL_EVENT_RESUME,
                      i % 2 ? BTRAIL_PAUSE_VM_STOP : BTRAIL_PAUSE_OVERFLOW + 8,
                      host - MS / 2);
        }
        add_event(&slab, events, *next, BTRAIL_EVENT_TIME, 0, host);
        host += MS;
        events[slab.n_events - 1].data[2] = BTRAIL_NO_ICOUNT;
        add_event(&slab, events, *next, BTRAIL_EVENT_TASK, 0,
                  UINT64_C(11) << 32 | steps[i].tid);
        memcpy(&events[slab.n_events - 1].data[1],
               steps[i].tid == 11 ? "one" : "two", 3);
        g_assert_cmpint(btrail_writer_append(w, steps[i].vcpu, &slab), ==, 0);
        ++*next;
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

/*
 * Three threads by turns on two vCPUs, which wait now and then; sometimes
 * records are lost, or the guest is paused.  @own: each vCPU has threads of its
 * own, and nothing is lost
 */
static void write_waits(const char *path,
                        const struct btrail_writer_options *options, bool own)
{
    enum { TURNS = 300, MOST = 64, MS = 1000000, PAUSED = 25 * MS };
    static const char json[] = "{\"tick_ns\": 1000000, "
                               "\"start\": {\"monotonic\": 5000000}, "
                               "\"overflow\": \"pause\", \"vcpus\": 2, "
                               "\"privilege\": \"all\"}";
    static const char *const names[] = { "one", "two", "six" };
    struct btrail_record records[MOST];
    GRand *random = g_rand_new_with_seed(1);
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open_with(&w, path, options), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, json, strlen(json)), ==, 0);
    for (unsigned i = 0; i < MOST; i++) {
        records[i] = (struct btrail_record) { 0x1010, 0x1000, 0 };
    }
    for (unsigned vcpu = 0; vcpu < 2; vcpu++) {
        uint64_t index = 0, host = 5000000 + vcpu * 1234;

        for (unsigned i = 0; i <= TURNS; i++) {
            unsigned lost = i % 50 == 49 && !own ? 5 : 0;
            unsigned tid = g_rand_int_range(random, 0, 3);
            struct btrail_event events[7];
            struct btrail_slab slab = {
                .first_index = index + lost, .cr3 = 0x5000, .events = events,
                .records = records,
                .n_records = i == TURNS ? 0 :
                             g_rand_int_range(random, i > 0 ? -5 : 1, MOST),
            };

            if ((int)slab.n_records < 0) {
                slab.n_records = 0;
            }
            if (lost) {
                add_event(&slab, events, index + lost, BTRAIL_EVENT_GAP,
                          BTRAIL_GAP_OVERFLOW, lost);
            }
            index += lost;
            if (i % 40 == 39) {
                add_event(&slab, events, index, BTRAIL_EVENT_PAUSE,
                          BTRAIL_PAUSE_VM_STOP, host);
                host += PAUSED;
                add_event(&slab, events, index, BTRAIL_EVENT_RESUME,
                          BTRAIL_PAUSE_VM_STOP, host);
                host += 100;
            }
            add_event(&slab, events, index,
                      i == TURNS ? BTRAIL_EVENT_END : BTRAIL_EVENT_TIME,
                      i == TURNS ? BTRAIL_END_STOPPED : 0, host);
            events[slab.n_events - 1].data[2] = BTRAIL_NO_ICOUNT;
            if (slab.n_records) {
                add_event(&slab, events, index, BTRAIL_EVENT_TASK, 0,
                          UINT64_C(11) << 32 |
                          (11 + tid + (own ? 3 * vcpu : 0)));
                memcpy(&events[slab.n_events - 1].data[1], names[tid], 3);
            }
            if (i % 40 == 19) {
                add_event(&slab, events, index + slab.n_records / 2,
                          BTRAIL_EVENT_PAUSE, BTRAIL_PAUSE_OVERFLOW,
                          host + 200);
                host += PAUSED;
                add_event(&slab, events, index + slab.n_records / 2,
                          BTRAIL_EVENT_RESUME, BTRAIL_PAUSE_OVERFLOW,
                          host + 200);
            }
            g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
            index += slab.n_records;
            host += g_rand_int_range(random, 500,
                                     (i % 5 ? 2 : 40) * MS);
        }
    }
    g_rand_free(random);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

/*
 * Two threads on vCPU 0, of which the second one wakes the first one, while vCPU 1
 * is idle: see the slabs.  A slab takes half a millisecond; before that at
 * @pause, the guest is stopped for 10 ms.
 */
static void write_woken(const char *path, unsigned pause)
{
    enum { EACH = 5, SLAB = 500000, START = 5000000, PAUSED = 10000000,
           DISK = BTRAIL_TASK_LEFT_BLOCKED | BTRAIL_TASK_LEFT_UNINTERRUPTIBLE,
           SLEEP = BTRAIL_TASK_LEFT_BLOCKED | BTRAIL_TASK_LEFT_INTERRUPTIBLE };
    static const char json[] = "{\"tick_ns\": 1000000, "
                               "\"start\": {\"monotonic\": 5000000}, "
                               "\"overflow\": \"pause\", \"vcpus\": 2, "
                               "\"privilege\": \"all\"}";
    /* @tid: runs; the one before has @left; @wakes: a thread, before the
     * records in @function, the last of which calls @calls */
    static const struct {
        unsigned tid, left, wakes, function, calls;
    } slabs[] = {
        { 11, 0, 13, 0x1000, 0x2000 }, { 12, DISK, 0, 0x3000, 0 },
        { 12, 0, 0, 0x3000, 0 }, { 12, 0, 0, 0x3000, 0x4000 },
        { 12, 0, 11, 0x4000, 0 },
        { 11, BTRAIL_TASK_LEFT_RUNNABLE, 0, 0x2000, 0 },
        { 12, SLEEP, 0, 0x4000, 0 },
        { 0, BTRAIL_TASK_LEFT_DEAD, 0, 0x5000, 0 },
    };
    static const char names[][5] = { "idle", "one", "two" };
    struct btrail_writer *w;
    uint64_t host = START;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==,
                    0);
    g_assert_cmpint(btrail_writer_meta(w, json, strlen(json)), ==, 0);
    for (unsigned i = 0; i <= G_N_ELEMENTS(slabs); i++, host += SLAB) {
        struct btrail_record records[EACH];
        struct btrail_event events[8];
        struct btrail_slab slab = {
            .first_index = i * EACH, .cr3 = 0x5000, .events = events,
            .records = records,
        };
        bool ends = i == G_N_ELEMENTS(slabs);
        unsigned tid = ends ? 0 : slabs[i].tid;

        if (i == pause) {
            add_event(&slab, events, i * EACH, BTRAIL_EVENT_PAUSE,
                      BTRAIL_PAUSE_VM_STOP, host);
            host += PAUSED;
            add_event(&slab, events, i * EACH, BTRAIL_EVENT_RESUME,
                      BTRAIL_PAUSE_VM_STOP, host);
        }
        if (ends) {
            add_clock(&slab, events, i * EACH, host);
            add_event(&slab, events, i * EACH, BTRAIL_EVENT_END,
                      BTRAIL_END_STOPPED, host);
        } else {
            add_turn(&slab, events, i * EACH, host, slabs[i].left,
                     tid ? UINT64_C(11) << 32 | tid : 0,
                     names[tid ? tid - 10 : 0]);
            if (slabs[i].wakes) {
                add_event(&slab, events, i * EACH, BTRAIL_EVENT_WAKE,
                          slabs[i].wakes == 13 ? BTRAIL_WAKE_NEW : 0,
                          UINT64_C(11) << 32 | slabs[i].wakes);
            }
            for (unsigned k = 0; k < EACH; k++) {
                unsigned f = slabs[i].function;

                records[k] = (struct btrail_record) {
                    f + 0x10, i < 2 && !k ? f : f + 8, 0,
                };
            }
            if (slabs[i].calls) {
                records[EACH - 1].to = slabs[i].calls;
            }
            slab.n_records = EACH;
        }
        g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    }
    for (unsigned i = 0; i < 2; i++) {
        const struct btrail_record record = { 0x5010, 0x5008, 0 };
        struct btrail_event events[5];
        struct btrail_slab slab = {
            .first_index = i, .cr3 = 0x5000, .events = events,
            .records = &record, .n_records = !i,
        };

        if (i) {
            add_event(&slab, events, 1, BTRAIL_EVENT_PAUSE,
                      BTRAIL_PAUSE_VM_STOP, START + pause * SLAB);
            add_event(&slab, events, 1, BTRAIL_EVENT_RESUME,
                      BTRAIL_PAUSE_VM_STOP, START + pause * SLAB + PAUSED);
            add_event(&slab, events, 1, BTRAIL_EVENT_END, BTRAIL_END_STOPPED,
                      host - SLAB);
            events[slab.n_events - 1].data[2] = BTRAIL_NO_ICOUNT;
        } else {
            add_turn(&slab, events, 0, START, 0, 0, "idle");
        }
        g_assert_cmpint(btrail_writer_append(w, 1, &slab), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

/*
 * What KVM's producer makes: batches of records with one TIME event each, no
 * task, no instruction count, and what the agent has found of the kernel.  A
 * program is interrupted by the timer once in each batch.
 */
static void write_kvm(const char *path,
                      const struct btrail_writer_options *options)
{
    enum { BATCHES = 10 };
    static const char json[] = "{\"producer\": \"kvm\", \"tick_ns\": 1000000, "
                               "\"start\": {\"monotonic\": 5000000}, "
                               "\"overflow\": \"drop\", \"vcpus\": 1, "
                               "\"privilege\": \"all\"}";
    static const char symbols[] =
        "ffffffff81000000 T asm_sysvec_apic_timer_interrupt\n"
        "ffffffff81001000 T sysvec_apic_timer_interrupt\n"
        "ffffffff81002000 T _etext\n";
    static const struct btrail_record records[] = {
        { 0x1020, 0x1010, 0 }, { 0x1018, 0xffffffff81000000, 0 },
        { 0xffffffff81000010, 0xffffffff81001000, 0 },
        { 0xffffffff81001010, 0xffffffff81000015, 0 },
        { 0xffffffff81000020, 0x1018, 0 }, { 0x1020, 0x1010, 0 },
    };
    const struct btrail_sideband_info info = {
        .kind = BTRAIL_SIDEBAND_SYMBOLS, .time = 1,
        .size = sizeof(symbols) - 1,
    };
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open_with(&w, path, options), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, json, strlen(json)), ==, 0);
    g_assert_cmpint(btrail_writer_sideband(w, &info, symbols), ==, 0);
    for (unsigned i = 0; i <= BATCHES; i++) {
        uint64_t host = 5000000 + i * 1000000;
        struct btrail_event events[2];
        struct btrail_slab slab = {
            .first_index = i * G_N_ELEMENTS(records), .cr3 = 0x5000,
            .records = records, .events = events,
            .n_records = i < BATCHES ? G_N_ELEMENTS(records) : 0,
        };

        add_event(&slab, events, slab.first_index, BTRAIL_EVENT_TIME, 0, host);
        events[0].data[2] = BTRAIL_NO_ICOUNT;
        if (i == BATCHES) {
            add_event(&slab, events, slab.first_index, BTRAIL_EVENT_END,
                      BTRAIL_END_STOPPED, host);
        }
        g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

/*
 * A process that has mapped the first page of code of /bin/sample, a file with
 * this build-id and offset, and one of a file that is nowhere
 */
static void write_mapped(const char *path, const char *id)
{
    enum { START = 0x400000, CR3 = 0x5000 };
    const struct btrail_record records[] = {
        { START + 0x10, START + 0x20, 0 }, { START + 0x21, START + 0x30, 0 },
    };
    uint8_t bytes[BTRAIL_BUILD_ID_MAX];
    struct btrail_mapping mappings[2] = {
        { .start = START, .end = START + 0x1000, .offset = 0x1000,
          .path = "/bin/sample", .build_id = bytes },
        { .start = START + 0x10000, .end = START + 0x11000,
          .path = "/bin/\nnowhere \"", .build_id = bytes },
    };
    struct btrail_process process = {
        .pgd = CR3, .mm = 1, .start_time = 1, .first = 1000, .last = 1u << 30,
        .pid = 7, .comm = "sample", .exe = "/bin/sample", .command_line = "",
        .n_mappings = 2, .mappings = mappings,
    };
    const struct btrail_snapshot snapshot = {
        .begin = 1000, .end = 1u << 30, .flags = BTRAIL_SNAPSHOT_WHOLE,
        .n = 1, .processes = &process,
    };
    struct btrail_slab slab = {
        .cr3 = CR3, .records = records, .n_records = G_N_ELEMENTS(records),
    };
    struct btrail_writer *w;
    unsigned value, n;

    for (n = 0; n < sizeof(bytes) && sscanf(id, "%2x", &value) == 1; n++) {
        bytes[n] = value;
        id += 2;
    }
    for (unsigned i = 0; i < 2; i++) {
        mappings[i].flags = BTRAIL_MAPPING_READ | BTRAIL_MAPPING_EXEC |
                            BTRAIL_MAPPING_FILE;
        mappings[i].build_id_size = n;
    }
    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==,
                    0);
    sample_snapshot(w, &snapshot);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

/* What a thread of write_wakes() does; the idle tasks are the first two */
enum { WAKES_VCPUS = 2, WAKES_THREADS = 7 };

struct wakes_thread {
    bool blocked;
    uint64_t since;
};

struct wakes {
    struct wakes_thread threads[WAKES_THREADS];
    unsigned running[WAKES_VCPUS];
    uint64_t clocks[WAKES_VCPUS];
    uint64_t index[WAKES_VCPUS];
    GRand *random;
    uint64_t count;             /* of instructions, if they are counted, or 0 */
    uint64_t pace;              /* of the guest's time: in that of the host */
};

static uint64_t wakes_task(unsigned thread)
{
    return thread < WAKES_VCPUS ? 0 :
           (uint64_t)(20 + thread) << 32 | (20 + thread);
}

/* The next thread of a vCPU: one that can run there, or that which is idle */
static unsigned wakes_next(struct wakes *w, unsigned vcpu)
{
    unsigned thread = g_rand_int_range(w->random, WAKES_VCPUS, WAKES_THREADS);
    const struct wakes_thread *t = &w->threads[thread];

    return thread == w->running[!vcpu] || t->blocked ||
           t->since > w->clocks[vcpu] ? vcpu : thread;
}

static void wakes_turn(struct wakes *w, struct btrail_writer *writer)
{
    enum { MOST = 60 };
    struct btrail_record records[MOST];
    unsigned vcpu = w->clocks[1] < w->clocks[0];
    unsigned thread = wakes_next(w, vcpu), was = w->running[vcpu];
    unsigned woken = g_rand_int_range(w->random, WAKES_VCPUS, WAKES_THREADS);
    struct btrail_event events[3];
    struct btrail_slab slab = {
        .first_index = w->index[vcpu], .cr3 = 0x5000, .events = events,
        .records = records,
        .n_records = g_rand_int_range(w->random, 1, MOST),
    };
    const char name[] = { thread < WAKES_VCPUS ? 'i' : 'a' + thread, 0 };
    uint16_t left = 0;

    for (unsigned i = 0; i < slab.n_records; i++) {
        uint64_t at = 0xffffffff81000000ull + thread * 0x1000;

        records[i] = (struct btrail_record) { at + 0x10, at, 0 };
        if (w->count) {
            w->count += 3;
            records[i].flags = w->count << BTRAIL_RECORD_ICOUNT_SHIFT;
        }
    }
    if (thread != was && was >= WAKES_VCPUS) {
        w->threads[was].blocked = g_rand_boolean(w->random);
        w->threads[was].since = w->clocks[vcpu];
        left = !w->threads[was].blocked ? BTRAIL_TASK_LEFT_RUNNABLE :
               BTRAIL_TASK_LEFT_BLOCKED | BTRAIL_TASK_LEFT_INTERRUPTIBLE;
    }
    w->running[vcpu] = thread;
    add_turn(&slab, events, slab.first_index, w->clocks[vcpu], left,
             wakes_task(thread), name);
    events[0].data[1] = w->pace * w->clocks[vcpu];
    events[0].data[2] = w->count ?: BTRAIL_NO_ICOUNT;
    if (w->threads[woken].blocked && w->threads[woken].since <
        w->clocks[vcpu] && woken != was) {
        add_event(&slab, events, slab.first_index, BTRAIL_EVENT_WAKE, 0,
                  wakes_task(woken));
        w->threads[woken] = (struct wakes_thread) {
            .since = w->clocks[vcpu] + 1,
        };
    }
    g_assert_cmpint(btrail_writer_append(writer, vcpu, &slab), ==, 0);
    w->index[vcpu] += slab.n_records;
    w->clocks[vcpu] += slab.n_records * 1000;
}

/*
 * Five threads and two idle tasks by turns on two vCPUs, some of which wake
 * others; each record takes a microsecond, and is in the page of its thread.
 * @replay: the trace is that of a recording
 * @pace:   of its guest's time, in which so many nanoseconds go by in one; 0: that
 *          is not known
 */
static void write_wakes(const char *path,
                        const struct btrail_writer_options *options,
                        bool replay, uint64_t pace)
{
    enum { TURNS = 2000, START = 5000000 };
    static const char json[] = "{\"tick_ns\": 1000000, "
                               "\"start\": {\"monotonic\": 5000000}, "
                               "\"overflow\": \"pause\", \"vcpus\": 2, "
                               "\"privilege\": \"all\"}";
    struct wakes w = {
        .running = { 0, 1 }, .clocks = { START, START },
        .random = g_rand_new_with_seed(40), .count = replay,
        .pace = pace,
    };
    static const char more[] = "{\"recording\": \"/r\", \"icount\": true}";
    struct btrail_writer *writer;

    g_assert_cmpint(btrail_writer_open_with(&writer, path, options), ==, 0);
    g_assert_cmpint(btrail_writer_meta(writer, json, strlen(json)), ==, 0);
    if (replay) {
        g_assert_cmpint(btrail_writer_meta(writer, more, strlen(more)), ==, 0);
    }
    for (unsigned i = 0; i < TURNS; i++) {
        wakes_turn(&w, writer);
    }
    for (unsigned vcpu = 0; vcpu < WAKES_VCPUS; vcpu++) {
        struct btrail_event event;
        struct btrail_slab slab = {
            .first_index = w.index[vcpu], .cr3 = 0x5000, .events = &event,
        };

        add_event(&slab, &event, w.index[vcpu], BTRAIL_EVENT_END,
                  BTRAIL_END_STOPPED, w.clocks[vcpu]);
        g_assert_cmpint(btrail_writer_append(writer, vcpu, &slab), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(writer), ==, 0);
    g_rand_free(w.random);
}

/*
 * A vCPU boots, half a millisecond for each slab.  The first record is that of
 * power-on, unless it is @late.  Process 1 is named from the slab @named on; it
 * is blocked in slab 3, a program from the third record of slab 5 on, and
 * blocked again before slab 6, which takes no time.
 */
static void write_boot(const char *path, bool late, unsigned named)
{
    enum { EACH = 5, SLAB = 500000, START = 5000000, SLABS = 7, PROGRAM = 5,
           OTHER = 3 };
    static const char json[] = "{\"tick_ns\": 1000000, "
                               "\"start\": {\"monotonic\": 5000000}, "
                               "\"overflow\": \"pause\", \"vcpus\": 1, "
                               "\"privilege\": \"all\"}";
    static const char names[][16] = { "swapper/0", "kthreadd", "init" };
    const uint64_t kernel = 0xffffffff81000000, reset = 0xfffffff0;
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==,
                    0);
    g_assert_cmpint(btrail_writer_meta(w, json, strlen(json)), ==, 0);
    for (unsigned i = 0; i <= SLABS; i++) {
        unsigned tid = i == OTHER ? 2 : 1;
        const char *name = names[i > PROGRAM ? 2 : tid - 1];
        struct btrail_record records[EACH];
        struct btrail_event events[5];
        struct btrail_slab slab = {
            .first_index = i * EACH, .cr3 = 0x5000, .events = events,
            .records = records, .n_records = i < SLABS ? EACH : 0,
        };

        for (unsigned k = 0; k < EACH; k++) {
            uint64_t at = i > PROGRAM || (i == PROGRAM && k > 2) ? 0x401000 :
                          kernel + 0x1000 * i;

            records[k] = (struct btrail_record) { at + 16, at };
        }
        records[2].to = i == PROGRAM ? 0x401000 : records[2].to;
        if (!i && !late) {
            records[0] = (struct btrail_record) { reset, 0xfe05b };
        }
        add_event(&slab, events, i * EACH, BTRAIL_EVENT_TIME, 0,
                  START + i * SLAB);
        events[0].data[2] = BTRAIL_NO_ICOUNT;
        if (i == SLABS) {
            add_event(&slab, events, i * EACH, BTRAIL_EVENT_END,
                      BTRAIL_END_STOPPED, START + i * SLAB);
        } else if (i >= named) {
            if (i == PROGRAM + 1) {
                add_event(&slab, events, i * EACH, BTRAIL_EVENT_TASK,
                          BTRAIL_TASK_LEFT_BLOCKED, UINT64_C(2) << 32 | 2);
                memcpy(&events[slab.n_events - 1].data[1], names[1], 16);
            }
            if (i == OTHER + 1 || i == PROGRAM + 1) {
                add_event(&slab, events, i * EACH, BTRAIL_EVENT_WAKE, 0,
                          UINT64_C(1) << 32 | 1);
            }
            add_event(&slab, events, i * EACH, BTRAIL_EVENT_TASK,
                      i == OTHER ? BTRAIL_TASK_LEFT_BLOCKED : 0,
                      (uint64_t)tid << 32 | tid);
            memcpy(&events[slab.n_events - 1].data[1], name, 16);
        }
        g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

int main(int argc, char **argv)
{
    struct btrail_writer_options options = { BTRAIL_WRITER_REPLACE };

    if (argc < 3 || argc > 5) {
        return 2;
    }
    options.part_size = argc > 3 ? atoi(argv[3]) : 0;
    options.ring_size = argc > 4 ? atoi(argv[4]) : 0;
    if (!g_strcmp0(argv[2], "large")) {
        write_large(argv[1], &options);
    } else if (!strcmp(argv[2], "threads")) {
        write_threads(argv[1], &options);
    } else if (!strcmp(argv[2], "exec")) {
        write_exec(argv[1], &options);
    } else if (!strcmp(argv[2], "turns")) {
        write_turns(argv[1], &options);
    } else if (!strcmp(argv[2], "tree")) {
        write_tree(argv[1], &options);
    } else if (!strcmp(argv[2], "syscalls")) {
        write_syscalls(argv[1], &options, false);
    } else if (!strcmp(argv[2], "paused")) {
        write_syscalls(argv[1], &options, true);
    } else if (!strcmp(argv[2], "waits")) {
        write_waits(argv[1], &options, false);
    } else if (!strcmp(argv[2], "switches")) {
        write_waits(argv[1], &options, true);
    } else if (!strcmp(argv[2], "wakes")) {
        write_wakes(argv[1], &options, false, 0);
    } else if (!strcmp(argv[2], "replay")) {
        write_wakes(argv[1], &options, true, 0);
    } else if (!strcmp(argv[2], "replay+tsc")) {
        write_wakes(argv[1], &options, true, 4);
    } else if (!strcmp(argv[2], "woken")) {
        write_woken(argv[1], 3);
    } else if (!strcmp(argv[2], "preempted")) {
        write_woken(argv[1], 6);
    } else if (g_str_has_prefix(argv[2], "boot")) {
        write_boot(argv[1], g_str_has_suffix(argv[2], "+late"),
                   g_str_has_suffix(argv[2], "+later") ? 6 : 2);
    } else if (!strcmp(argv[2], "marks")) {
        write_marks(argv[1], &options);
    } else if (!strcmp(argv[2], "moved-marks")) {
        write_moved_marks(argv[1], &options);
    } else if (!strcmp(argv[2], "kvm")) {
        write_kvm(argv[1], &options);
    } else if (!strcmp(argv[2], "code")) {
        write_code(argv[1], &options);
    } else if (g_str_has_prefix(argv[2], "mapped:")) {
        write_mapped(argv[1], argv[2] + strlen("mapped:"));
    } else if (g_str_has_suffix(argv[2], "+sideband")) {
        sample_write_sideband(argv[1], atoi(argv[2]), &options);
    } else {
        sample_write_with(argv[1], atoi(argv[2]), &options);
    }
    return 0;
}
