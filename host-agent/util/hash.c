/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Hashes: see hash.h
 */

#include <sys/random.h>

#include "util/hash.h"

uint64_t btrail_hash_seeds[3];

static __attribute__((constructor)) void choose_seeds(void)
{
    if (getrandom(btrail_hash_seeds, sizeof(btrail_hash_seeds),
                  GRND_NONBLOCK) != sizeof(btrail_hash_seeds)) {
        /* Early at boot: where the stack is differs, too. */
        btrail_hash_seeds[0] = (uintptr_t)&btrail_hash_seeds;
        btrail_hash_seeds[1] = (uintptr_t)__builtin_frame_address(0);
        btrail_hash_seeds[2] = g_get_real_time();
    }
}

uint64_t btrail_hash_bytes(const void *data, size_t size)
{
    const uint8_t *p = data;
    uint64_t hash = btrail_hash(size), word;

    for (; size; p += MIN(size, 8), size -= MIN(size, 8)) {
        word = 0;
        memcpy(&word, p, MIN(size, 8));
        hash = btrail_hash2(hash, word);
        hash ^= hash >> 32;
    }
    return btrail_hash(hash);
}

guint btrail_int64_hash(gconstpointer number)
{
    uint64_t value;

    memcpy(&value, number, sizeof(value));
    return btrail_hash(value) >> 32;
}

guint btrail_str_hash(gconstpointer string)
{
    return btrail_hash_bytes(string, strlen(string)) >> 32;
}

guint btrail_bytes_hash(gconstpointer bytes)
{
    gsize size;
    const void *data = g_bytes_get_data((GBytes *)bytes, &size);

    return btrail_hash_bytes(data, size) >> 32;
}
