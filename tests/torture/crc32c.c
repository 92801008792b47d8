/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CRC-32C for the torture's generator, which makes many of them: the same as
 * crc32c() of tests/lib/traceformat.py, which takes most of its time otherwise.
 * The reader of traces that results are compared with does not use it.
 */

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const uint8_t *data, size_t size);

uint32_t crc32c(const uint8_t *data, size_t size)
{
    static uint32_t table[256];
    uint32_t crc = UINT32_MAX;

    if (!table[1]) {
        for (unsigned i = 0; i < 256; i++) {
            uint32_t v = i;

            for (unsigned bit = 0; bit < 8; bit++) {
                v = v >> 1 ^ (v & 1 ? UINT32_C(0x82f63b78) : 0);
            }
            table[i] = v;
        }
    }
    for (size_t i = 0; i < size; i++) {
        crc = crc >> 8 ^ table[(crc ^ data[i]) & 0xff];
    }
    return ~crc;
}
