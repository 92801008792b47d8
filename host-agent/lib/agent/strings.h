/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Strings that are kept once each, so that equal ones are at one address
 */

#ifndef BTRAIL_STRINGS_H
#define BTRAIL_STRINGS_H

#include <stddef.h>
#include <stdint.h>

struct btrail_strings;

struct btrail_strings *btrail_strings_new(void);

/* Frees all strings, too. */
void btrail_strings_free(struct btrail_strings *strings);

/* Returns the kept bytes that are equal to these, with a NUL after them. */
const char *btrail_strings_keep(struct btrail_strings *strings,
                                const void *data, size_t size);

/* About how many bytes of memory they need */
uint64_t btrail_strings_memory(const struct btrail_strings *strings);

#endif /* BTRAIL_STRINGS_H */
