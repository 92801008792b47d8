/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Packets of Intel PT: each of the SDM's, and what is none
 */

#include <string.h>

#include "pt-samples.h"
#include "pt/packets.h"

/* What a packet says: TYPE SIZE FORM VALUE MORE, and + if FUP follows */
static char *text_of(const uint8_t *p, size_t n, unsigned items)
{
    struct pt_packet packet;
    int size = pt_packet_read(p, n, items, &packet);

    if (size <= 0) {
        return g_strdup(size ? "unknown" : "more");
    }
    g_assert_cmpint(size, ==, packet.size);
    return g_strdup_printf("%s %d %u %" G_GINT64_MODIFIER "x %"
                           G_GINT64_MODIFIER "x%s",
                           pt_packet_name(packet.type), size, packet.form,
                           packet.value, packet.more, packet.ip ? " +" : "");
}

/* The packet is only read when all of it is there, and ends where it does. */
static void check(const char *hex, unsigned items, const char *expected)
{
    g_autoptr(GByteArray) s = g_byte_array_new();
    size_t size;
    char *text;

    pt_put(s, hex);
    size = s->len;
    text = text_of(s->data, size, items);
    g_assert_cmpstr(text, ==, expected);
    g_free(text);
    pt_put(s, "ff ff 02");
    text = text_of(s->data, s->len, items);
    g_assert_cmpstr(text, ==, expected);
    g_free(text);
    for (size_t n = 0; n < size && strcmp(expected, "unknown"); n++) {
        /* In memory of its own: a sanitizer sees what is read behind it. */
        uint8_t *part = g_memdup2(s->data, n);

        text = text_of(part, n, items);
        g_assert_cmpstr(text, ==, "more");
        g_free(text);
        g_free(part);
    }
}

static void test_each(void)
{
    check("00", 0, "PAD 1 0 0 0");
    /* A stop bit, and behind it the oldest branch */
    check("06", 0, "TNT 1 1 1 0");
    check("04", 0, "TNT 1 1 0 0");
    check("fe", 0, "TNT 1 6 3f 0");
    check("02a3 0100 0000 0080", 0, "TNT 8 47 1 0");
    check("02a3 0d00 0000 0000", 0, "TNT 8 3 5 0");
    check("0d", 0, "TIP 1 0 0 0");
    check("2d 3412", 0, "TIP 3 1 1234 0");
    check("4d 7856 3412", 0, "TIP 5 2 12345678 0");
    check("6d 0010 0000 ffff", 0, "TIP 7 3 ffff00001000 0");
    check("8d 0010 0000 ffff", 0, "TIP 7 4 ffff00001000 0");
    check("cd 8877 6655 4433 2211", 0, "TIP 9 6 1122334455667788 0");
    check("31 3412", 0, "TIP.PGE 3 1 1234 0");
    check("01", 0, "TIP.PGD 1 0 0 0");
    check("3d 3412", 0, "FUP 3 1 1234 0");
    check("0243 0300 0000 0080", 0, "PIP 8 1 8000000000020 0");
    check("9901", 0, "MODE.Exec 2 64 1 0");
    check("9902", 0, "MODE.Exec 2 32 2 0");
    check("9900", 0, "MODE.Exec 2 16 0 0");
    check("9923", 0, "MODE.TSX 2 0 3 0");
    check("0282 0282 0282 0282 0282 0282 0282 0282", 0, "PSB 16 0 0 0");
    check("0223", 0, "PSBEND 2 0 0 0");
    check("19 0102 0304 0506 07", 0, "TSC 8 0 7060504030201 0");
    check("59 a5", 0, "MTC 2 0 a5 0");
    check("0273 3412 00 ff 01", 0, "TMA 7 0 1234 1ff");
    check("fb", 0, "CYC 1 0 1f 0");
    check("ff 03 02", 0, "CYC 3 0 103f 0");
    check("0203 2a 00", 0, "CBR 4 0 2a 0");
    check("02c8 0100 0000 01", 0, "VMCS 7 0 100000001000 0");
    check("02f3", 0, "OVF 2 0 0 0");
    check("0283", 0, "TraceStop 2 0 0 0");
    check("02c3 88 0102 0304 0506 0708", 0, "MNT 11 0 807060504030201 0");
    check("0212 0102 0304", 0, "PTW 6 0 4030201 0");
    check("0292 0102 0304", 0, "PTW 6 0 4030201 0 +");
    check("02b2 0102 0304 0506 0708", 0, "PTW 10 0 807060504030201 0 +");
    check("0262", 0, "EXSTOP 2 0 0 0");
    check("02e2", 0, "EXSTOP 2 0 0 0 +");
    check("02c2 2000 0000 0100 0000", 0, "MWAIT 10 0 100000020 0");
    check("0222 8012", 0, "PWRE 4 0 1280 0");
    check("02a2 0102 0304 05", 0, "PWRX 7 0 504030201 0");
    check("0263 81", 0, "BBP 3 4 1 0");
    check("0263 04", 0, "BBP 3 8 4 0");
    check("0c 0102 0304", 4, "BIP 5 1 4030201 0");
    check("0c 0102 0304 0506 0708", 8, "BIP 9 1 807060504030201 0");
    /* Outside of a block, that is a TNT */
    check("0c", 0, "TNT 1 2 2 0");
    check("0233", 4, "BEP 2 0 0 0");
    check("02b3", 4, "BEP 2 0 0 0 +");
    check("0213 81 20", 0, "CFE 4 0 2001 0 +");
    check("0253 01 0102 0304 0506 0708", 0, "EVD 11 1 807060504030201 0");
    /* As libipt 2.2 encodes them */
    check("d9 20 05", 0, "TRIG 3 0 5 0");
    check("d9 80 81", 0, "TRIG 3 0 81 0 +");
    check("d9 60 05 2100", 0, "TRIG 5 0 5 21");
    check("d9 e0 81 3412", 0, "TRIG 5 0 81 1234 +");
}

