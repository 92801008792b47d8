/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The index: entries written and read back, and refused when damaged.
 */

#include "lib/internal/index.h"

static struct btrail_block_header header(uint32_t switches)
{
    struct btrail_block_header h = {
        .vcpu = 4, .first_index = 5, .end_index = 16, .cr3 = 17,
        .time_first = 7, .time_last = 8, .records = 9, .events = 10,
        .switches.n = switches,
    };
    uint32_t i;

    for (i = 0; i < btrail_cr3set_listed(switches); i++) {
        h.switches.roots[i] = (i + switches) << 12;
    }
    return h;
}

static void test_round_trip(void)
{
    static const uint32_t numbers[] = {
        0, 1, 64, BTRAIL_CR3SET_MANY, 2, 0,
    };
    g_autoptr(GArray) roots = btrail_roots_new();
    g_autoptr(GArray) got_roots = btrail_roots_new();
    struct btrail_buf payload = { 0 };
    struct btrail_index_entry e, got;
    const uint8_t *p, *end;
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(numbers); i++) {
        struct btrail_block_header h = header(numbers[i]);
        size_t before = payload.len;

        btrail_index_entry_fill(&e, 1000 + i, 200, &h, roots);
        g_assert_true(btrail_index_entry_fits(&e, roots, &h));
        btrail_index_entry_append(&payload, &e, roots);
        g_assert_cmpuint(payload.len - before, ==,
                         btrail_index_entry_size(&e));
    }
    end = payload.data + payload.len;
    for (p = payload.data, i = 0; p < end; i++) {
        struct btrail_block_header h = header(numbers[i]);

        p = btrail_index_entry_get(p, end, &got, got_roots);
        g_assert_nonnull(p);
        g_assert_cmpuint(got.offset, ==, 1000 + i);
        g_assert_cmpuint(got.size, ==, 200);
        g_assert_cmpuint(got.type, ==, BTRAIL_CHUNK_DATA);
        g_assert_cmpuint(got.vcpu, ==, 4);
        g_assert_cmpuint(got.first_index, ==, 5);
        g_assert_cmpuint(got.end_index, ==, 16);
        g_assert_cmpuint(got.time_first, ==, 7);
        g_assert_cmpuint(got.time_last, ==, 8);
        g_assert_cmpuint(got.records, ==, 9);
        g_assert_cmpuint(got.events, ==, 10);
        g_assert_cmpuint(got.cr3, ==, 17);
        g_assert_true(btrail_index_entry_fits(&got, got_roots, &h));
        h.switches.n++;
        g_assert_true(got.switches == BTRAIL_CR3SET_MANY ||
                      !btrail_index_entry_fits(&got, got_roots, &h));
    }
    g_assert_cmpuint(i, ==, G_N_ELEMENTS(numbers));
    btrail_buf_free(&payload);
}

static void test_switches(void)
{
    struct btrail_block_header h = header(3);
    struct btrail_index_entry first, e, many;
    g_autoptr(GArray) roots = btrail_roots_new();

    btrail_index_entry_fill(&first, 0, 200, &h, roots);
    h = header(2);
    btrail_index_entry_fill(&e, 0, 200, &h, roots);
    g_assert_cmpint(btrail_roots_switches(roots, &e, 0x2000), ==,
                    BTRAIL_SWITCHES_YES);
    g_assert_cmpint(btrail_roots_switches(roots, &e, 0x3000), ==,
                    BTRAIL_SWITCHES_YES);
    /* This one is in the list of another chunk. */
    g_assert_cmpint(btrail_roots_switches(roots, &e, 0x5000), ==,
                    BTRAIL_SWITCHES_NO);
    h = header(BTRAIL_CR3SET_MANY);
    btrail_index_entry_fill(&many, 0, 200, &h, roots);
    g_assert_cmpint(btrail_roots_switches(roots, &many, 0x5000), ==,
                    BTRAIL_SWITCHES_PERHAPS);
}

/* Entries that are cut off, or could be those of no chunk */
static void test_damaged(void)
{
    static const struct {
        unsigned offset;
        uint64_t value;
    } bad[] = {
        { 8, (BTRAIL_CHUNK_MAX_PAYLOAD + 1) | (uint64_t)2 << 32 },
        { 8, (BTRAIL_BLOCK_MIN - 1) | (uint64_t)2 << 32 },
        { 8, 200 | (uint64_t)BTRAIL_CHUNK_INDEX << 32 },
        { 8, 200 | (uint64_t)BTRAIL_CHUNK_META << 32 },
        { 8, 200 | (uint64_t)2 << 32 | (uint64_t)BTRAIL_MAX_VCPUS << 48 },
        { 16, 8 },                  /* 8 indices left for 9 records */
        { 16, 17 },
        { 48, BTRAIL_BLOCK_MAX_RECORDS + 1 },
        { 48, (uint64_t)(BTRAIL_BLOCK_MAX_EVENTS + 1) << 32 },
        { 64, 65 },
        { 64, UINT32_MAX - 1 },
    };
    struct btrail_block_header h = header(2);
    struct btrail_buf payload = { 0 };
    struct btrail_index_entry e;
    g_autoptr(GArray) roots = btrail_roots_new();
    unsigned i;
    size_t len;

    btrail_index_entry_fill(&e, 0, 200, &h, roots);
    btrail_index_entry_append(&payload, &e, roots);
    for (len = 0; len < payload.len; len++) {
        g_autofree uint8_t *copy = g_memdup2(payload.data, len);

        g_assert_null(btrail_index_entry_get(copy, copy + len, &e, roots));
    }
    for (i = 0; i < G_N_ELEMENTS(bad); i++) {
        uint64_t sound = btrail_get64(payload.data + bad[i].offset);

        btrail_put64(payload.data + bad[i].offset, bad[i].value);
        g_assert_null(btrail_index_entry_get(payload.data, payload.data +
                                             payload.len, &e, roots));
        btrail_put64(payload.data + bad[i].offset, sound);
    }
    g_assert_nonnull(btrail_index_entry_get(payload.data, payload.data +
                                            payload.len, &e, roots));
    btrail_buf_free(&payload);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/index/round-trip", test_round_trip);
    g_test_add_func("/index/switches", test_switches);
    g_test_add_func("/index/damaged", test_damaged);
    return g_test_run();
}
