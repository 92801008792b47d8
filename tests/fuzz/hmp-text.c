/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: what QEMU's human monitor prints
 *
 * The input is one text, which is taken for each of those that are understood.
 */

#include <glib.h>
#include <string.h>

#include "fuzz.h"
#include "monitor/hmp-text.h"

#define BYTES   16

int fuzz_input(const uint8_t *data, size_t size)
{
    g_autofree char *text = g_strndup((const char *)data, size);
    g_autoptr(GArray) ranges = hmp_parse_ranges(text, NULL);
    struct hmp_registers registers;
    uint8_t bytes[BYTES];
    uint64_t end = 0, host;

    for (guint i = 0; ranges && i < ranges->len; i++) {
        const struct hmp_range *r = &g_array_index(ranges, struct hmp_range,
                                                   i);

        fuzz_require(r->size && (!i || r->address >= end));
        end = r->address + r->size;
        /* Only the last one can end with the addresses. */
        fuzz_require(end > r->address || (!end && i + 1 == ranges->len));
    }
    if (ranges || hmp_parse_registers(text, &registers, NULL) ||
        hmp_parse_host_address(text, 0xa0000, &host, NULL) ||
        hmp_parse_bytes(text, 0xfffffff0, bytes, BYTES, NULL)) {
        fuzz_accepted();
    }
    return 0;
}