static void test_unknown(void)
{
    check("ad", 0, "unknown");              /* a reserved form of an address */
    check("ed", 0, "unknown");
    check("05", 0, "unknown");
    check("0200", 0, "unknown");
    check("0282 0282 0282 0282 0282 0282 0282 0283", 0, "unknown");
    check("02a3 0000 0000 0000", 0, "unknown");     /* no stop bit */
    check("02c3 89 0102 0304 0506 0708", 0, "unknown");
    check("9903", 0, "unknown");
    check("9940", 0, "unknown");
    /* More bits than a counter has */
    check("07 0101 0101 0101 0101 0101 0101", 0, "unknown");
}

static void test_ip(void)
{
    static const struct {
        uint8_t form;
        uint64_t value, ip;
    } steps[] = {
        { 6, 0x1122334455667788, 0x1122334455667788 },
        { 1, 0xaaaa, 0x112233445566aaaa },
        { 2, 0xbbbbcccc, 0x11223344bbbbcccc },
        { 4, 0x010203040506, 0x1122010203040506 },
        { 3, 0x800000000001, 0xffff800000000001 },
        { 3, 0x7fffffffffff, 0x00007fffffffffff },
    };
    uint64_t last = 0;
    struct pt_packet packet = { 0 };

    for (unsigned i = 0; i < G_N_ELEMENTS(steps); i++) {
        packet.form = steps[i].form;
        packet.value = steps[i].value;
        g_assert_true(pt_packet_ip(&packet, &last));
        g_assert_cmphex(last, ==, steps[i].ip);
    }
    packet.form = 0;
    g_assert_false(pt_packet_ip(&packet, &last));
    g_assert_cmphex(last, ==, 0x00007fffffffffff);
}

/* A PSB anywhere, also behind what looks like the middle of one */
static void test_psb(void)
{
    static const uint8_t psb[] = {
        2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
    };
    uint8_t bytes[100];

    for (unsigned fill = 0; fill < 3; fill++) {
        for (unsigned at = 0; at + 16 <= sizeof(bytes); at++) {
            memset(bytes, fill == 1 ? 0x82 : 0, sizeof(bytes));
            if (fill == 2) {
                for (unsigned i = MAX(at, 15) - 15; i < at; i++) {
                    bytes[i] = (at - i) % 2 ? 0x02 : 0x82;
                }
            }
            memcpy(bytes + at, psb, 16);
            g_assert_cmpuint(pt_packet_find_psb(bytes, at + 16), ==, at);
            g_assert_cmpuint(pt_packet_find_psb(bytes, sizeof(bytes)), ==, at);
            /* If a byte is missing it is none. */
            g_assert_cmpuint(pt_packet_find_psb(bytes, at + 15), ==, at + 15);
            g_assert_cmpuint(pt_packet_seek_psb(bytes, at + 16), ==, at);
            /* All of those that are there wait for it. */
            g_assert_cmpuint(pt_packet_seek_psb(bytes, at + 15), ==, at);
        }
    }
}

/* Packets that are read, by their sizes */
static size_t read_some(void *opaque, const uint8_t *p, size_t n)
{
    GString *sizes = opaque;
    struct pt_packet packet;
    size_t i = 0;
    int size;

    while ((size = pt_packet_read(p + i, n - i, 0, &packet)) > 0) {
        g_string_append_printf(sizes, "%s ", pt_packet_name(packet.type));
        i += size;
    }
    g_assert_cmpint(size, ==, 0);
    return i;
}

static void test_split(void)
{
    g_autoptr(GByteArray) s = g_byte_array_new();
    g_autoptr(GString) whole = g_string_new(NULL);
    struct pt_split split = { 0 };

    for (unsigned i = 0; i < 5; i++) {
        pt_put_psb(s, PT_MODE_64, 0x1000, true, 0x401000);
        pt_put_tsc(s, 5);
        pt_put_tnt(s, "tntntnt");
        pt_put_tnt(s, "t");
        pt_put_ip(s, PT_TIP, 8, 77);
    }
    pt_split_feed(&split, s->data, s->len, read_some, whole);
    g_assert_cmpuint(split.n, ==, 0);
    g_assert_true(g_str_has_prefix(whole->str, "PSB MODE.Exec PIP FUP PSBEND "
                                               "TSC TNT TNT TIP PSB "));
    for (size_t step = 1; step < 70; step++) {
        g_autoptr(GString) parts = g_string_new(NULL);

        for (size_t i = 0; i < s->len; i += step) {
            size_t n = MIN(step, s->len - i);
            uint8_t *part = g_memdup2(s->data + i, n);

            pt_split_feed(&split, part, n, read_some, parts);
            g_free(part);
        }
        g_assert_cmpuint(split.n, ==, 0);
        g_assert_cmpstr(parts->str, ==, whole->str);
    }
}

static void test_names(void)
{
    for (unsigned i = 0; i < PT_PACKET_TYPES; i++) {
        g_assert_nonnull(pt_packet_name(i));
    }
    g_assert_cmpstr(pt_packet_name(PT_PACKET_TYPES), ==, "unknown");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/packets/each", test_each);
    g_test_add_func("/packets/unknown", test_unknown);
    g_test_add_func("/packets/ip", test_ip);
    g_test_add_func("/packets/psb", test_psb);
    g_test_add_func("/packets/split", test_split);
    g_test_add_func("/packets/names", test_names);
    return g_test_run();
}
