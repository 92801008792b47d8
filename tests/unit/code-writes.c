/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When code was written last, by hand-made streams and a fake guest's kernel
 */

#include <string.h>

#include "fake-linux.h"
#include "pt-samples.h"
#include "pt/code-writes.h"

#define CR3     0x5000
#define OTHER   (FAKE_STEXT + 0x500)
#define SLACK   (UINT64_C(1) << 22)
#define MOST    3

static struct linux_code_writers *writers;
static struct frozen_options options;
static GByteArray *bytes[MOST];
static struct frozen_stream streams[MOST];
static struct code_writes_count count;
static uint64_t after[MOST];

static void begin(void)
{
    options = (struct frozen_options){ .clock.hz = 1000000000, .threads = 2 };
    memset(streams, 0, sizeof(streams));
    for (unsigned i = 0; i < MOST; i++) {
        if (bytes[i]) {
            g_byte_array_unref(bytes[i]);
        }
        bytes[i] = g_byte_array_new();
    }
}

static void put_psb(unsigned i, uint64_t tsc, bool guest)
{
    GByteArray *s = bytes[i];

    pt_put(s, "02820282028202820282028202820282");
    if (tsc) {
        pt_put_tsc(s, tsc);
    }
    pt_put_pip(s, CR3, guest);
    pt_put_mode(s, PT_MODE_64);
    pt_put(s, "0223");
}

static void put_tip(unsigned i, uint64_t address)
{
    pt_put_ip(bytes[i], PT_TIP, 6, address);
    /* Padding, so that packets are read in each way */
    pt_put_tnt(bytes[i], "tntn");
    for (unsigned k = 0; k < 20; k++) {
        pt_put(bytes[i], "00");
    }
}

static void find_of(unsigned n, unsigned vcpus)
{
    for (unsigned i = 0; i < n; i++) {
        /* Cut in a packet */
        size_t at = bytes[i]->len / 2;

        streams[i].bytes[0] = bytes[i]->data;
        streams[i].size[0] = at;
        streams[i].bytes[1] = bytes[i]->data + at;
        streams[i].size[1] = bytes[i]->len - at;
    }
    code_writes_find(writers, &options, streams, n, vcpus, NULL, NULL, after,
                     &count);
}

static void find(unsigned n)
{
    find_of(n, n);
}

static void test_none(void)
{
    begin();
    put_psb(0, 1000, true);
    put_tip(0, OTHER);
    put_tip(0, FAKE_WRITER + 16);
    put_psb(0, 2000, true);
    find(1);
    g_assert_cmpuint(count.visits, ==, 0);
    g_assert_cmphex(after[0], ==, 0);
    find(0);
    begin();
    find(1);
    g_assert_cmphex(after[0], ==, 0);
}

/* The next time after it, of all streams */
static void test_last(void)
{
    begin();
    put_psb(0, 1000, true);
    put_psb(0, 9000, true);
    put_psb(1, 1000, true);
    put_tip(1, FAKE_WRITER + 1);
    put_psb(1, 2000, true);
    put_tip(1, FAKE_WRITER + 15);
    put_tip(1, OTHER);
    pt_put_tsc(bytes[1], 3000);
    put_tip(1, OTHER);
    put_psb(1, 4000, true);
    find(2);
    g_assert_cmpuint(count.visits, ==, 2);
    g_assert_cmpuint(count.lost, ==, 0);
    g_assert_cmpuint(after[0], ==, 3000 + SLACK);
    g_assert_cmpuint(after[1], ==, 3000 + SLACK);
    /* Each has a TSC of its own, modulo 2^56. */
    streams[0].tsc_ahead = 500;
    streams[1].tsc_ahead = -(uint64_t)100;
    find(2);
    g_assert_cmpuint(after[0], ==, 3100 + SLACK + 500);
    g_assert_cmpuint(after[1], ==, 3000 + SLACK);
    /* What other vCPUs have done is not known. */
    find_of(2, 3);
    g_assert_cmphex(after[0], ==, CODE_WRITES_NEVER);
    g_assert_cmphex(after[1], ==, CODE_WRITES_NEVER);
    /* Nor when it was for them, without a clock */
    options.clock.hz = 0;
    find(2);
    g_assert_cmphex(after[0], ==, CODE_WRITES_NEVER);
}

/* Each way in which an address is in a packet; and no time after it */
static void test_addresses(void)
{
    static const unsigned packets[] = { PT_TIP, PT_TIP_PGE, PT_FUP };

    for (unsigned i = 0; i < G_N_ELEMENTS(packets); i++) {
        begin();
        put_psb(0, 1000, true);
        pt_put_ip(bytes[0], PT_TIP, 6, OTHER);
        pt_put_ip(bytes[0], packets[i], 2, FAKE_WRITER & 0xffff);
        find(1);
        g_assert_cmpuint(count.visits, ==, 1);
        g_assert_cmphex(after[0], ==, CODE_WRITES_NEVER);
    }
    begin();
    pt_put_psb(bytes[0], PT_MODE_64, CR3, true, FAKE_WRITER);
    pt_put_tsc(bytes[0], 5);
    find(1);
    g_assert_cmpuint(count.visits, ==, 1);
    g_assert_cmphex(after[0], ==, 5 + SLACK);
}

