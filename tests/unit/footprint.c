/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which chunks may have run an instruction, compared with a search through all
 * records
 */

#include <string.h>

#include "lib/internal/codec.h"
#include "lib/internal/crc32c.h"
#include "lib/internal/footprint.h"
#include "lib/agent/trace-files.h"
#include "trace-samples.h"

#define SLAB    500u
#define SLABS   40u
#define N       (SLAB * SLABS)
#define BASE    UINT64_C(0xffffffff81000000)
/* Each chunk of the trace runs code of its own, and some that all run. */
#define AREA    4096u

static struct btrail_record records[N];

static void make_records(void)
{
    uint64_t to = BASE;

    for (unsigned i = 0; i < N; i++) {
        unsigned area = g_test_rand_int_range(0, 10) ? 1 + i / SLAB : 0;

        records[i].from = to + g_test_rand_int_range(0, 200);
        to = BASE + area * AREA + g_test_rand_int_range(0, AREA - 256);
        records[i].to = to;
        records[i].flags = (i + UINT64_C(1)) << BTRAIL_RECORD_ICOUNT_SHIFT;
    }
}

static char *write_trace(unsigned lost)
{
    const struct sample_slabs slabs = {
        .records = records,
        .n_records = SLAB,
        .n = SLABS,
        .lost = lost,
        .counted = true,
        .in_chunk = 1,
    };
    char *path = sample_path();

    sample_write_slabs(path, &slabs);
    return path;
}

/* Is there a block with the address that ends with one of these records? */
static bool ran(uint64_t address, uint64_t begin, uint64_t end)
{
    for (uint64_t i = MAX(begin, 1); i < end; i++) {
        if (records[i - 1].to <= address && address <= records[i].from) {
            return true;
        }
    }
    return false;
}

/* Chunks without the address are left out, and no others, on both ways. */
static unsigned check_chunks(const struct btrail_trace *trace, uint64_t address)
{
    uint64_t before = N, from = 0, begin, end;
    unsigned chunks = 0, again = 0;

    while (btrail_trace_last_ran(trace, 0, &address, 1, before, &begin, &end)) {
        g_assert_cmpuint(begin, <, end);
        g_assert_cmpuint(end, <=, before);
        g_assert_cmpuint(begin % SLAB, ==, 0);
        g_assert_false(ran(address, end, before));
        before = begin;
        chunks++;
    }
    g_assert_false(ran(address, 0, before));
    while (btrail_trace_next_ran(trace, 0, &address, 1, from, &begin, &end)) {
        g_assert_cmpuint(begin, >=, from);
        g_assert_cmpuint(begin, <, end);
        g_assert_cmpuint(end % SLAB, ==, 0);
        g_assert_false(ran(address, from, begin));
        from = end;
        again++;
    }
    g_assert_false(ran(address, from, N));
    g_assert_cmpuint(again, ==, chunks);
    return chunks;
}

/* A piece begins and ends where the caller wants. */
static void test_middle(void)
{
    g_autofree char *path = write_trace(0);
    const uint64_t address = BASE + 2000;
    struct btrail_trace *trace;
    uint64_t begin, end;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    for (unsigned i = 0; i < N; i += 77) {
        if (btrail_trace_next_ran(trace, 0, &address, 1, i, &begin, &end)) {
            g_assert_cmpuint(begin, ==, begin < i + 1 ? i : end - SLAB);
            g_assert_false(ran(address, i + SLAB, begin));
        } else {
            g_assert_false(ran(address, i + SLAB, N));
        }
        if (btrail_trace_last_ran(trace, 0, &address, 1, i, &begin, &end)) {
            g_assert_cmpuint(end, ==, end > i - 1 ? i : begin + SLAB);
        }
    }
    g_assert_false(
        btrail_trace_next_ran(trace, 0, &address, 1, N, &begin, &end));
    g_assert_false(btrail_trace_next_ran(trace, 0, &address, 1, UINT64_MAX,
                                         &begin, &end));
    btrail_trace_close(trace);
    sample_remove(g_steal_pointer(&path));
}

