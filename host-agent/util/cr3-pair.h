/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Linux' page tables with page-table isolation: the kernel's, and those of user
 * mode next to them
 */

#ifndef BTRAIL_CR3_PAIR_H
#define BTRAIL_CR3_PAIR_H

#include <stdint.h>

#include "backtrail/transport.h"

/* The bit by which they differ */
#define CR3_PAIR UINT64_C(0x1000)

/*
 * The same for both of them.  Each begins a page, with 32-bit PAE paging as
 * well; without isolation many tables of that are in one page.
 */
static inline uint64_t cr3_pair(uint64_t cr3)
{
    uint64_t root = btrail_cr3_root(cr3);

    return root & (CR3_PAIR - 1) ? root : root & ~CR3_PAIR;
}

#endif /* BTRAIL_CR3_PAIR_H */
