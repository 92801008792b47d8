/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: make-bombs NAME FILE | make-bombs --list
 *
 * Writes a small trace that describes something huge, or something that takes
 * a time that is not in proportion to it unless a reader prevents that.  Each
 * has a name; the comment of its function says what is in it.
 */

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>

#include "backtrail/names.h"
#include "backtrail/transport.h"
#include "lib/agent/bytes.h"
#include "lib/agent/code-piece.h"

#define KERNEL      0xffffffff81000000ull
#define MAX_EVENTS  65536
#define SECOND      1000000000ull

/* The trace that is written, and what it has so far */
struct bomb {
    struct btrail_writer *w;
    uint64_t index[BTRAIL_MAX_VCPUS];
    struct btrail_event *events;
    size_t n_events;
    struct btrail_record *records;
    size_t n_records;
    uint64_t cr3;
};

static void add_event(struct bomb *b, uint16_t type, uint64_t data0,
                      uint64_t data1, uint64_t data2)
{
    b->events[b->n_events++] = (struct btrail_event) {
        .index = b->index[0] + b->n_records, .type = type,
        .data = { data0, data1, data2 },
    };
}

static void add_time(struct bomb *b, uint64_t time)
{
    add_event(b, BTRAIL_EVENT_TIME, time, time, BTRAIL_NO_ICOUNT);
}

static void add_record(struct bomb *b, uint64_t from, uint64_t to)
{
    b->records[b->n_records++] = (struct btrail_record) { from, to, 0 };
}

