/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records of 12 bytes, as a processor of 32 bits stores them, and back.
 */

#include "trace-samples.h"

#define ROUNDS  20

/* A record as the processor stores it: three little-endian words */
static void put_bytes(uint8_t *bytes, const uint32_t *words)
{
    unsigned i;

    for (i = 0; i < 12; i++) {
        bytes[i] = words[i / 4] >> 8 * (i % 4);
    }
}

static uint32_t random_word(void)
{
    return g_test_rand_bit() ? (uint32_t)g_test_rand_int() :
           (uint32_t)g_test_rand_int_range(0, 100);
}

/*
 * What is stored as 12 bytes comes back as such, in order, with the events
 * between the same records, whatever the addresses and flags are.
 */
static void test_trace(void)
{
    unsigned round;

    for (round = 0; round < ROUNDS; round++) {
        g_autofree uint8_t *bytes = g_malloc(12 * 3000);
        unsigned n[3], n_slabs = G_N_ELEMENTS(n), total = 0, i, k, next = 0;
        char *path = sample_path();
        struct btrail_writer *w;
        struct btrail_trace *trace;
        struct btrail_cursor *cursor;
        struct btrail_batch b;
        uint64_t switches[3];

        g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
        for (k = 0; k < n_slabs; k++) {
            struct btrail_event events[2] = {
                { total, BTRAIL_EVENT_TIME, 0, 0, { k + 1 } },
                { 0, BTRAIL_EVENT_CR3, 0, 0, { 0x1000 * (k + 1) } },
            };
            struct btrail_slab slab = {
                .first_index = total, .cr3 = 0x1000 * k, .events = events,
                .n_events = 2,
            };

            n[k] = g_test_rand_int_range(1, 1000);
            for (i = 0; i < n[k]; i++) {
                uint32_t words[] = { random_word(), random_word(),
                                     random_word() };

                put_bytes(bytes + 12 * (total + i), words);
            }
            switches[k] = events[1].index =
                total + g_test_rand_int_range(0, n[k]);
            slab.n_records = n[k];
            g_assert_cmpint(btrail_writer_append_32(
                w, 2, &slab, (void *)(bytes + 12 * total)), ==, 0);
            total += n[k];
        }
        g_assert_cmpint(btrail_writer_close(w), ==, 0);

        g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
        g_assert_cmpint(btrail_cursor_open(&cursor, trace, 2, 0), ==, 0);
        while (!btrail_cursor_next(cursor, &b)) {
            struct btrail_record32 *narrow;

            g_assert_cmpuint(b.index, ==, next);
            if (b.event) {
                g_assert_false(b.synthetic);
                continue;
            }
            for (i = 0; i < b.count; i++, next++) {
                uint32_t words[] = { b.records[i].from, b.records[i].to,
                                     b.records[i].flags };
                uint8_t got[12];

                put_bytes(got, words);
                g_assert_cmpmem(got, 12, bytes + 12 * next, 12);
                g_assert_cmpuint(b.records[i].from >> 32, ==, 0);
                g_assert_cmpuint(b.records[i].to >> 32, ==, 0);
                g_assert_cmpuint(b.records[i].flags >> 32, ==, 0);
                for (k = 0; k < n_slabs && switches[k] <= next; k++) {
                    /* as many CR3 events as were before it */
                }
                g_assert_cmpuint(b.cr3, ==, 0x1000 * k);
            }
            narrow = g_new(struct btrail_record32, b.count);
            g_assert_cmpint(btrail_records_to_32(narrow, b.records, b.count),
                            ==, 0);
            g_assert_cmpmem(narrow, 12 * b.count,
                            bytes + 12 * (next - b.count), 12 * b.count);
            g_free(narrow);
        }
        g_assert_cmpuint(next, ==, total);
        btrail_cursor_close(cursor);
        btrail_trace_close(trace);
        sample_remove(path);
    }
}

/* Each member by itself is too large for it, by the least that is. */
static void test_range(void)
{
    unsigned i;

    for (i = 0; i < 3; i++) {
        uint64_t words[6] = { 1, 2, 3, UINT32_MAX, UINT32_MAX, UINT32_MAX };
        struct btrail_record32 narrow[2];

        g_assert_cmpint(btrail_records_to_32(narrow, (void *)words, 2), ==, 0);
        words[3 + i]++;
        memset(narrow, 0, sizeof(narrow));
        g_assert_cmpint(btrail_records_to_32(narrow, (void *)words, 2), ==,
                        -BTRAIL_ERR_RANGE);
        g_assert_cmpuint(narrow[0].from, ==, 1);
        g_assert_cmpuint(narrow[0].to, ==, 2);
        g_assert_cmpuint(narrow[0].flags, ==, 3);
    }
}

static void test_arguments(void)
{
    struct btrail_record wide = { 1, 2, 3 };
    struct btrail_record32 narrow = { 1, 2, 3 };
    struct btrail_event event = { 0, BTRAIL_EVENT_TIME, 0, 0, { 1 } };
    struct btrail_slab slab = { .n_records = 1, .events = &event,
                                .n_events = 1 };
    char *path = sample_path();
    struct btrail_writer *w;

    g_assert_cmpint(btrail_records_from_32(NULL, &narrow, 1), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_records_from_32(&wide, NULL, 1), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_records_to_32(NULL, &wide, 1), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_records_to_32(&narrow, NULL, 1), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_records_from_32(NULL, NULL, 0), ==, 0);
    g_assert_cmpint(btrail_records_to_32(NULL, NULL, 0), ==, 0);

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_append_32(w, 0, NULL, &narrow), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_writer_append_32(w, 0, &slab, NULL), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_writer_append_32(NULL, 0, &slab, &narrow), ==,
                    -BTRAIL_ERR_ARGUMENT);
    slab.records = &wide;
    g_assert_cmpint(btrail_writer_append_32(w, 0, &slab, &narrow), ==,
                    -BTRAIL_ERR_ARGUMENT);
    slab.records = NULL;
    slab.n_records = SIZE_MAX / 2;
    g_assert_cmpint(btrail_writer_append_32(w, 0, &slab, &narrow), ==,
                    -BTRAIL_ERR_MEMORY);
    slab.n_records = 1;
    g_assert_cmpint(btrail_writer_append_32(w, 0, &slab, &narrow), ==, 0);
    /* It has come to the same place as any slab. */
    g_assert_cmpint(btrail_writer_append_32(w, 0, &slab, &narrow), ==,
                    -BTRAIL_ERR_SLAB);
    slab.n_records = slab.n_events = 0;
    slab.first_index = 1;
    g_assert_cmpint(btrail_writer_append_32(w, 0, &slab, NULL), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/record32/trace", test_trace);
    g_test_add_func("/record32/range", test_range);
    g_test_add_func("/record32/arguments", test_arguments);
    return g_test_run();
}
