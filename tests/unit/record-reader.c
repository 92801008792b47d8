/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records by their indices: in order, backwards, at random, those that are
 * missing, and those of vCPUs in turns
 */

#include "find/record-reader.h"
#include "trace-samples.h"

#define CHUNKS  6u
#define RECORDS (CHUNKS * SAMPLE_CHUNK_RECORDS)
#define END     (RECORDS + SAMPLE_LOST)

static struct btrail_trace *trace;

/* What trace-samples.h says of a record; false if there is none */
static bool is_there(uint64_t index)
{
    return index < SAMPLE_CHUNK_RECORDS ||
           (index >= SAMPLE_CHUNK_RECORDS + SAMPLE_LOST && index < END);
}

static void check(struct record_reader *r, unsigned vcpu, uint64_t index)
{
    const uint64_t whole = index < SAMPLE_CHUNK_RECORDS ? index :
                           index - SAMPLE_LOST;
    const unsigned chunk = whole / SAMPLE_CHUNK_RECORDS;
    const unsigned half = whole % SAMPLE_CHUNK_RECORDS * 2 /
                          SAMPLE_CHUNK_RECORDS;
    struct visit v;
    int ret = r ? record_reader_at(r, vcpu, index, &v) :
              record_read(trace, vcpu, index, &v);

    if (!is_there(index)) {
        g_assert_cmpint(ret, ==, -BTRAIL_ERR_END);
        return;
    }
    g_assert_cmpint(ret, ==, 0);
    g_assert_cmpuint(v.at.vcpu, ==, vcpu);
    g_assert_cmpuint(v.at.index, ==, index);
    g_assert_cmpuint(v.record.from, ==, 0x1000 * vcpu + index);
    g_assert_cmpuint(v.record.to, ==, index);
    g_assert_cmpuint(v.at.time.host, ==, 1000000 * (chunk + 1));
    g_assert_cmpuint(v.address, ==, 0);
    if (half) {
        g_assert_cmpuint(v.cr3, ==, 0x1000 * (chunk + 1));
    }
}

static void test_in_order(void)
{
    /* All of them, and some: within a chunk, and in the next ones */
    for (unsigned step = 1; step < 50; step++) {
        struct record_reader *r = record_reader_new(trace);

        for (uint64_t i = 0; i < END + 5; i += step) {
            check(r, 0, i);
            check(r, 3, i);
            /* A moment can be asked for twice. */
            check(r, 0, i);
        }
        record_reader_free(r);
    }
}

static void test_any_order(void)
{
    struct record_reader *r = record_reader_new(trace);

    for (uint64_t i = END + 5; i--; ) {
        check(r, 3, i);
    }
    for (unsigned i = 0; i < 5000; i++) {
        check(r, g_test_rand_int_range(0, 2) ? 3 : 0,
              g_test_rand_int_range(0, END + 5));
    }
    record_reader_free(r);
}

static void test_alone(void)
{
    for (uint64_t i = 0; i < END + 5; i++) {
        check(NULL, 3, i);
    }
}

static void test_no_vcpu(void)
{
    struct record_reader *r = record_reader_new(trace);
    struct visit v;

    g_assert_cmpint(record_reader_at(r, 1, 0, &v), ==, -BTRAIL_ERR_STREAM);
    g_assert_cmpint(record_reader_at(r, BTRAIL_MAX_VCPUS, 0, &v), ==,
                    -BTRAIL_ERR_STREAM);
    check(r, 0, 0);
    record_reader_free(r);
    record_reader_free(NULL);
}

int main(int argc, char **argv)
{
    char *path;
    int ret;

    g_test_init(&argc, &argv, NULL);
    path = sample_path();
    sample_write(path, CHUNKS);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_test_add_func("/record-reader/in-order", test_in_order);
    g_test_add_func("/record-reader/any-order", test_any_order);
    g_test_add_func("/record-reader/alone", test_alone);
    g_test_add_func("/record-reader/no-vcpu", test_no_vcpu);
    ret = g_test_run();
    btrail_trace_close(trace);
    sample_remove(path);
    return ret;
}
