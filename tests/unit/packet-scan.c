/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is found of a stream is what one finds who reads one packet after the
 * other: packets of any first two bytes, random ones, blocks, and bytes
 */

#include <string.h>

#include "pt-samples.h"
#include "pt/packet-scan.h"

/* So many bytes are read at several places. */
#define LONG    (40u << 10)

static void add(void *opaque, const struct pt_packet *p, uint64_t offset)
{
    GArray *numbers = opaque;
    const uint64_t all[] = { offset, p->type, p->size, p->form, p->value };

    g_array_append_vals(numbers, all, G_N_ELEMENTS(all));
}

/* One packet after the other, of a stream that is there as a whole */
static void read_all(const uint8_t *p, size_t n, GArray *found)
{
    bool in_step = false;
    unsigned items = 0;

    for (size_t i = 0; i < n;) {
        struct pt_packet packet;
        int size;

        if (!in_step) {
            i += pt_packet_find_psb(p + i, n - i);
            if (i == n) {
                break;
            }
        }
        size = pt_packet_read(p + i, n - i, items, &packet);
        if (!size) {
            break;
        }
        in_step = size > 0;
        if (!in_step || packet.type == PT_PACKET_PSB ||
            packet.type == PT_PACKET_BEP) {
            items = 0;
        } else if (packet.type == PT_PACKET_BBP) {
            items = packet.form;
        }
        if (in_step && (packet.type == PT_PACKET_PSB ||
                        packet.type == PT_PACKET_PIP)) {
            add(found, &packet, i);
        }
        i += MAX(size, 1);
    }
}

/* In pieces of up to @most bytes, each in memory of its own */
static uint64_t scan(const GByteArray *s, size_t most, GArray *found)
{
    struct packet_scan scan = { .in_step = false };

    for (size_t i = 0; i < s->len;) {
        size_t n = most > 1 ? g_test_rand_int_range(1, most) : 1;
        uint8_t *piece;

        n = MIN(n, s->len - i);
        piece = g_memdup2(s->data + i, n);
        packet_scan_feed(&scan, piece, n, add, found);
        g_free(piece);
        i += n;
    }
    g_assert_cmpuint(scan.offset + scan.split.n, ==, s->len);
    return scan.again;
}

/* Returns how often it was not guessed where packets begin.  @ways: to cut it
 * into pieces, 6 at most */
static uint64_t check(const GByteArray *s, unsigned ways)
{
    static const size_t pieces[] = { 1 << 30, 9000, 100000, 2000, 40, 1 };
    GArray *expected = g_array_new(FALSE, FALSE, 8);
    GArray *found = g_array_new(FALSE, FALSE, 8);
    uint64_t again = 0;

    read_all(s->data, s->len, expected);
    for (unsigned i = 0; i < ways; i++) {
        g_array_set_size(found, 0);
        again += scan(s, pieces[i], found);
        g_assert_cmpmem(found->data, found->len * 8, expected->data,
                        expected->len * 8);
    }
    g_array_free(expected, TRUE);
    g_array_free(found, TRUE);
    return again;
}

static void put_random(GByteArray *s, unsigned n)
{
    while (n--) {
        const uint8_t byte = g_test_rand_int();

        g_byte_array_append(s, &byte, 1);
    }
}

/* Each first and second byte, before zeros, ones, and any */
static void test_each(void)
{
    for (unsigned tail = 0; tail < 3; tail++) {
        g_autoptr(GByteArray) s = g_byte_array_new();

        for (unsigned i = 0; i < 1 << 16; i++) {
            const uint8_t two[] = { i & 0xff, i >> 8 };

            /* What one is not in step behind begins again here. */
            pt_put_psb(s, PT_MODE_64, 0x1000 * (i + 1), true, 0x401000);
            g_byte_array_append(s, two, 2);
            if (tail == 2) {
                put_random(s, 14);
            } else {
                pt_put(s, tail ? "ffff ffff ffff ffff ffff ffff ffff" :
                       "0000 0000 0000 0000 0000 0000 0000");
            }
            pt_put_pip(s, 0x1000 * (i + 2), false);
        }
        check(s, 2);
    }
}

/* A packet as streams have them; @wild: of all, also those that are none */
static void put_packet(GByteArray *s, unsigned wild)
{
    static const char *const others[] = {
        "02f3", "0283", "9901", "9902", "9921", "02c3 88 0102 0304 0506 0708",
        "0292 0102 0304", "02b2 0102 0304 0506 0708", "02e2", "d9 e0 81 3412",
        "0222 8012", "02a2 0102 0304 05", "0263 04", "0263 81", "0233",
        "0213 81 20", "0253 01 0102 0304 0506 0708", "ff ff 02", "3f 03 02",
        "02c2 2000 0000 0100 0000", "02c8 0100 0000 01", "0000 0000 0000 00",
        /* No packets */
        "ad", "0200", "9903", "02a3 0000 0000 0000", "07 0101 0101 0101 0101",
        "0282", "0282 0282 0282 0282",
    };
    static const unsigned ips[] = { PT_TIP, PT_TIP, PT_TIP, PT_FUP, PT_TIP_PGE,
                                    PT_TIP_PGD };
    static const unsigned bytes[] = { 0, 2, 2, 4, 6, 6, 8 };
    const uint64_t ip = g_test_rand_int_range(0, 3) ?
        UINT64_C(0xffffffff81000000) + g_test_rand_int_range(0, 1 << 24) :
        UINT64_C(0x7f0000000000) + (uint32_t)g_test_rand_int();
    uint8_t byte = g_test_rand_int_range(2, 128) * 2;

    if (wild && !g_test_rand_int_range(0, wild)) {
        pt_put(s, others[g_test_rand_int_range(0, G_N_ELEMENTS(others))]);
        return;
    }
    switch (g_test_rand_int_range(0, 40)) {
    case 0:
        pt_put_psb(s, PT_MODE_64, 0x5000, g_test_rand_bit(), ip);
        break;
    case 1:
        pt_put_pip(s, ip & 0xfff000, g_test_rand_bit());
        break;
    case 2:
        pt_put_tsc(s, ip);
        break;
    case 3:
        pt_put_tnt(s, "tntntntntntntntntnt");
        break;
    case 4:
        pt_put(s, "5937 a3 ff 02");             /* MTC, CYC, CYC */
        break;
    case 5:
        pt_put(s, "0273 3412 00 0500 0203 1e00"); /* TMA, CBR */
        break;
    default:
        if (g_test_rand_bit()) {
            g_byte_array_append(s, &byte, 1);
        } else {
            pt_put_ip(s, ips[g_test_rand_int_range(0, G_N_ELEMENTS(ips))],
                      bytes[g_test_rand_int_range(0, G_N_ELEMENTS(bytes))],
                      ip);
        }
        break;
    }
}

