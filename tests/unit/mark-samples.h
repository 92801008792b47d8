/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Bytes of marks, as guest-tools/mark/backtrail-mark.h describes them, and
 * items of code that report them
 */

#ifndef MARK_SAMPLES_H
#define MARK_SAMPLES_H

#include "backtrail/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Puts a mark there, with the code of a value.  Returns how far its jump goes,
 * from its begin. */
size_t sample_mark(uint8_t *bytes, const char *name, bool has_value);

/* Items of code */
struct btrail_code_item sample_code_bytes(uint64_t number);
struct btrail_code_item sample_code_page(uint64_t index, uint64_t cr3,
                                         uint64_t linear, uint64_t number);

#endif /* MARK_SAMPLES_H */