/* Writes what was added as a chunk of its own. */
static void add_chunk(struct bomb *b)
{
    const struct btrail_slab slab = {
        .first_index = b->index[0], .cr3 = b->cr3, .records = b->records,
        .n_records = b->n_records, .events = b->events,
        .n_events = b->n_events,
    };

    g_assert_cmpint(btrail_writer_append(b->w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_flush(b->w), ==, 0);
    b->index[0] += b->n_records;
    for (size_t i = 0; i < b->n_events; i++) {
        const struct btrail_event *e = &b->events[i];

        if (e->type == BTRAIL_EVENT_CR3) {
            b->cr3 = e->data[0];
        }
    }
    b->n_events = b->n_records = 0;
}

static void end_chunk_if_full(struct bomb *b)
{
    if (b->n_events + 2 > MAX_EVENTS) {
        add_chunk(b);
    }
}

/* Some records of a process */
static void add_records(struct bomb *b, uint64_t cr3, unsigned n)
{
    b->cr3 = cr3;
    add_time(b, SECOND);
    for (unsigned i = 0; i < n; i++) {
        add_record(b, 0x400000 + i % 5, KERNEL + i % 7);
    }
    add_chunk(b);
}

static void add_sideband(struct bomb *b, uint16_t kind, uint64_t time,
                         const void *data, size_t size)
{
    const struct btrail_sideband_info info = {
        .kind = kind, .time = time, .size = size,
    };

    g_assert_cmpint(btrail_writer_sideband(b->w, &info, data), ==, 0);
}

/* A snapshot, byte by byte: what the library's encoder would refuse to do */
struct snapshot {
    struct btrail_buf strings;
    struct btrail_buf rest;
    uint64_t n_strings;
    uint64_t end;
    uint64_t processes;
};

static void put(struct snapshot *s, uint64_t v)
{
    btrail_buf_append_varint(&s->rest, v);
}

static void put_string(struct snapshot *s, const void *text, size_t size)
{
    btrail_buf_append_varint(&s->strings, size);
    btrail_buf_append(&s->strings, text, size);
    s->n_strings++;
}

/* The first string is empty, the second one is @text. */
static void begin_snapshot(struct snapshot *s, uint64_t end, const char *text)
{
    *s = (struct snapshot) { .end = end };
    put_string(s, "", 0);
    put_string(s, text, strlen(text));
}

/* A process up to its threads; @comm is the number of a string. */
static void put_process(struct snapshot *s, uint64_t pgd, uint32_t pid,
                        uint32_t flags, uint64_t age, unsigned comm)
{
    s->processes++;
    put(s, pgd);
    put(s, 0);
    put(s, flags & BTRAIL_PROCESS_KERNEL ? 0 : 0xffff888000000000ull);
    put(s, pid);
    put(s, age);
    put(s, 0);
    put(s, flags);
    put(s, pid);
    put(s, 0);
    put(s, comm);
    put(s, 0);
    put(s, 0);
}

static void put_mappings(struct snapshot *s, uint64_t n, uint64_t size,
                         unsigned path)
{
    put(s, n);
    for (uint64_t i = 0; i < n; i++) {
        put(s, i ? 0 : 0x400000);
        put(s, size);
        put(s, 0);
        put(s, BTRAIL_MAPPING_READ | BTRAIL_MAPPING_EXEC |
            BTRAIL_MAPPING_FILE);
        put(s, path);
        put(s, 0);
    }
}

static void end_snapshot(struct bomb *b, struct snapshot *s)
{
    struct btrail_buf all = { 0 };

    btrail_buf_append_varint(&all, BTRAIL_SNAPSHOT_WHOLE);
    btrail_buf_append_varint(&all, s->end);
    btrail_buf_append_varint(&all, 0);
    btrail_buf_append_varint(&all, s->n_strings);
    btrail_buf_append(&all, s->strings.data, s->strings.len);
    btrail_buf_append_varint(&all, s->processes);
    btrail_buf_append(&all, s->rest.data, s->rest.len);
    add_sideband(b, BTRAIL_SIDEBAND_PROCESSES, s->end, all.data, all.len);
    btrail_buf_free(&all);
    btrail_buf_free(&s->strings);
    btrail_buf_free(&s->rest);
}

/* A path of @size bytes; free it. */
static char *long_path(size_t size)
{
    char *path = g_malloc(size + 1);

    memset(path, 'a', size);
    path[0] = '/';
    path[size] = '\0';
    return path;
}

/* Processes that are seen first, and read with 2^20 mappings later */
static void make_seen(struct bomb *b)
{
    struct snapshot s;

    for (unsigned i = 0; i < 60; i++) {
        begin_snapshot(&s, SECOND + 2 * i, "/bin/true");
        put_process(&s, 0x1000 * (i + 1), i + 1, BTRAIL_PROCESS_SEEN, 0, 1);
        put(&s, 0);
        put(&s, 0);
        end_snapshot(b, &s);
        begin_snapshot(&s, SECOND + 2 * i + 1, "/bin/true");
        put_process(&s, 0x1000 * (i + 1), i + 1, 0, 0, 1);
        put(&s, 0);
        put_mappings(&s, 1 << 20, 0x1000, 1);
        end_snapshot(b, &s);
    }
    add_records(b, 0x1000, 100);
}

/* A process with 2^20 mappings that are others in each snapshot */
static void make_versions(struct bomb *b)
{
    struct snapshot s;

    for (unsigned i = 0; i < 60; i++) {
        begin_snapshot(&s, SECOND + i, "/bin/true");
        put_process(&s, 0x1000, 1, 0, 0, 1);
        put(&s, 0);
        put_mappings(&s, 1 << 20, 0x1000 + (i & 1) * 0x1000, 1);
        end_snapshot(b, &s);
    }
    add_records(b, 0x1000, 100);
}

/* A process that has two versions of 2^20 mappings in turn */
static void make_turns(struct bomb *b)
{
    struct snapshot s;

    for (unsigned i = 0; i < 2; i++) {
        begin_snapshot(&s, SECOND * (i + 1), "/bin/true");
        put_process(&s, 0x1000, 1, 0, i * SECOND, 1);
        put(&s, 0);
        put_mappings(&s, 1 << 18, 0x1000 + i * 0x1000, 1);
        end_snapshot(b, &s);
    }
    b->cr3 = 0x1000;
    for (unsigned i = 0; i < MAX_EVENTS / 2; i++) {
        add_time(b, SECOND * (1 + i % 2));
        add_record(b, 0x400000, 0x400000);
    }
    add_chunk(b);
}

/* Mappings that all have one path, as long as can be */
static void make_path(struct bomb *b)
{
    g_autofree char *path = long_path(BTRAIL_SNAPSHOT_TEXT);
    struct snapshot s;

    for (unsigned i = 0; i < 2; i++) {
        begin_snapshot(&s, SECOND + i, path);
        put_process(&s, 0x1000, 1, 0, 0, 1);
        put(&s, 0);
        put_mappings(&s, 1 << 20, 0x1000, 1);
        end_snapshot(b, &s);
    }
    b->cr3 = 0x1000;
    add_time(b, SECOND);
    for (unsigned i = 0; i < 1 << 18; i++) {
        add_record(b, 0x400000 + i * 0x1000ull, 0x400000);
    }
    add_chunk(b);
}

/* Mappings that all have one path, longer than can be */
static void make_long_path(struct bomb *b)
{
    g_autofree char *path = long_path(8 << 20);
    struct snapshot s;

    begin_snapshot(&s, SECOND, path);
    put_process(&s, 0x1000, 1, 0, 0, 1);
    put(&s, 0);
    put_mappings(&s, 1 << 20, 0x1000, 1);
    end_snapshot(b, &s);
    add_records(b, 0x1000, 100);
}

/* Threads and processes that all have one name, as long as can be */
static void make_comm(struct bomb *b)
{
    g_autofree char *comm = long_path(BTRAIL_SNAPSHOT_TEXT);
    struct snapshot s;

    for (unsigned i = 0; i < 3; i++) {
        begin_snapshot(&s, SECOND + i, comm);
        put_process(&s, 0x1000, 1, 0, 0, 1);
        put(&s, 1 << 18);
        for (unsigned k = 0; k < 1 << 18; k++) {
            put(&s, 1);
            put(&s, 0);
            put(&s, 0);
            put(&s, 1);
        }
        put(&s, 0);
        for (unsigned k = 2; k < 50000; k++) {
            put_process(&s, 0x1000 * k, k, 0, 0, 1);
            put(&s, 0);
            put(&s, 0);
        }
        end_snapshot(b, &s);
    }
    for (unsigned i = 1; i < 50000; i++) {
        add_event(b, BTRAIL_EVENT_CR3, i * 0x1000, 0, 0);
        add_record(b, 0x400000, 0x400000);
    }
    add_chunk(b);
}

/* One process of long life and many of short ones with the same page table */
static void make_lives(struct bomb *b)
{
    struct snapshot s;

    for (unsigned k = 0; k < 4; k++) {
        begin_snapshot(&s, SECOND * (k + 2), "bomb");
        for (unsigned i = 0; i < 65000; i++) {
            put_process(&s, 0x1000, k * 65536 + i + 1, 0, 0, 1);
            put(&s, 0);
            put(&s, 0);
        }
        end_snapshot(b, &s);
    }
    begin_snapshot(&s, SECOND * 100, "bomb");
    put_process(&s, 0x1000, 1000000, 0, SECOND * 99, 1);
    put(&s, 0);
    put(&s, 0);
    end_snapshot(b, &s);
    for (unsigned i = 0; i < 1 << 17; i++) {
        end_chunk_if_full(b);
        add_event(b, BTRAIL_EVENT_CR3, i % 2 * 0x1000, 0, 0);
        add_time(b, SECOND * 6 + i);
        add_record(b, 0x400000, 0x400000);
    }
    add_chunk(b);
}

/* Page tables whose numbers have the same lower 32 bits */
static void make_roots(struct bomb *b)
{
    struct snapshot s;

    for (unsigned k = 0; k < 4; k++) {
        begin_snapshot(&s, SECOND + k, "bomb");
        for (unsigned i = 1; i < 65000; i++) {
            uint64_t n = k * 65000 + i;

            put_process(&s, btrail_cr3_root(n << 32 | n << 12), n, 0, 0,
                        1);
            put(&s, 0);
            put(&s, 0);
        }
        end_snapshot(b, &s);
    }
    for (uint64_t i = 0; i < 1 << 18; i++) {
        end_chunk_if_full(b);
        add_event(b, BTRAIL_EVENT_CR3,
                  btrail_cr3_root(i << 32 | i << 12), 0, 0);
        add_record(b, 0x400000, 0x400000);
    }
    add_chunk(b);
}

/* Symbols that all have the same address */
static void make_symbols(struct bomb *b)
{
    GString *text = g_string_new(NULL);

    while (text->len < BTRAIL_SIDEBAND_MAX_SIZE - 64) {
        g_string_append(text, "ffffffff81000000 t a\n");
    }
    add_sideband(b, BTRAIL_SIDEBAND_SYMBOLS, SECOND, text->str, text->len);
    g_string_free(text, TRUE);
    add_records(b, 0x1000, 100);
}

/* Tables of symbols, most of them with a single one */
static void make_tables(struct bomb *b)
{
    GString *text = g_string_new(NULL);
    char line[64];

    for (unsigned i = 0; i < 60000; i++) {
        g_snprintf(line, sizeof(line), "%llx t a\n", KERNEL + i % 3);
        add_sideband(b, BTRAIL_SIDEBAND_SYMBOLS, SECOND + i, line,
                     strlen(line));
    }
    for (unsigned i = 0; text->len < BTRAIL_SIDEBAND_MAX_SIZE - 64; i++) {
        g_string_append_printf(text, "%llx t a\n", KERNEL + i);
    }
    add_sideband(b, BTRAIL_SIDEBAND_SYMBOLS, SECOND * 2, text->str,
                 text->len);
    g_string_free(text, TRUE);
    add_records(b, 0x1000, 100);
}

/* Streams of 1024 vCPUs, with one large chunk each */
static void make_full_vcpus(struct bomb *b, unsigned full)
{
    enum { N = 1 << 22 };
    struct btrail_record *records = g_new(struct btrail_record, N);
    struct btrail_event times[2] = {
        { .type = BTRAIL_EVENT_TIME, .data = { SECOND, 0, 0 } },
        { .type = BTRAIL_EVENT_TIME, .index = N - 1,
          .data = { 2 * SECOND, 0, 0 } },
    };
    struct btrail_slab slab = {
        .records = records, .events = times, .n_events = 2, .n_records = N,
    };

    for (unsigned i = 0; i < N; i++) {
        records[i] = (struct btrail_record) { 0x400000, 0x400000, 0 };
    }
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        slab.n_records = i < full ? N : 20000;
        times[1].index = slab.n_records - 1;
        slab.cr3 = 0x1000 * (i + 1);
        g_assert_cmpint(btrail_writer_append(b->w, i, &slab), ==, 0);
    }
    g_free(records);
}

