/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Words for pseudo-addresses
 */

#include "backtrail/trace.h"

const char *btrail_pseudo_name(uint64_t address)
{
    switch (address) {
    case BTRAIL_PSEUDO_TO_KERNEL:
        return "[to kernel]";
    case BTRAIL_PSEUDO_SYSCALL:
        return "[syscall]";
    case BTRAIL_PSEUDO_PAGE_FAULT:
        return "[page fault]";
    case BTRAIL_PSEUDO_EXCEPTION:
        return "[exception]";
    case BTRAIL_PSEUDO_INTERRUPT:
        return "[interrupt]";
    case BTRAIL_PSEUDO_FROM_KERNEL:
        return "[from kernel]";
    case BTRAIL_PSEUDO_TO_USER:
        return "[to user]";
    case BTRAIL_PSEUDO_FROM_USER:
        return "[from user]";
    default:
        return NULL;
    }
}
