/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Multiplicative hashes of numbers and pointers
 *
 * The upper bits of a hash are the good ones: shift it right, by 32 for a
 * guint of GLib.
 */

#ifndef BTRAIL_HASH_H
#define BTRAIL_HASH_H

#include <glib.h>
#include <stdint.h>
#include <string.h>

/* The first factor is 2^64 divided by the golden ratio. */
static inline uint64_t btrail_hash(uint64_t a)
{
    return a * UINT64_C(0x9e3779b97f4a7c15);
}

static inline uint64_t btrail_hash2(uint64_t a, uint64_t b)
{
    return btrail_hash(a) ^ b * UINT64_C(0xff51afd7ed558ccd);
}

static inline uint64_t btrail_hash3(uint64_t a, uint64_t b, uint64_t c)
{
    return btrail_hash2(a, b) ^ c * UINT64_C(0xc4ceb9fe1a85ec53);
}

/* For a GHashTable with keys that begin with two numbers of 64 bits */
static inline guint btrail_pair_hash(gconstpointer pair)
{
    const uint64_t *numbers = pair;

    return btrail_hash2(numbers[0], numbers[1]) >> 32;
}

static inline gboolean btrail_pair_equal(gconstpointer a, gconstpointer b)
{
    return !memcmp(a, b, 2 * sizeof(uint64_t));
}

#endif /* BTRAIL_HASH_H */
