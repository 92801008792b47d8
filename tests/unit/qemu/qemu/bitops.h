/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What page-versions.c needs of QEMU's header of this name. */

#ifndef QEMU_BITOPS_H
#define QEMU_BITOPS_H

#include <stdint.h>

static inline uint64_t rol64(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

#endif /* QEMU_BITOPS_H */
