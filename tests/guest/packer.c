/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * packer: compresses and unpacks a buffer (LZ77 with a hash table): short
 * loops whose branches depend on data
 */

#include <stdlib.h>
#include <string.h>

#include "workload.h"

#define SIZE        (192 * 1024)
#define HASH_BITS   12
#define MIN_MATCH   4
#define MAX_MATCH   (MIN_MATCH + 127)

static uint8_t plain[SIZE], packed[SIZE * 2], unpacked[SIZE];

static void make_text(uint64_t seed)
{
    static const char *const words[] = {
        "branch", "trace", "guest", "record", "slab", "host", "vcpu", "the",
        "a", "of", "and", "taken", "from", "to", "page", "fault",
    };
    uint64_t state = seed * 2 + 1;
    size_t at = 0;

    while (at < SIZE) {
        const char *word = words[workload_random(&state) % 16];
        size_t len = strlen(word);

        if (len > SIZE - at) {
            len = SIZE - at;
        }
        memcpy(plain + at, word, len);
        at += len;
        if (at < SIZE) {
            plain[at++] = ' ';
        }
    }
}

static uint32_t hash(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return v * 2654435761u >> (32 - HASH_BITS);
}

/* Literals are 0, byte; matches 0x80 | length - MIN_MATCH, distance. */
static size_t pack(void)
{
    static int32_t head[1 << HASH_BITS];
    size_t in = 0, out = 0;

    memset(head, 0xff, sizeof(head));
    while (in < SIZE) {
        size_t len = 0;
        int32_t match = -1;

        if (in + MIN_MATCH <= SIZE) {
            uint32_t h = hash(plain + in);

            match = head[h];
            head[h] = in;
        }
        if (match >= 0 && in - match < 65536) {
            while (in + len < SIZE && len < MAX_MATCH &&
                   plain[match + len] == plain[in + len]) {
                len++;
            }
        }
        if (len >= MIN_MATCH) {
            packed[out++] = 0x80 | (len - MIN_MATCH);
            packed[out++] = (in - match) & 0xff;
            packed[out++] = (in - match) >> 8;
            in += len;
        } else {
            packed[out++] = 0;
            packed[out++] = plain[in++];
        }
    }
    return out;
}

static size_t unpack(size_t len)
{
    size_t in = 0, out = 0;

    while (in < len) {
        uint8_t tag = packed[in++];

        if (tag & 0x80) {
            size_t count = (tag & 0x7f) + MIN_MATCH;
            size_t distance = packed[in] | packed[in + 1] << 8;

            in += 2;
            while (count--) {
                unpacked[out] = unpacked[out - distance];
                out++;
            }
        } else {
            unpacked[out++] = packed[in++];
        }
    }
    return out;
}

int main(int argc, char **argv)
{
    struct workload w;

    workload_begin(&w, "packer", argc, argv);
    do {
        size_t len;

        make_text(w.rounds);
        len = pack();
        if (unpack(len) != SIZE || memcmp(plain, unpacked, SIZE) != 0) {
            workload_print("BT: error comm=packer\n");
            return 1;
        }
        workload_add(&w, len);
    } while (workload_next(&w));
    return workload_end(&w);
}
