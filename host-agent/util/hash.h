/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Hashes of numbers, pointers and strings
 *
 * What they depend on is random in each process.  A guest or a file cannot
 * choose keys that all get into one slot of a table, where each search would
 * pass all of them.
 *
 * The upper bits of a hash are the good ones: shift it right, by 32 for a
 * guint of GLib.
 */

#ifndef BTRAIL_HASH_H
#define BTRAIL_HASH_H

#include <glib.h>
#include <stdint.h>
#include <string.h>

/* Random numbers, the same as long as the process lives */
extern uint64_t btrail_hash_seeds[3];

/* The first factor is 2^64 divided by the golden ratio. */
static inline uint64_t btrail_hash(uint64_t a)
{
    return (a ^ btrail_hash_seeds[0]) * UINT64_C(0x9e3779b97f4a7c15);
}

static inline uint64_t btrail_hash2(uint64_t a, uint64_t b)
{
    return btrail_hash(a) ^
           (b ^ btrail_hash_seeds[1]) * UINT64_C(0xff51afd7ed558ccd);
}

static inline uint64_t btrail_hash3(uint64_t a, uint64_t b, uint64_t c)
{
    return btrail_hash2(a, b) ^
           (c ^ btrail_hash_seeds[2]) * UINT64_C(0xc4ceb9fe1a85ec53);
}

uint64_t btrail_hash_bytes(const void *data, size_t size);

/* For a GHashTable whose keys begin with a number of 64 bits; with two */
guint btrail_int64_hash(gconstpointer number);

static inline guint btrail_pair_hash(gconstpointer pair)
{
    const uint64_t *numbers = pair;

    return btrail_hash2(numbers[0], numbers[1]) >> 32;
}

static inline gboolean btrail_pair_equal(gconstpointer a, gconstpointer b)
{
    return !memcmp(a, b, 2 * sizeof(uint64_t));
}

/* For a GHashTable whose keys are strings; with GBytes */
guint btrail_str_hash(gconstpointer string);
guint btrail_bytes_hash(gconstpointer bytes);

#endif /* BTRAIL_HASH_H */