static void make_vcpus(struct bomb *b)
{
    make_full_vcpus(b, 2);
}

/* More than may be read together */
static void make_streams(struct bomb *b)
{
    make_full_vcpus(b, 160);
}

/* Chunks of 65536 events that switch between address spaces */
static void make_spaces(struct bomb *b)
{
    for (uint64_t i = 0; i < 1 << 21; i++) {
        end_chunk_if_full(b);
        add_event(b, BTRAIL_EVENT_CR3, (i & 0xfff) * 0x1000, 0, 0);
        add_time(b, SECOND + i);
        add_record(b, 0x400000, 0x400000);
    }
    add_chunk(b);
}

/* Tasks that all have another number, and another name */
static void make_tasks(struct bomb *b)
{
    for (uint64_t i = 1; i < 1 << 20; i++) {
        end_chunk_if_full(b);
        add_event(b, BTRAIL_EVENT_TASK, i << 32 | i, 0x61616161 + i, 0);
        add_record(b, 0x400000, 0x400100);
    }
    add_chunk(b);
}

/* Threads that all have a frame, so that their stacks are kept */
static void make_threads(struct bomb *b)
{
    static const char symbols[] = "ffffffff81000000 t a\n"
                                  "ffffffff81001000 t b\n";

    add_sideband(b, BTRAIL_SIDEBAND_SYMBOLS, SECOND, symbols,
                 strlen(symbols));
    for (uint64_t i = 1; i < 1 << 19; i++) {
        end_chunk_if_full(b);
        add_event(b, BTRAIL_EVENT_TASK, i << 32 | i, 0x61616161, 0);
        add_record(b, KERNEL + 0x10, KERNEL + 0x1000);
    }
    add_chunk(b);
}

