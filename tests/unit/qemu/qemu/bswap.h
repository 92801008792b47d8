/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What page-versions.c needs of QEMU's header of this name. */

#ifndef QEMU_BSWAP_H
#define QEMU_BSWAP_H

#include <stdint.h>
#include <string.h>

static inline uint64_t ldq_he_p(const void *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof(word));
    return word;
}

#endif /* QEMU_BSWAP_H */