/* Streams as they are, and such of which more and more is none */
static void test_random(void)
{
    for (unsigned round = 0; round < 24; round++) {
        g_autoptr(GByteArray) s = g_byte_array_new();
        unsigned wild = round % 6 ? 1u << (12 - 2 * (round % 6)) : 0;

        pt_put_psb(s, PT_MODE_64, 0x5000, true, 0x401000);
        while (s->len < LONG * 2) {
            put_packet(s, wild);
        }
        check(s, 6);
    }
}

/* Bytes, of which few are packets */
static void test_bytes(void)
{
    g_autoptr(GByteArray) s = g_byte_array_new();

    for (unsigned i = 0; i < 200; i++) {
        pt_put_psb(s, PT_MODE_64, 0x5000, true, 0);
        put_random(s, g_test_rand_int_range(0, 4000));
    }
    check(s, 6);
}

/* Items of a block look like other packets. */
static void test_blocks(void)
{
    g_autoptr(GByteArray) s = g_byte_array_new();

    pt_put_psb(s, PT_MODE_64, 0x5000, true, 0x401000);
    for (unsigned i = 0; i < 3000; i++) {
        put_packet(s, 0);
        if (i % 100 == 0) {
            pt_put(s, "0263 04");               /* of 8 bytes */
            for (unsigned j = 0; j < i / 10; j++) {
                pt_put(s, "0c 0243 0300 0000 0080");    /* such as a PIP */
            }
            pt_put(s, i % 200 ? "0233" : "02b3");
        }
    }
    check(s, 6);
}

/* More than is kept of a lane */
static void test_many(void)
{
    g_autoptr(GByteArray) s = g_byte_array_new();

    pt_put_psb(s, PT_MODE_64, 0x5000, true, 0x401000);
    while (s->len < LONG * 3) {
        pt_put_pip(s, s->len << 12, true);
    }
    check(s, 6);
}

/*
 * Addresses whose bytes are packets, too: whoever begins at a wrong byte goes
 * on with wrong ones.
 */
static void test_wrong(void)
{
    g_autoptr(GByteArray) s = g_byte_array_new();
    g_autoptr(GByteArray) zeros = g_byte_array_new();

    pt_put_psb(s, PT_MODE_64, 0x5000, true, 0x401000);
    pt_put_psb(zeros, PT_MODE_64, 0x5000, true, 0x401000);
    while (s->len < LONG * 3) {
        for (unsigned i = 0; i < 1000; i++) {
            pt_put(s, "2d 3d06");            /* 3d 062d */
            pt_put(zeros, "0000");
        }
        pt_put_pip(s, 0x7000, true);
        pt_put_pip(zeros, 0x7000, true);
    }
    g_assert_cmpuint(check(s, 6), >, 0);
    check(zeros, 6);
}

/* Where bytes are missing it is not in step, whatever it was in. */
static void test_missing(void)
{
    static const char *const before[] = { "06", "02", "0263 04", "4d 0102" };

    for (unsigned i = 0; i < G_N_ELEMENTS(before); i++) {
        g_autoptr(GByteArray) s = g_byte_array_new();
        GArray *found = g_array_new(FALSE, FALSE, 8);
        struct packet_scan scan = { .in_step = false };

        pt_put_psb(s, PT_MODE_64, 0x5000, true, 0x401000);
        pt_put(s, before[i]);
        packet_scan_feed(&scan, s->data, s->len, add, found);
        g_array_set_size(found, 0);
        packet_scan_missing(&scan, 1000);
        g_byte_array_set_size(s, 0);
        pt_put_pip(s, 0x6000, true);
        pt_put(s, "0c 0243 0300 0000 0080");
        pt_put_psb(s, PT_MODE_64, 0x7000, true, 0x401000);
        packet_scan_feed(&scan, s->data, s->len, add, found);
        g_assert_cmpuint(found->len, ==, 10);
        g_assert_cmpuint(g_array_index(found, uint64_t, 0), ==, 1017);
        g_assert_cmpuint(g_array_index(found, uint64_t, 5), ==, 1035);
        g_assert_cmphex(g_array_index(found, uint64_t, 9), ==, 0x7000);
        g_array_free(found, TRUE);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/packet-scan/each", test_each);
    g_test_add_func("/packet-scan/random", test_random);
    g_test_add_func("/packet-scan/bytes", test_bytes);
    g_test_add_func("/packet-scan/blocks", test_blocks);
    g_test_add_func("/packet-scan/many", test_many);
    g_test_add_func("/packet-scan/wrong", test_wrong);
    g_test_add_func("/packet-scan/missing", test_missing);
    return g_test_run();
}
