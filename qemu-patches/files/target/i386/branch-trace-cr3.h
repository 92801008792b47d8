/*
 * x86 branch trace: CR3 as both producers report it
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef I386_BRANCH_TRACE_CR3_H
#define I386_BRANCH_TRACE_CR3_H

#include "cpu.h"
#include "hw/misc/branch-trace-transport.h"

/*
 * What CR3 means depends on the paging mode, and on whose it is.  VMRUN and
 * debuggers can load what MOV does not.
 */
static inline uint64_t x86_branch_trace_cr3(const CPUX86State *env)
{
    uint64_t nested = env->hflags & HF_GUEST_MASK ? BTRAIL_CR3_NESTED : 0;
    uint64_t cr3 = env->cr[3] & ~(BTRAIL_CR3_PAE | BTRAIL_CR3_CODE);

    if (!(env->cr[0] & CR0_PG_MASK)) {
        return nested;
    }
    if (env->cr[4] & CR4_PAE_MASK && !(env->efer & MSR_EFER_LMA)) {
        return cr3 | nested | BTRAIL_CR3_PAE;
    }
    return cr3 | nested;
}

#endif /* I386_BRANCH_TRACE_CR3_H */
