/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Blocks: what is packed is unpacked, and damaged payloads are refused within
 * bounds of memory.
 */

#include "lib/internal/block.h"
#include "lib/internal/crc32c.h"

#define MORE (BTRAIL_BLOCK_FOOTPRINT + BTRAIL_BLOCK_PREDICTED)

static const struct btrail_time no_time = { .icount = BTRAIL_NO_ICOUNT };

/* Records 100 to 129, with events in between and a hole in the middle */
static void make(struct btrail_buf *payload, struct btrail_record *r,
                 bool counts)
{
    static const struct btrail_event events[] = {
        { 100, BTRAIL_EVENT_TIME, 0, 0, { 5000, 77, BTRAIL_NO_ICOUNT } },
        { 100, BTRAIL_EVENT_CR3, 0, 0, { 0x2000 } },
        { 110, BTRAIL_EVENT_TIME, 0, 0, { 4000, UINT64_MAX, 3 } },
        { 160, BTRAIL_EVENT_GAP, BTRAIL_GAP_OVERFLOW, 0, { 50 } },
        /* From before the hole, kept as it is */
        { 150, BTRAIL_EVENT_PAUSE, BTRAIL_PAUSE_VM_STOP, 0, { 6000 } },
        { 180, BTRAIL_EVENT_GAP, BTRAIL_GAP_PRODUCER_LOST, 0,
          { BTRAIL_LOST_UNKNOWN } },
        { 180, BTRAIL_EVENT_END, BTRAIL_END_STOPPED, 0, { 7000 } },
    };
    struct btrail_block *block = btrail_block_new();
    struct btrail_encoder *encoder = btrail_encoder_new();
    struct btrail_packer *packer = btrail_packer_new();
    unsigned i;

    for (i = 0; i < 30; i++) {
        r[i] = (struct btrail_record) { i * 16, i % 4, counts ? (100 + i * i)
            << BTRAIL_RECORD_ICOUNT_SHIFT : 0 };
    }
    btrail_block_begin(block, 3, 100, 0x1000, &no_time);
    btrail_encoder_begin(encoder, block->streams, &block->footprint);
    btrail_block_add_event(block, &events[0]);
    btrail_block_add_event(block, &events[1]);
    btrail_encoder_records(encoder, r, 10);
    btrail_block_add_records(block, 10);
    btrail_block_add_event(block, &events[2]);
    btrail_block_add_event(block, &events[3]);
    btrail_block_add_event(block, &events[4]);
    btrail_encoder_records(encoder, r + 10, 20);
    btrail_block_add_records(block, 20);
    btrail_block_add_event(block, &events[5]);
    btrail_block_add_event(block, &events[6]);
    btrail_encoder_end(encoder);
    btrail_packer_pack(packer, block, payload);

    btrail_packer_free(packer);
    btrail_encoder_free(encoder);
    btrail_block_free(block);
}

static void check_event(const struct btrail_placed_event *e, uint32_t position,
                        uint64_t index, uint16_t type, uint16_t reason,
                        uint64_t data0, uint64_t data1, uint64_t data2)
{
    g_assert_cmpuint(e->position, ==, position);
    g_assert_cmpuint(e->event.index, ==, index);
    g_assert_cmpuint(e->event.type, ==, type);
    g_assert_cmpuint(e->event.reason, ==, reason);
    g_assert_cmpuint(e->event.clock, ==, 0);
    g_assert_cmphex(e->event.data[0], ==, data0);
    g_assert_cmphex(e->event.data[1], ==, data1);
    g_assert_cmphex(e->event.data[2], ==, data2);
}

static void check_events(const struct btrail_unpacker *u)
{
    const struct btrail_placed_event *e = btrail_unpacker_events(u);

    check_event(e++, 0, 100, BTRAIL_EVENT_TIME, 0, 5000, 77,
                BTRAIL_NO_ICOUNT);
    check_event(e++, 0, 100, BTRAIL_EVENT_CR3, 0, 0x2000, 0, 0);
    check_event(e++, 10, 110, BTRAIL_EVENT_TIME, 0, 4000, UINT64_MAX, 3);
    check_event(e++, 10, 160, BTRAIL_EVENT_GAP, BTRAIL_GAP_OVERFLOW, 50, 0,
                0);
    check_event(e++, 10, 150, BTRAIL_EVENT_PAUSE, BTRAIL_PAUSE_VM_STOP, 6000,
                0, 0);
    check_event(e++, 30, 180, BTRAIL_EVENT_GAP, BTRAIL_GAP_PRODUCER_LOST,
                BTRAIL_LOST_UNKNOWN, 0, 0);
    check_event(e++, 30, 180, BTRAIL_EVENT_END, BTRAIL_END_STOPPED, 7000, 0,
                0);
}

