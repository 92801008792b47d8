/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the fuzz targets have in common
 */

#ifndef BTRAIL_FUZZ_H
#define BTRAIL_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The target: what libFuzzer calls for an input */
int fuzz_input(const uint8_t *data, size_t size);

/* What must hold whatever the input is */
void fuzz_require(bool condition);

/*
 * The input got past the first check.  At its end the target says how many did:
 * no seed may fail to, or it has been left behind by the format.
 */
void fuzz_accepted(void);

#endif /* BTRAIL_FUZZ_H */
