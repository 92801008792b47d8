/*
 * Which virtual pages the guest writes to
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef EXEC_WRITTEN_PAGES_H
#define EXEC_WRITTEN_PAGES_H

#include "exec/vaddr.h"

/* Are they noted?  If so, each write entry of a TLB begins as TLB_NOTDIRTY. */
extern bool written_pages_noted;

void written_pages_add(vaddr addr);

/* A vCPU writes to the page of an address, or may do so from here on. */
static inline void written_pages_note(vaddr addr)
{
    if (unlikely(written_pages_noted)) {
        written_pages_add(addr);
    }
}

#endif
