/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random numbers that nobody can guess
 */

#ifndef BTRAIL_RANDOM_H
#define BTRAIL_RANDOM_H

#include <stddef.h>

/* Fills up to 256 bytes; ends the program if the kernel has none. */
void random_bytes(void *bytes, size_t size);

#endif /* BTRAIL_RANDOM_H */
