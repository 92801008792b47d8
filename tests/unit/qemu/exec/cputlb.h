/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What written-pages.c needs of QEMU's header of this name. */

#ifndef QEMU_EXEC_CPUTLB_H
#define QEMU_EXEC_CPUTLB_H

#include "hw/core/cpu.h"

#define RAM_ADDR_MAX    UINT64_MAX

void tlb_reset_dirty(CPUState *cpu, uint64_t start, uint64_t length);

#endif /* QEMU_EXEC_CPUTLB_H */
