/*
 * A second level of the TLB, which only the guest flushes
 *
 * The first level is as large as the host's clock makes it, and the host
 * flushes it as it likes.  Whether a page is in it shows in the guest: where
 * the guest has cleared the accessed bit of a page without a flush, a walk
 * sets it again, and a hit does not.  While recording and replaying, this
 * level keeps all that was filled since the guest has flushed it, so that how
 * often the page tables are walked depends on nothing else.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef ACCEL_TCG_TLB_LEVEL2_H
#define ACCEL_TCG_TLB_LEVEL2_H

#include "exec/mmu-access-type.h"
#include "hw/core/cpu.h"

typedef struct TLBLevel2 TLBLevel2;

/* Does the vCPU have a second level? */
static inline bool tlb_level2(const CPUState *cpu)
{
    return cpu->neg.tlb.c.level2;
}

void tlb_level2_init(CPUState *cpu);
void tlb_level2_destroy(CPUState *cpu);

/* Gets the entry of a page, if it permits the access. */
bool tlb_level2_find(CPUState *cpu, int mmu_idx, vaddr addr,
                     MMUAccessType type, CPUTLBEntryFull *full);

/*
 * Adds an entry, or replaces that of its page.  Returns false if there is no
 * room: the caller then flushes both levels.
 */
bool tlb_level2_add(CPUState *cpu, int mmu_idx, vaddr addr,
                    const CPUTLBEntryFull *full);

void tlb_level2_flush(CPUState *cpu, uint16_t idxmap);

/*
 * Flushes a page.  Returns for which mmu_idx all pages were, because there
 * are large ones; the caller does the same in the first level.
 */
uint16_t tlb_level2_flush_page(CPUState *cpu, vaddr addr, uint16_t idxmap);

/* Uses what was loaded, after all of the vCPU's state was. */
void tlb_level2_post_load(CPUState *cpu);

#endif