/* Threads that all have a frame, and then as many gaps */
static void make_lapses(struct bomb *b)
{
    make_threads(b);
    for (uint64_t i = 1; i < 1 << 19; i++) {
        end_chunk_if_full(b);
        add_time(b, SECOND + i);
        add_event(b, BTRAIL_EVENT_GAP, ~0ull, 0, 0);
    }
    add_chunk(b);
}

/* A thread that all vCPUs wait for, while one has it and much happens there */
static void make_waiting(struct bomb *b)
{
    struct btrail_record record = { 0x400000, 0x400100, 0 };
    struct btrail_event events[] = {
        { .type = BTRAIL_EVENT_TIME, .data = { SECOND, SECOND } },
        { .type = BTRAIL_EVENT_TASK,
          .data = { UINT64_C(7) << 32 | 7, 0x61616161 } },
        { .type = BTRAIL_EVENT_TIME, .index = 1,
          .data = { UINT64_C(1) << 60, SECOND } },
    };
    const struct btrail_slab slab = {
        .records = &record, .n_records = 1, .events = events,
        .n_events = G_N_ELEMENTS(events),
    };

    for (unsigned i = 1; i < BTRAIL_MAX_VCPUS; i++) {
        events[0].data[0] = SECOND + i;
        g_assert_cmpint(btrail_writer_append(b->w, i, &slab), ==, 0);
    }
    add_time(b, SECOND);
    add_event(b, BTRAIL_EVENT_TASK, UINT64_C(7) << 32 | 7, 0x61616161, 0);
    for (uint64_t i = 0; i < 1 << 21; i++) {
        end_chunk_if_full(b);
        add_event(b, BTRAIL_EVENT_CR3, (1 + (i & 3)) * 0x1000, 0, 0);
        add_record(b, 0x400000, 0x400100);
    }
    add_time(b, UINT64_C(1) << 59);
    add_chunk(b);
}