static void test_chunks(void)
{
    g_autofree char *path = write_trace(0);
    struct btrail_trace *trace;
    unsigned chunks = 0, found = 0;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    for (unsigned i = 0; i < 200; i++) {
        uint64_t address = BASE + AREA + g_test_rand_int_range(0, SLABS * AREA);

        chunks += check_chunks(trace, address);
        found += ran(address, 0, N);
    }
    /* One chunk, or two since a block may reach into the next one's code */
    g_assert_cmpuint(chunks, <, 3 * 200);
    g_assert_cmpuint(found, >, 100);
    g_assert_cmpuint(check_chunks(trace, BASE + 2000), >, SLABS / 2);
    g_assert_cmpuint(check_chunks(trace, BASE - AREA), ==, 0);
    btrail_trace_close(trace);
    sample_remove(g_steal_pointer(&path));
}

/* What a trace does not say may be anything. */
static void test_gap(void)
{
    const unsigned lost = 3 * SLAB;
    g_autofree char *path = write_trace(lost);
    const uint64_t address = BASE - AREA;
    struct btrail_trace *trace;
    uint64_t begin, end;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_true(
        btrail_trace_last_ran(trace, 0, &address, 1, N + lost, &begin, &end));
    g_assert_cmpuint(begin, <=, N / 2 + lost);
    g_assert_cmpuint(end, >, N / 2 + lost);
    g_assert_false(
        btrail_trace_last_ran(trace, 0, &address, 1, N / 2, &begin, &end));
    /* A hole that no chunk covers, at the end */
    g_assert_true(btrail_trace_last_ran(trace, 0, &address, 1, N + 2 * lost,
                                        &begin, &end));
    g_assert_cmpuint(begin, ==, N + lost);
    g_assert_cmpuint(end, ==, N + 2 * lost);
    g_assert_true(
        btrail_trace_next_ran(trace, 0, &address, 1, 0, &begin, &end));
    g_assert_cmpuint(begin, <=, N / 2 + lost);
    g_assert_cmpuint(end, >, N / 2 + lost);
    g_assert_false(btrail_trace_next_ran(trace, 0, &address, 1, end, &begin,
                                         &end));
    g_assert_false(
        btrail_trace_last_ran(trace, 1, &address, 1, N, &begin, &end));
    btrail_trace_close(trace);
    sample_remove(g_steal_pointer(&path));
}

/* Sections by themselves */

static void add(struct btrail_footprint *l, uint64_t first, unsigned more)
{
    btrail_footprint_add(l, first << BTRAIL_FOOTPRINT_SHIFT | more);
}

static enum btrail_ran asked(const struct btrail_buf *section, uint64_t line)
{
    const uint64_t address = line << BTRAIL_FOOTPRINT_SHIFT | 63;

    return btrail_footprint_ran(section->data, section->len, &address, 1);
}

static void test_runs(void)
{
    const uint64_t last = UINT64_MAX >> BTRAIL_FOOTPRINT_SHIFT;
    struct btrail_footprint l = { 0 };
    struct btrail_buf section = { 0 };

    btrail_footprint_begin(&l);
    add(&l, last - 1, 1);
    add(&l, 7, 63);
    add(&l, 5, 1);
    add(&l, 0, 0);
    add(&l, 7, 2);
    btrail_footprint_pack(&l, &section);
    /* A checksum, flags and three runs, of which the last is far away */
    g_assert_cmpuint(section.len, ==, 4 + 1 + 2 + 2 + 9 + 1);
    for (uint64_t i = 0; i < 100; i++) {
        g_assert_cmpint(asked(&section, i), ==,
                        !i || (5 <= i && i <= 70) ? BTRAIL_RAN_PERHAPS :
                                                    BTRAIL_RAN_NONE);
    }
    g_assert_cmpint(asked(&section, last - 2), ==, BTRAIL_RAN_NONE);
    g_assert_cmpint(asked(&section, last), ==, BTRAIL_RAN_PERHAPS);

    btrail_footprint_begin(&l);
    btrail_footprint_pack(&l, &section);
    g_assert_cmpint(asked(&section, 0), ==, BTRAIL_RAN_NONE);
    l.gap = true;
    btrail_footprint_pack(&l, &section);
    g_assert_cmpint(asked(&section, 0), ==, BTRAIL_RAN_UNKNOWN);
    btrail_footprint_free(&l);
    btrail_buf_free(&section);
}

