/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Numbers, sizes, times and ranges as people write them
 *
 * Options, configuration files, commands and filters share these parsers.
 * None of them accepts a sign or blanks.  All store a value only on success.
 * With @end, parsing stops where the value ends and @end gets that place;
 * with NULL, nothing may follow the value.
 */

#ifndef BTRAIL_PARSE_H
#define BTRAIL_PARSE_H

#include <stdbool.h>
#include <stdint.h>

typedef bool btrail_parse_fn(const char *text, const char **end,
                             uint64_t *value);

/* Decimal, or hexadecimal after "0x" */
btrail_parse_fn btrail_parse_number;

/* A number of bytes, or of the unit that follows: K, M, G or T */
btrail_parse_fn btrail_parse_size;

/*
 * Nanoseconds from a decimal number, with or without a fraction, of the unit
 * that follows: ns, us, ms, s, min or h.  Without a unit, it is in seconds.
 * Digits below a nanosecond are dropped.
 */
btrail_parse_fn btrail_parse_time;

/* @end is not part of it. */
struct btrail_range {
    uint64_t begin;
    uint64_t end;
};

/*
 * "A..B", "A.." or "..B", whose ends @parse reads.  B must not be below A.
 * Nothing may follow.
 */
bool btrail_parse_range(const char *text, btrail_parse_fn *parse,
                        struct btrail_range *range);

#endif /* BTRAIL_PARSE_H */
