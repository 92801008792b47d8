/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What written-pages.c needs of QEMU's header of this name. */

#ifndef QEMU_EXEC_BREAKPOINT_H
#define QEMU_EXEC_BREAKPOINT_H

#include "exec/vaddr.h"

#define BP_MEM_READ     0x01
#define BP_MEM_WRITE    0x02
#define BP_GDB          0x10
#define BP_CPU          0x20

typedef struct CPUBreakpoint {
    int flags;
    struct CPUBreakpoint *next;
} CPUBreakpoint;

typedef struct CPUWatchpoint {
    vaddr vaddr;
    vaddr len;
    int flags;
    struct CPUWatchpoint *next;
} CPUWatchpoint;

#endif /* QEMU_EXEC_BREAKPOINT_H */
