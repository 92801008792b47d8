/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * CRC-32C: polynomial 0x1edc6f41, reflected, inverted before and after
 */

#include <glib.h>
#include <string.h>

#include "lib/agent/bytes.h"
#include "lib/internal/crc32c.h"

#define POLYNOMIAL  0x82f63b78u /* reflected */

static uint32_t table[256];

static void init_table(void)
{
    static gsize done;

    if (g_once_init_enter(&done)) {
        unsigned i, bit;

        for (i = 0; i < 256; i++) {
            uint32_t r = i;

            for (bit = 0; bit < 8; bit++) {
                r = r >> 1 ^ (r & 1 ? POLYNOMIAL : 0);
            }
            table[i] = r;
        }
        g_once_init_leave(&done, 1);
    }
}

uint32_t btrail_crc32c_portable(uint32_t crc, const void *data, size_t len)
{
    const uint8_t *p = data;

    init_table();
    crc = ~crc;
    while (len--) {
        crc = crc >> 8 ^ table[(crc ^ *p++) & 0xff];
    }
    return ~crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2")))
static uint32_t crc32c_sse42(uint32_t crc, const uint8_t *p, size_t len)
{
    uint64_t r = ~crc;

    for (; len >= 8; p += 8, len -= 8) {
        r = __builtin_ia32_crc32di(r, btrail_get64(p));
    }
    for (; len; p++, len--) {
        r = __builtin_ia32_crc32qi((uint32_t)r, *p);
    }
    return ~(uint32_t)r;
}
#endif

uint32_t btrail_crc32c(uint32_t crc, const void *data, size_t len)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2")) {
        return crc32c_sse42(crc, data, len);
    }
#endif
    return btrail_crc32c_portable(crc, data, len);
}