/* Of many addresses that are in order, one is enough. */
static void test_addresses(void)
{
    struct btrail_footprint l = { 0 };
    struct btrail_buf section = { 0 };
    uint64_t addresses[300];

    btrail_footprint_begin(&l);
    for (unsigned i = 0; i < 100; i++) {
        add(&l, 1000 * i, 1);
    }
    btrail_footprint_pack(&l, &section);
    for (unsigned one = 0; one < G_N_ELEMENTS(addresses); one++) {
        size_t n = G_N_ELEMENTS(addresses) - one;
        uint64_t line;

        for (unsigned i = 0; i < G_N_ELEMENTS(addresses); i++) {
            addresses[i] = (i * 400 + 2) << BTRAIL_FOOTPRINT_SHIFT;
        }
        g_assert_cmpint(btrail_footprint_ran(section.data, section.len,
                                             addresses, one + n),
                        ==, BTRAIL_RAN_NONE);
        line = (addresses[one] >> BTRAIL_FOOTPRINT_SHIFT) / 1000 * 1000 + 1;
        addresses[one] = line << BTRAIL_FOOTPRINT_SHIFT;
        g_assert_cmpint(btrail_footprint_ran(section.data, section.len,
                                             addresses + one, n),
                        ==, line < 100000 ? BTRAIL_RAN_PERHAPS :
                                            BTRAIL_RAN_NONE);
    }
    btrail_footprint_free(&l);
    btrail_buf_free(&section);
}

/* The same piece counts once; of too many, none is kept. */
static void test_many(void)
{
    struct btrail_footprint l = { 0 };
    struct btrail_buf section = { 0 };

    btrail_footprint_begin(&l);
    for (unsigned i = 0; i < 10 * BTRAIL_FOOTPRINT_PIECES; i++) {
        add(&l, i * UINT64_C(0x123456789) % (BTRAIL_FOOTPRINT_PIECES / 2) * 2,
            0);
    }
    btrail_footprint_pack(&l, &section);
    g_assert_cmpuint(section.len, <=, BTRAIL_FOOTPRINT_MAX_SIZE);
    g_assert_cmpint(asked(&section, 100), ==, BTRAIL_RAN_PERHAPS);
    g_assert_cmpint(asked(&section, 101), ==, BTRAIL_RAN_NONE);

    btrail_footprint_begin(&l);
    for (unsigned i = 0; i < 2 * BTRAIL_FOOTPRINT_PIECES; i++) {
        add(&l, 2 * i, 0);
    }
    btrail_footprint_pack(&l, &section);
    g_assert_cmpuint(section.len, ==, 4 + 1);
    g_assert_cmpint(asked(&section, 101), ==, BTRAIL_RAN_UNKNOWN);
    btrail_footprint_free(&l);
    btrail_buf_free(&section);
}

/*
 * Code that begins above where it ends did not run in one piece: both ends have
 * run, however near they are to each other where addresses wrap around.
 */