/* Contents that all have one number, and pages that have that content */
static void put_code(struct bomb *b, uint32_t entries, uint32_t same,
                     uint64_t gap)
{
    struct btrail_buf buf = { 0 };
    uint8_t bytes[48] = { 0 };

    btrail_put32(bytes, entries);
    btrail_put32(bytes + 4, same);
    btrail_buf_append(&buf, bytes, 16);
    for (uint32_t i = 0; i < entries; i++) {
        btrail_put32(bytes, 0);
        btrail_put32(bytes + 4, i);
        btrail_put64(bytes + 8, gap ? (i + 1) * gap - 1 : 0);
        btrail_put64(bytes + 16, 0x1000);
        btrail_put64(bytes + 24, 0x400000 + i * 0x1000ull);
        btrail_put64(bytes + 32, ~0ull);
        btrail_put64(bytes + 40, 1);
        btrail_buf_append(&buf, bytes, 48);
    }
    for (uint32_t i = 0; i < same; i++) {
        btrail_put64(bytes, 1);
        btrail_put64(bytes + 8, 2);
        btrail_buf_append(&buf, bytes, 16);
    }
    add_sideband(b, BTRAIL_SIDEBAND_CODE, 0, buf.data, buf.len);
    btrail_buf_free(&buf);
}

/* A process without mappings, so that they are searched in the code */
static void add_one_process(struct bomb *b)
{
    struct snapshot s;

    begin_snapshot(&s, SECOND, "/bin/true");
    put_process(&s, 0x1000, 1, 0, SECOND / 2, 1);
    put(&s, 0);
    put(&s, 0);
    end_snapshot(b, &s);
}

/* A process with nothing but a vDSO */
static void add_vdso(struct bomb *b)
{
    struct snapshot s;

    begin_snapshot(&s, SECOND, "[vdso]");
    put_process(&s, 0x1000, 1, 0, SECOND / 2, 1);
    put(&s, 0);
    /* Below 4 GiB it would be one of 32 bits. */
    put_mappings(&s, 1, UINT64_C(1) << 33, 1);
    end_snapshot(b, &s);
}