static void test_round_trip(gconstpointer counts)
{
    struct btrail_record r[30], got[30];
    struct btrail_buf payload = { 0 };
    struct btrail_block_header h;
    struct btrail_unpacker *u = btrail_unpacker_new();

    make(&payload, r, counts);
    g_assert_true(btrail_block_header_get(payload.data, payload.len, &h));
    g_assert_cmpuint(h.vcpu, ==, 3);
    g_assert_cmpuint(h.codec, ==,
                     MORE + (counts ? BTRAIL_CODEC_PATH_COUNTS :
                                      BTRAIL_CODEC_PATH));
    g_assert_cmpuint(h.first_index, ==, 100);
    g_assert_cmpuint(h.end_index, ==, 180);
    g_assert_cmphex(h.cr3, ==, 0x1000);
    g_assert_cmpuint(h.time.host, ==, 0);
    g_assert_cmpuint(h.time_first, ==, 5000);
    g_assert_cmpuint(h.time_last, ==, 4000);
    g_assert_cmpuint(h.records, ==, 30);
    g_assert_cmpuint(h.events, ==, 7);
    g_assert_cmpuint(h.switches.n, ==, 1);
    g_assert_cmphex(h.switches.roots[0], ==, 0x2000);

    g_assert_cmpint(btrail_unpacker_load(u, payload.data, payload.len, &h,
                                         true), ==, 0);
    check_events(u);
    /* It can be used again. */
    g_assert_cmpint(btrail_unpacker_load(u, payload.data, payload.len, &h,
                                         false), ==, 0);
    check_events(u);
    g_assert_true(btrail_unpacker_records(u, got, 30));
    g_assert_cmpmem(got, sizeof(got), r, sizeof(r));
    g_assert_false(btrail_unpacker_records(u, got, 1));

    btrail_unpacker_free(u);
    btrail_buf_free(&payload);
}

static int load(uint8_t *bytes, size_t len)
{
    /* Exactly this many bytes, so that no byte more is read */
    g_autofree uint8_t *copy = g_memdup2(bytes, len);
    struct btrail_unpacker *u = btrail_unpacker_new();
    struct btrail_record got[64];
    struct btrail_block_header h;
    int ret = -BTRAIL_ERR_CORRUPT;

    if (btrail_block_header_get(copy, len, &h)) {
        ret = btrail_unpacker_load(u, copy, len, &h, false);
        if (!ret && !btrail_unpacker_records(u, got,
                                             MIN(h.records, 64))) {
            ret = -BTRAIL_ERR_CORRUPT;
        }
    }
    btrail_unpacker_free(u);
    return ret;
}

static void seal(uint8_t *bytes)
{
    uint32_t crc = btrail_crc32c(0, bytes, 84);
    uint32_t roots = btrail_get32(bytes + 80);

    if (roots <= BTRAIL_CR3SET_MAX) {
        crc = btrail_crc32c(crc, bytes + BTRAIL_BLOCK_HEADER_SIZE, roots * 8);
    }
    btrail_put32(bytes + 84, crc);
}

static void test_cut(gconstpointer counts)
{
    struct btrail_record r[30];
    struct btrail_buf payload = { 0 };
    size_t len;

    make(&payload, r, counts);
    g_assert_cmpint(load(payload.data, payload.len), ==, 0);
    for (len = 0; len < payload.len; len++) {
        g_assert_cmpint(load(payload.data, len), ==, -BTRAIL_ERR_CORRUPT);
    }
    btrail_buf_append(&payload, "", 1);
    g_assert_cmpint(load(payload.data, payload.len), ==, -BTRAIL_ERR_CORRUPT);
    btrail_buf_free(&payload);
}

/* The header has a checksum of its own. */
static void test_damaged_header(gconstpointer counts)
{
    struct btrail_record r[30];
    struct btrail_buf payload = { 0 };
    unsigned i, bit;

    make(&payload, r, counts);
    for (i = 0; i < BTRAIL_BLOCK_HEADER_SIZE + BTRAIL_BLOCK_ROOT_SIZE; i++) {
        for (bit = 0; bit < 8; bit++) {
            payload.data[i] ^= 1 << bit;
            g_assert_cmpint(load(payload.data, payload.len), ==,
                            -BTRAIL_ERR_CORRUPT);
            payload.data[i] ^= 1 << bit;
        }
    }
    btrail_buf_free(&payload);
}