static void test_wrap(void)
{
    static const struct btrail_record wrap[] = {
        { 0x800000, -UINT64_C(100), 0 },
        { 100, 0x10000, 0 },
        { 0x100c0, 0x8000, 0 },
    };
    struct btrail_buf out[BTRAIL_CODEC_STREAMS] = { 0 }, section = { 0 };
    struct btrail_encoder *encoder = btrail_encoder_new();
    struct btrail_footprint l = { 0 };
    const uint64_t last = UINT64_MAX >> BTRAIL_FOOTPRINT_SHIFT;

    btrail_footprint_begin(&l);
    btrail_encoder_begin(encoder, out, &l);
    btrail_encoder_gap(encoder);
    btrail_encoder_records(encoder, wrap, G_N_ELEMENTS(wrap));
    btrail_encoder_end(encoder);
    l.gap = false;
    btrail_footprint_pack(&l, &section);
    g_assert_cmpint(asked(&section, last - 1), ==, BTRAIL_RAN_PERHAPS);
    g_assert_cmpint(asked(&section, last), ==, BTRAIL_RAN_NONE);
    g_assert_cmpint(asked(&section, 0), ==, BTRAIL_RAN_NONE);
    g_assert_cmpint(asked(&section, 1), ==, BTRAIL_RAN_PERHAPS);
    for (uint64_t line = 0x3fe; line <= 0x404; line++) {
        g_assert_cmpint(asked(&section, line), ==,
                        0x400 <= line && line <= 0x403 ? BTRAIL_RAN_PERHAPS :
                                                         BTRAIL_RAN_NONE);
    }
    btrail_encoder_free(encoder);
    btrail_footprint_free(&l);
    btrail_buf_free(&section);
    for (unsigned i = 0; i < BTRAIL_CODEC_STREAMS; i++) {
        btrail_buf_free(&out[i]);
    }
}

static void seal(struct btrail_buf *section)
{
    btrail_put32(section->data,
                 btrail_crc32c(0, section->data + 4, section->len - 4));
}

static void test_damaged(void)
{
    struct btrail_footprint l = { 0 };
    struct btrail_buf section = { 0 };
    uint8_t overflow[4 + 1 + 2 * BTRAIL_VARINT_MAX + 1] = { 0 };
    struct btrail_buf far = { overflow, sizeof(overflow), 0 };

    btrail_footprint_begin(&l);
    add(&l, 1000, 0);
    btrail_footprint_pack(&l, &section);
    for (size_t i = 0; i < section.len; i++) {
        const uint64_t address = 0;

        g_assert_cmpint(btrail_footprint_ran(section.data, i, &address, 1), ==,
                        BTRAIL_RAN_UNKNOWN);
        section.data[i] ^= 1;
        g_assert_cmpint(asked(&section, 0), ==, BTRAIL_RAN_UNKNOWN);
        section.data[i] ^= 1;
    }
    /* No bytes at all, as a section that is empty */
    g_assert_cmpint(btrail_footprint_ran(NULL, 0, &(uint64_t) { 0 }, 1), ==,
                    BTRAIL_RAN_UNKNOWN);
    /* A number that is cut off */
    section.data[section.len - 1] |= 0x80;
    seal(&section);
    g_assert_cmpint(asked(&section, 0), ==, BTRAIL_RAN_UNKNOWN);
    /* Runs that go beyond the last address */
    *btrail_put_varint(btrail_put_varint(overflow + 5, UINT64_MAX), 1) = 0;
    seal(&far);
    g_assert_cmpint(asked(&far, 0), ==, BTRAIL_RAN_UNKNOWN);
    btrail_footprint_free(&l);
    btrail_buf_free(&section);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    make_records();
    g_test_add_func("/chunks", test_chunks);
    g_test_add_func("/middle", test_middle);
    g_test_add_func("/gap", test_gap);
    g_test_add_func("/runs", test_runs);
    g_test_add_func("/addresses", test_addresses);
    g_test_add_func("/many", test_many);
    g_test_add_func("/wrap", test_wrap);
    g_test_add_func("/damaged", test_damaged);
    return g_test_run();
}