/* The host's kernel can have other code at the same addresses. */
static void test_host(void)
{
    begin();
    put_psb(0, 1000, true);
    pt_put_pip(bytes[0], 0, false);
    put_tip(0, FAKE_WRITER);
    put_psb(0, 99000, false);
    put_tip(0, FAKE_WRITER);
    find(1);
    g_assert_cmpuint(count.visits, ==, 0);
    g_assert_cmphex(after[0], ==, 0);
    pt_put_pip(bytes[0], CR3, true);
    put_tip(0, FAKE_WRITER);
    pt_put_pip(bytes[0], 0, false);
    /* The host's time says nothing, until it is known what the guest's is. */
    pt_put_tsc(bytes[0], 99500);
    find(1);
    g_assert_cmpuint(count.visits, ==, 1);
    g_assert_cmphex(after[0], ==, CODE_WRITES_NEVER);
    streams[0].host_tsc = (struct kvm_tsc){
        .offset = -(uint64_t)90000, .ratio = 1,
    };
    find(1);
    g_assert_cmphex(after[0], ==, 9500 + SLACK);
}

/* What is missing can be anything. */
static void test_lost(void)
{
    static const char *const lost[] = {
        "02f3",                 /* OVF */
        "0282ff",               /* no packet */
        "01",                   /* TIP.PGD, of the guest */
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(lost); i++) {
        begin();
        put_psb(0, 1000, true);
        pt_put(bytes[0], lost[i]);
        put_psb(0, 2000, true);
        put_tip(0, OTHER);
        find(1);
        g_assert_cmpuint(count.visits, ==, 0);
        g_assert_cmpuint(count.lost, ==, 1);
        g_assert_cmpuint(after[0], ==, 2000 + SLACK);
    }
    /* No address is in a return that is compressed. */
    begin();
    put_psb(0, 1000, true);
    options.flow.returns = true;
    find(1);
    g_assert_cmphex(after[0], ==, CODE_WRITES_NEVER);
}

/* A ring that begins later has nothing of what was done before. */
static void test_begin(void)
{
    begin();
    for (unsigned i = 0; i < 3; i++) {
        put_psb(i, 1000 * (i + 1), true);
        streams[i].wrapped = i < 2;
    }
    find(3);
    g_assert_cmpuint(after[0], ==, 2000);
    g_assert_cmpuint(after[1], ==, 0);
    g_assert_cmpuint(after[2], ==, 0);
    /* If one has no time nothing is known. */
    begin();
    put_psb(0, 1000, true);
    put_psb(1, 0, true);
    streams[0].wrapped = streams[1].wrapped = true;
    find(2);
    g_assert_cmpuint(after[0] | after[1], ==, 0);
}

/* The greatest TSC that a packet can have */
static void test_greatest(void)
{
    begin();
    put_psb(0, 1000, true);
    put_tip(0, FAKE_WRITER);
    put_psb(0, CODE_WRITES_TSC - 1, true);
    find(1);
    g_assert_cmphex(after[0], ==, CODE_WRITES_NEVER);
}

static bool never(void *opaque)
{
    return false;
}

static void test_ended(void)
{
    begin();
    put_psb(0, 1000, true);
    find(1);
    code_writes_find(writers, &options, streams, 1, 1, never, NULL, after,
                     &count);
    g_assert_cmphex(after[0], ==, CODE_WRITES_NEVER);
}

int main(int argc, char **argv)
{
    struct guest_memory *m;
    struct fake_linux f;
    struct linux_kernel *k = fake_linux_begin(&f, 0, &m);
    int ret;

    writers = linux_code_writers_new(k);
    fake_linux_end(&f, m, k);
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/code-writes/none", test_none);
    g_test_add_func("/code-writes/last", test_last);
    g_test_add_func("/code-writes/addresses", test_addresses);
    g_test_add_func("/code-writes/host", test_host);
    g_test_add_func("/code-writes/lost", test_lost);
    g_test_add_func("/code-writes/begin", test_begin);
    g_test_add_func("/code-writes/greatest", test_greatest);
    g_test_add_func("/code-writes/ended", test_ended);
    ret = g_test_run();
    for (unsigned i = 0; i < MOST; i++) {
        g_byte_array_unref(bytes[i]);
    }
    linux_code_writers_free(writers);
    return ret;
}