/* With right checksums: a hostile file */
static void test_hostile(gconstpointer counts)
{
    static const unsigned fields[] = { 0, 8, 16, 72, 76 };
    struct btrail_record r[30];
    struct btrail_buf payload = { 0 };
    unsigned i, bit;

    make(&payload, r, counts);
    for (i = 0; i < G_N_ELEMENTS(fields); i++) {
        unsigned offset = fields[i];
        uint64_t sound = btrail_get64(payload.data + offset);

        /* Of a vCPU that can be, it is as good as another. */
        btrail_put32(payload.data + offset, UINT32_MAX);
        seal(payload.data);
        g_assert_cmpint(load(payload.data, payload.len), ==,
                        -BTRAIL_ERR_CORRUPT);
        btrail_put64(payload.data + offset, sound);
    }
    /* Times and address spaces have to be those of the events. */
    for (i = 56; i < BTRAIL_BLOCK_HEADER_SIZE + 8; i++) {
        if (i >= 72 && i < BTRAIL_BLOCK_HEADER_SIZE) {
            continue;
        }
        payload.data[i] ^= 1;
        seal(payload.data);
        g_assert_cmpint(load(payload.data, payload.len), ==,
                        -BTRAIL_ERR_CORRUPT);
        payload.data[i] ^= 1;
    }
    for (i = 0; i < payload.len; i++) {
        for (bit = 0; bit < 8; bit++) {
            payload.data[i] ^= 1 << bit;
            seal(payload.data);
            load(payload.data, payload.len);
            payload.data[i] ^= 1 << bit;
        }
    }
    seal(payload.data);
    g_assert_cmpint(load(payload.data, payload.len), ==, 0);

    btrail_put32(payload.data + 4,
                 MORE + BTRAIL_CODEC_PATH_COUNTS + 1);
    seal(payload.data);
    g_assert_cmpint(load(payload.data, payload.len), ==,
                    -BTRAIL_ERR_VERSION);
    btrail_buf_free(&payload);
}

/* Switches to one address space more than a header can list */
static void test_many_switches(void)
{
    struct btrail_block *block = btrail_block_new();
    struct btrail_packer *packer = btrail_packer_new();
    struct btrail_buf payload = { 0 };
    uint32_t n, i;

    for (n = 0; n < BTRAIL_CR3SET_MAX + 3; n++) {
        struct btrail_block_header h;

        btrail_block_begin(block, 0, 0, 0x1000, &no_time);
        for (i = 1; i <= n; i++) {
            struct btrail_event e = {
                .type = BTRAIL_EVENT_CR3, .data = { 0x1000 + i * 0x1000 + 7 },
            };

            btrail_block_add_event(block, &e);
            btrail_block_add_event(block, &e);
        }
        btrail_packer_pack(packer, block, &payload);
        g_assert_cmpint(load(payload.data, payload.len), ==, 0);
        g_assert_true(btrail_block_header_get(payload.data,
                                              MIN(payload.len,
                                                  BTRAIL_BLOCK_START), &h));
        g_assert_cmpuint(h.switches.n, ==, n <= BTRAIL_CR3SET_MAX ? n :
                         BTRAIL_CR3SET_MANY);
        for (i = 0; i < btrail_cr3set_listed(h.switches.n); i++) {
            g_assert_cmphex(h.switches.roots[i], ==, 0x2000 + i * 0x1000);
        }
        /* A number that no header can have */
        btrail_put32(payload.data + 80, BTRAIL_CR3SET_MAX + 1);
        seal(payload.data);
        g_assert_cmpint(load(payload.data, payload.len), ==,
                        -BTRAIL_ERR_CORRUPT);
    }
    btrail_buf_free(&payload);
    btrail_packer_free(packer);
    btrail_block_free(block);
}

/* A payload of a few bytes cannot ask for much memory. */
static void test_bomb(gconstpointer counts)
{
    struct btrail_record r[30];
    struct btrail_buf payload = { 0 };
    unsigned section;

    make(&payload, r, counts);
    for (section = 0; section < BTRAIL_BLOCK_SECTIONS - !counts; section++) {
        uint8_t *raw = payload.data + BTRAIL_BLOCK_HEADER_SIZE +
                       BTRAIL_BLOCK_ROOT_SIZE + section * 8;
        uint32_t sound = btrail_get32(raw);

        btrail_put32(raw, 0x7fffffff);
        g_assert_cmpint(load(payload.data, payload.len), ==,
                        -BTRAIL_ERR_CORRUPT);
        btrail_put32(raw, sound);
    }
    g_assert_cmpint(load(payload.data, payload.len), ==, 0);
    btrail_buf_free(&payload);
}

/* Without instruction counts and with them */
static void add(const char *name, GTestDataFunc test)
{
    g_autofree char *plain = g_strdup_printf("/block/%s", name);
    g_autofree char *counts = g_strdup_printf("/block/%s/counts", name);

    g_test_add_data_func(plain, NULL, test);
    g_test_add_data_func(counts, &no_time, test);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add("round-trip", test_round_trip);
    add("cut", test_cut);
    add("damaged-header", test_damaged_header);
    add("hostile", test_hostile);
    g_test_add_func("/block/many-switches", test_many_switches);
    add("bomb", test_bomb);
    return g_test_run();
}
