/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CRC-32C: known values, and the portable code gives what the CPU gives.
 */

#include <glib.h>

#include "lib/internal/crc32c.h"

/* RFC 3720, B.4 */
static void test_known(void)
{
    uint8_t b[32];
    unsigned i;

    g_assert_cmphex(btrail_crc32c(0, "123456789", 9), ==, 0xe3069283);
    memset(b, 0, sizeof(b));
    g_assert_cmphex(btrail_crc32c(0, b, sizeof(b)), ==, 0x8a9136aa);
    memset(b, 0xff, sizeof(b));
    g_assert_cmphex(btrail_crc32c(0, b, sizeof(b)), ==, 0x62a8ab43);
    for (i = 0; i < sizeof(b); i++) {
        b[i] = i;
    }
    g_assert_cmphex(btrail_crc32c(0, b, sizeof(b)), ==, 0x46dd794e);
    g_assert_cmphex(btrail_crc32c(0, NULL, 0), ==, 0);
}

/* All lengths and alignments, in one piece and in two */
static void test_portable(void)
{
    uint8_t b[80];
    unsigned start, len, cut;

    for (start = 0; start < sizeof(b); start++) {
        b[start] = g_test_rand_int();
    }
    for (start = 0; start < 9; start++) {
        for (len = 0; len < sizeof(b) - start; len++) {
            uint32_t crc = btrail_crc32c_portable(0, b + start, len);

            g_assert_cmphex(btrail_crc32c(0, b + start, len), ==, crc);
            cut = len / 3;
            g_assert_cmphex(btrail_crc32c(btrail_crc32c(0, b + start, cut),
                                          b + start + cut, len - cut), ==,
                            crc);
        }
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/crc32c/known", test_known);
    g_test_add_func("/crc32c/portable", test_portable);
    return g_test_run();
}