static void make_same(struct bomb *b)
{
    add_one_process(b);
    put_code(b, 300000, 0, 0);
    put_code(b, 0, 1000000, 0);
    add_records(b, 0x1000, 100);
}

/* Code far apart, at records that are far apart in one chunk */
static void make_far(struct bomb *b)
{
    enum { FAR = 1 << 23, N = 60000 };
    struct btrail_record record = { 0x400000, 0x400000, 0 };
    struct btrail_event gap = {
        .type = BTRAIL_EVENT_GAP, .reason = BTRAIL_GAP_OVERFLOW,
        .data = { FAR - 1 },
    };
    struct btrail_slab slab = {
        .cr3 = 0x1000, .events = &gap, .n_events = 1, .records = &record,
        .n_records = 1,
    };

    add_one_process(b);
    put_code(b, N, 0, FAR);
    for (uint64_t i = 0; i < N; i++) {
        slab.first_index = gap.index = (i + 1) * FAR - 1;
        g_assert_cmpint(btrail_writer_append(b->w, 0, &slab), ==, 0);
    }
}

/* Edges that all have the same upper bits in a product */
static void make_edges(struct bomb *b)
{
    /* The inverse of the golden ratio's factor, modulo 2^64 */
    uint64_t inverse = 0x9e3779b97f4a7c15ull;

    for (unsigned i = 0; i < 5; i++) {
        inverse *= 2 - 0x9e3779b97f4a7c15ull * inverse;
    }
    b->cr3 = 0x1000;
    for (unsigned i = 0; i < 1 << 18; i++) {
        add_record(b, inverse * i, 0);
    }
    add_chunk(b);
}

/* Calls that are deep, and returns to where nothing was called */
static void make_deep(struct bomb *b)
{
    GString *text = g_string_new(NULL);

    for (unsigned i = 0; i < 64; i++) {
        g_string_append_printf(text, "%llx t f%u\n", KERNEL + i * 0x1000ull,
                               i);
    }
    add_sideband(b, BTRAIL_SIDEBAND_SYMBOLS, SECOND, text->str, text->len);
    g_string_free(text, TRUE);
    b->cr3 = 0x1000;
    for (unsigned i = 0; i < 8000; i++) {
        add_record(b, KERNEL + i % 64 * 0x1000 + 0x10,
                   KERNEL + (i + 1) % 64 * 0x1000);
    }
    for (unsigned i = 0; i < 1 << 20; i++) {
        add_record(b, KERNEL + i % 2 * 0x1000 + 0x20,
                   KERNEL + (i + 1) % 2 * 0x1000 + 0x20);
    }
    add_chunk(b);
}

/* Members of descriptions whose names have the same hash in GLib */
static void make_meta(struct bomb *b)
{
    for (unsigned i = 0; i < 4; i++) {
        GString *text = g_string_new("{");

        for (unsigned k = 0; k < 20000; k++) {
            g_string_append(text, k ? ",\"" : "\"");
            for (unsigned bit = 0; bit < 17; bit++) {
                unsigned n = i * 20000 + k;

                g_string_append(text, n >> bit & 1 ? "bA" : "ab");
            }
            g_string_append(text, "\":1");
        }
        g_string_append_c(text, '}');
        g_assert_cmpint(btrail_writer_meta(b->w, text->str, text->len), ==,
                        0);
        g_string_free(text, TRUE);
    }
    add_records(b, 0x1000, 100);
}

/* Sideband that is all zeros */
static void make_zeros(struct bomb *b)
{
    g_autofree char *zeros = g_malloc0(BTRAIL_SIDEBAND_MAX_SIZE);

    for (unsigned i = 0; i < 60; i++) {
        add_sideband(b, BTRAIL_SIDEBAND_IMAGE, SECOND, zeros,
                     BTRAIL_SIDEBAND_MAX_SIZE);
        add_sideband(b, BTRAIL_SIDEBAND_CODE, SECOND, zeros,
                     BTRAIL_SIDEBAND_MAX_SIZE);
        add_sideband(b, BTRAIL_SIDEBAND_SYSCALLS, SECOND, zeros,
                     BTRAIL_SIDEBAND_MAX_SIZE);
        add_sideband(b, BTRAIL_SIDEBAND_SYMBOLS, SECOND, zeros,
                     BTRAIL_SIDEBAND_MAX_SIZE);
    }
    add_records(b, 0x1000, 100);
}

