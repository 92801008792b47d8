/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Bytes of marks: see mark-samples.h
 */

#include <string.h>

#include "mark-samples.h"

size_t sample_mark(uint8_t *bytes, const char *name, bool has_value)
{
    static const uint8_t head[] = {
        0xeb, 0, 0x0f, 0x0b, 0x42, 0x74, 0x6d, 0x6b, 0x9a, 0xc5, 1, 0,
    };
    static const uint8_t value[] = {
        0x48, 0xd1, 0xe8, 0x77, 0xfb, 0x75, 0xf9, 0x72, 2, 0xeb, 0,
    };
    size_t size = sizeof(head) + strlen(name) + 1;

    memcpy(bytes, head, sizeof(head));
    memcpy(bytes + sizeof(head), name, strlen(name) + 1);
    bytes[1] = size - 2;
    bytes[11] = has_value;
    if (has_value) {
        memcpy(bytes + size, value, sizeof(value));
    }
    return size;
}

struct btrail_code_item sample_code_bytes(uint64_t number)
{
    return (struct btrail_code_item) {
        .type = BTRAIL_CODE_BYTES, .number = number,
    };
}

struct btrail_code_item sample_code_page(uint64_t index, uint64_t cr3,
                                         uint64_t linear, uint64_t number)
{
    return (struct btrail_code_item) {
        .type = BTRAIL_CODE_PAGE, .index = index, .cr3 = cr3,
        .linear = linear, .number = number,
    };
}
