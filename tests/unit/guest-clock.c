/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The time of a guest: TSC, and what leads from one to the next
 */

#include "pt/guest-clock.h"

#include <glib.h>

static void feed(struct guest_clock *c, enum pt_packet_type type,
                 uint64_t value, uint64_t more, bool guest)
{
    struct pt_packet p = { .type = type, .value = value, .more = more };

    guest_clock_read(c, &p, guest, !guest);
}

static void test_tsc(void)
{
    struct guest_clock c = { 0 };

    feed(&c, PT_PACKET_TSC, 1000, 0, true);
    g_assert_cmpuint(c.now, ==, 1000);
    /* The host's has another offset. */
    feed(&c, PT_PACKET_TSC, 99000, 0, false);
    g_assert_cmpuint(c.now, ==, 1000);
    /* What it has no frequencies for says nothing. */
    feed(&c, PT_PACKET_MTC, 9, 0, true);
    feed(&c, PT_PACKET_CYC, 9, 0, true);
    g_assert_cmpuint(c.now, ==, 1000);
}

/* What is made of the host's TSC is known. */
static void test_host(void)
{
    struct guest_clock c = { .host = { -UINT64_C(5000), 3, 1 } };
    struct pt_packet p = { .type = PT_PACKET_TSC, .value = 70000 };

    feed(&c, PT_PACKET_TSC, 20000, 0, false);
    g_assert_true(c.known);
    g_assert_cmpuint(c.now, ==, 25000);
    feed(&c, PT_PACKET_TSC, 26000, 0, true);
    g_assert_cmpuint(c.now, ==, 26000);
    /* Whose it is is not known. */
    guest_clock_read(&c, &p, false, false);
    g_assert_cmpuint(c.now, ==, 26000);
    guest_clock_lose(&c);
    guest_clock_read(&c, &p, false, false);
    g_assert_false(c.known);
    /* Packets have 56 bits of it. */
    feed(&c, PT_PACKET_TSC, 1000, 0, false);
    g_assert_cmphex(c.now, ==, UINT64_MAX / 256 - 3499);
}

/* CTC counts for both. */
static void test_host_mtc(void)
{
    struct guest_clock c = { .tsc_per_ctc = { 7, 2 }, .mtc_shift = 3,
                             .host = { .offset = -UINT64_C(900000),
                                       .ratio = 1 } };

    feed(&c, PT_PACKET_TSC, 1000000, 0, false);
    feed(&c, PT_PACKET_TMA, 0x1230, 5, false);
    feed(&c, PT_PACKET_MTC, 0x1238 >> 3, 0, true);
    g_assert_cmpuint(c.now, ==, 100000 - 5 + 8 * 7 / 2);
}

/* TSC has 7 ticks for 2 of the CTC, and MTC comes for each 8 of those. */
static void test_mtc(void)
{
    struct guest_clock c = { .tsc_per_ctc = { 7, 2 }, .mtc_shift = 3 };

    feed(&c, PT_PACKET_TSC, 100000, 0, true);
    /* The CTC was at 0x1230 5 TSC ticks ago. */
    feed(&c, PT_PACKET_TMA, 0x1230, 5, true);
    feed(&c, PT_PACKET_MTC, 0x1238 >> 3 & 0xff, 0, true);
    g_assert_cmpuint(c.now, ==, 100000 - 5 + 8 * 7 / 2);
    /* In the host, time passes for the guest, too; its TSC says nothing. */
    feed(&c, PT_PACKET_TSC, 5, 0, false);
    feed(&c, PT_PACKET_TMA, 0x1242, 3, false);
    feed(&c, PT_PACKET_MTC, 0x1248 >> 3 & 0xff, 0, false);
    g_assert_cmpuint(c.now, >=, 100000 - 5 + 8 * 7 / 2);
    /* One MTC behind another, through all 8 bits and on */
    for (unsigned i = 2; i < 1000; i++) {
        struct guest_clock before = c;

        feed(&c, PT_PACKET_MTC, (0x1240 + 8 * i) >> 3 & 0xff, 0, true);
        g_assert_cmpuint(c.now, ==, before.now + 8 * 7 / 2);
    }
    /* If packets are missing, they are not counted. */
    guest_clock_lose(&c);
    {
        uint64_t now = c.now;

        g_assert_false(c.known);
        feed(&c, PT_PACKET_MTC, 3, 0, true);
        g_assert_cmpuint(c.now, ==, now);
        c.bus_ratio = c.ratio = 9;
        feed(&c, PT_PACKET_CYC, 3, 0, true);
        g_assert_cmpuint(c.now, ==, now);
        feed(&c, PT_PACKET_TSC, now + 9, 0, true);
        g_assert_true(c.known);
    }
}

static void test_cyc(void)
{
    struct guest_clock c = { .bus_ratio = 20 };

    feed(&c, PT_PACKET_TSC, 1000, 0, true);
    feed(&c, PT_PACKET_CBR, 10, 0, true);
    /* At half the speed */
    feed(&c, PT_PACKET_CYC, 50, 0, true);
    g_assert_cmpuint(c.now, ==, 1100);
    feed(&c, PT_PACKET_CBR, 40, 0, true);
    feed(&c, PT_PACKET_CYC, 50, 0, true);
    g_assert_cmpuint(c.now, ==, 1125);
    /* What cannot be */
    feed(&c, PT_PACKET_CYC, UINT64_MAX, 0, true);
    g_assert_cmpuint(c.now, ==, 1125);
}

/* The CPU has slept for longer than an MTC has room for. */
static void test_sleep(void)
{
    struct guest_clock c = {
        .tsc_per_ctc = { 10, 1 }, .mtc_shift = 0, .bus_ratio = 1, .ratio = 1,
    };

    feed(&c, PT_PACKET_TSC, 5000, 0, true);
    feed(&c, PT_PACKET_TMA, 500, 0, true);
    feed(&c, PT_PACKET_CYC, 100000, 0, true);
    g_assert_cmpuint(c.now, ==, 105000);
    /* A CTC of 10501: a bit later */
    feed(&c, PT_PACKET_MTC, 10501 & 0xff, 0, true);
    g_assert_cmpuint(c.now, ==, 105010);
    feed(&c, PT_PACKET_MTC, 10502 & 0xff, 0, true);
    g_assert_cmpuint(c.now, ==, 105020);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/guest-clock/tsc", test_tsc);
    g_test_add_func("/guest-clock/host", test_host);
    g_test_add_func("/guest-clock/host-mtc", test_host_mtc);
    g_test_add_func("/guest-clock/mtc", test_mtc);
    g_test_add_func("/guest-clock/cyc", test_cyc);
    g_test_add_func("/guest-clock/sleep", test_sleep);
    return g_test_run();
}
