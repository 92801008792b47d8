/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Numbers as bytes, varints and growing buffers, also where bytes are hostile.
 */

#include "lib/agent/bytes.h"

static const uint64_t values[] = {
    0, 1, 0x7f, 0x80, 0x3fff, 0x4000, 0xffffffff, 0x100000000,
    INT64_MAX, 1ull << 63, UINT64_MAX - 1, UINT64_MAX,
};

static void test_fixed(void)
{
    uint8_t b[8];

    btrail_put64(b, 0x0102030405060708ull);
    g_assert_cmpint(b[0], ==, 8);
    g_assert_cmpint(b[7], ==, 1);
    g_assert_cmphex(btrail_get64(b), ==, 0x0102030405060708ull);
    g_assert_cmphex(btrail_get32(b), ==, 0x05060708);
    g_assert_cmphex(btrail_get16(b), ==, 0x0708);
    btrail_put32(b, 0x11223344);
    btrail_put16(b + 4, 0x5566);
    g_assert_cmphex(btrail_get64(b), ==, 0x0102556611223344ull);
}

static void test_varint(void)
{
    uint8_t b[BTRAIL_VARINT_MAX];
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(values); i++) {
        const uint8_t *end = btrail_put_varint(b, values[i]), *p;
        uint64_t v = 0;

        g_assert_cmpint(end - b, <=, BTRAIL_VARINT_MAX);
        g_assert_true(btrail_get_varint(b, end, &v) == end);
        g_assert_cmphex(v, ==, values[i]);
        /* Every piece of it is an error, and nothing after it is read. */
        for (p = b; p < end; p++) {
            g_assert_null(btrail_get_varint(b, p, &v));
        }
    }
}

static void test_varint_hostile(void)
{
    static const uint8_t endless[] = {
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0,
    };
    static const uint8_t large[] = {
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02,
    };
    uint64_t v;

    g_assert_null(btrail_get_varint(endless, endless + sizeof(endless), &v));
    g_assert_null(btrail_get_varint(large, large + sizeof(large), &v));
}

static void test_zigzag(void)
{
    unsigned i;

    g_assert_cmphex(btrail_zigzag(0), ==, 0);
    g_assert_cmphex(btrail_zigzag(-1), ==, 1);
    g_assert_cmphex(btrail_zigzag(1), ==, 2);
    g_assert_cmphex(btrail_zigzag(-2), ==, 3);
    for (i = 0; i < G_N_ELEMENTS(values); i++) {
        g_assert_cmphex(btrail_unzigzag(btrail_zigzag(values[i])), ==,
                        values[i]);
    }
}

static void test_buf(void)
{
    struct btrail_buf buf = { 0 };
    unsigned i;

    for (i = 0; i < 1000; i++) {
        btrail_buf_append_varint(&buf, i);
    }
    g_assert_cmpint(buf.len, ==, 128 + 2 * 872);
    btrail_buf_append(&buf, "abc", 3);
    btrail_buf_append(&buf, NULL, 0);
    g_assert_cmpmem(buf.data + buf.len - 3, 3, "abc", 3);
    btrail_buf_free(&buf);
    g_assert_null(buf.data);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/bytes/fixed", test_fixed);
    g_test_add_func("/bytes/varint", test_varint);
    g_test_add_func("/bytes/varint/hostile", test_varint_hostile);
    g_test_add_func("/bytes/zigzag", test_zigzag);
    g_test_add_func("/bytes/buf", test_buf);
    return g_test_run();
}
