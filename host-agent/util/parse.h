/* SPDX-License-Identifier: LGPL-2.1-or-later */
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

typedef bool parse_text_fn(const char *text, const char **end,
                           uint64_t *value);

/* Decimal, or hexadecimal after "0x" */
parse_text_fn parse_text_number;

/* A number of bytes, or of the unit that follows: K, M, G or T */
parse_text_fn parse_text_size;

/*
 * Nanoseconds from a decimal number, with or without a fraction, of the unit
 * that follows: ns, us, ms, s, min or h.  Without a unit, it is in seconds.
 * Digits below a nanosecond are dropped.
 */
parse_text_fn parse_text_time;

/* @end is not part of it. */
struct range {
    uint64_t begin;
    uint64_t end;
};

/*
 * "A..B", "A.." or "..B", whose ends @parse reads.  B must not be below A.
 * Nothing may follow.
 */
bool parse_text_range(const char *text, parse_text_fn *parse,
                      struct range *range);

/* "0,2-3": sets the members @set[0] to @set[@n - 1]; a number must be one of
 * them. */
bool parse_text_list(const char *text, bool *set, unsigned n);

#endif /* BTRAIL_PARSE_H */