/* An image whose symbols have parts of one long name */
static void make_image(struct bomb *b)
{
    enum { SYMBOLS = 400000, NAME = 4 << 20, HEADERS = 128 };
    size_t symbols = HEADERS, names = symbols + SYMBOLS * sizeof(Elf64_Sym);
    size_t sections = names + NAME, size = sections + 4 * sizeof(Elf64_Shdr);
    g_autofree char *image = g_malloc0(size);
    Elf64_Shdr *s = (Elf64_Shdr *)(image + sections);
    Elf64_Sym *sym = (Elf64_Sym *)(image + symbols);

    *(Elf64_Ehdr *)image = (Elf64_Ehdr) {
        .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1 },
        .e_type = ET_DYN, .e_machine = EM_X86_64, .e_version = 1,
        .e_ehsize = sizeof(Elf64_Ehdr), .e_shoff = sections,
        .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 4,
        .e_phoff = sizeof(Elf64_Ehdr), .e_phnum = 1,
        .e_phentsize = sizeof(Elf64_Phdr),
    };
    *(Elf64_Phdr *)(image + sizeof(Elf64_Ehdr)) = (Elf64_Phdr) {
        .p_type = PT_LOAD, .p_filesz = 4096, .p_memsz = 4096,
    };
    s[1] = (Elf64_Shdr) { .sh_type = SHT_PROGBITS, .sh_size = 4096,
                          .sh_flags = SHF_ALLOC | SHF_EXECINSTR };
    s[2] = (Elf64_Shdr) { .sh_type = SHT_SYMTAB, .sh_offset = symbols,
                          .sh_size = names - symbols, .sh_link = 3,
                          .sh_entsize = sizeof(Elf64_Sym) };
    s[3] = (Elf64_Shdr) { .sh_type = SHT_STRTAB, .sh_offset = names,
                          .sh_size = NAME };
    memset(image + names + 1, 'a', NAME - 2);
    for (unsigned i = 0; i < SYMBOLS; i++) {
        sym[i] = (Elf64_Sym) {
            .st_name = 1 + i, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
            .st_shndx = 1, .st_value = 16, .st_size = 16,
        };
    }
    add_vdso(b);
    add_sideband(b, BTRAIL_SIDEBAND_IMAGE, SECOND, image, size);
    add_records(b, 0x1000, 100);
}

/* Tables of system calls: few bytes that stand for long lines */
static void make_syscalls(struct bomb *b)
{
    GString *text = g_string_new(NULL);

    while (text->len < BTRAIL_SIDEBAND_MAX_SIZE - 64) {
        g_string_append(text, "64 1 ffffffff81000000\n");
    }
    for (unsigned i = 0; i < 30; i++) {
        add_sideband(b, BTRAIL_SIDEBAND_SYSCALLS, SECOND + i, text->str,
                     text->len);
    }
    g_string_free(text, TRUE);
    add_records(b, 0x1000, 100);
}

/* Blocks in which an address may be that is no instruction of theirs */
static void make_within(struct bomb *b)
{
    b->cr3 = 0x1000;
    add_time(b, SECOND);
    for (unsigned i = 0; i < 1 << 20; i++) {
        add_record(b, 0x400200, 0x400000);
    }
    add_chunk(b);
}

/* The same, of long blocks that are known: instructions of 2 bytes */
static void make_sled(struct bomb *b)
{
    enum { PAGES = 8 };
    struct btrail_code_builder *code = btrail_code_builder_new();
    uint8_t page[BTRAIL_CODE_PAGE_SIZE];
    g_autofree uint8_t *data = NULL;
    size_t size;

    for (size_t i = 0; i < sizeof(page); i += 2) {
        page[i] = 0x66;
        page[i + 1] = 0x90;
    }
    btrail_code_builder_content(code, 1, page);
    for (unsigned i = 0; i < PAGES; i++) {
        const struct btrail_code_entry entry = {
            .cr3 = 0x1000, .linear = 0x400000 + i * sizeof(page), .number = 1,
        };

        btrail_code_builder_entry(code, &entry);
    }
    data = btrail_code_builder_take(code, &size);
    btrail_code_builder_free(code);
    add_sideband(b, BTRAIL_SIDEBAND_CODE, 0, data, size);
    b->cr3 = 0x1000;
    add_time(b, SECOND);
    for (unsigned i = 0; i < 1 << 17; i++) {
        add_record(b, 0x400000 + PAGES * sizeof(page) - 2, 0x400000);
    }
    add_chunk(b);
}

/* Two threads in turn, in a chunk of many records */
static void make_switches(struct bomb *b)
{
    b->cr3 = 0x1000;
    add_time(b, SECOND);
    for (uint64_t i = 0; i < 60000; i++) {
        add_event(b, BTRAIL_EVENT_TASK, (7 + i % 2) << 32 | (7 + i % 2),
                  0x61616161, 0);
        for (unsigned k = 0; k < 32; k++) {
            add_record(b, 0x400200, 0x400000);
        }
    }
    add_chunk(b);
}

/* Many moments that have counts of instructions, and a vCPU that has neither: no
 * count says where the others were then */
static void make_uncounted(struct bomb *b)
{
    enum { N = 64, SKIPPED = 16 };
    struct btrail_record records[N];

    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i += SKIPPED) {
        const bool last = i + SKIPPED >= BTRAIL_MAX_VCPUS;
        const struct btrail_event time = {
            .type = BTRAIL_EVENT_TIME,
            .data = { SECOND, SECOND, last ? BTRAIL_NO_ICOUNT : 1000 },
        };
        const struct btrail_slab slab = {
            .cr3 = 0x1000, .records = records, .n_records = N,
            .events = &time, .n_events = 1,
        };

        for (unsigned k = 0; k < N; k++) {
            records[k] = (struct btrail_record) {
                0x400200, last ? 0x500000 : 0x400000 + k % 2 * 0x100,
                (1001ull + k) << BTRAIL_RECORD_ICOUNT_SHIFT,
            };
        }
        g_assert_cmpint(btrail_writer_append(b->w, i, &slab), ==, 0);
    }
}

static const struct {
    const char *name;
    void (*make)(struct bomb *b);
} bombs[] = {
    { "seen", make_seen }, { "versions", make_versions },
    { "turns", make_turns }, { "path", make_path },
    { "long-path", make_long_path }, { "comm", make_comm },
    { "lives", make_lives }, { "roots", make_roots },
    { "symbols", make_symbols }, { "tables", make_tables },
    { "vcpus", make_vcpus }, { "streams", make_streams },
    { "spaces", make_spaces },
    { "tasks", make_tasks }, { "threads", make_threads },
    { "lapses", make_lapses }, { "waiting", make_waiting },
    { "same", make_same }, { "far", make_far },
    { "edges", make_edges }, { "deep", make_deep }, { "meta", make_meta },
    { "zeros", make_zeros }, { "image", make_image },
    { "syscalls", make_syscalls }, { "within", make_within },
    { "sled", make_sled }, { "switches", make_switches },
    { "uncounted", make_uncounted },
};

static int make(const char *name, const char *path)
{
    struct bomb b = {
        .events = g_new0(struct btrail_event, MAX_EVENTS + 2),
        .records = g_new0(struct btrail_record, 1 << 21),
    };

    for (size_t i = 0; i < G_N_ELEMENTS(bombs); i++) {
        if (!strcmp(bombs[i].name, name)) {
            g_assert_cmpint(btrail_writer_open(&b.w, path,
                                               BTRAIL_WRITER_REPLACE), ==, 0);
            bombs[i].make(&b);
            g_assert_cmpint(btrail_writer_close(b.w), ==, 0);
            g_free(b.events);
            g_free(b.records);
            return 0;
        }
    }
    return 2;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--list")) {
        for (size_t i = 0; i < G_N_ELEMENTS(bombs); i++) {
            puts(bombs[i].name);
        }
        return 0;
    }
    return argc == 3 ? make(argv[1], argv[2]) : 2;
}
