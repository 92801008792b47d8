/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What written-pages.c needs of QEMU's header of this name. */

#ifndef QEMU_HW_CORE_CPU_H
#define QEMU_HW_CORE_CPU_H

#include "exec/breakpoint.h"

/* Lists are simpler here. */
typedef struct CPUState {
    CPUBreakpoint *breakpoints;
    CPUWatchpoint *watchpoints;
    struct CPUState *next;
} CPUState;

extern CPUState *first_cpu;

#define CPU_FOREACH(cpu) \
    for ((cpu) = first_cpu; (cpu); (cpu) = (cpu)->next)
#define QTAILQ_FOREACH(p, head, entry) \
    for ((p) = *(head); (p); (p) = (p)->next)

#endif /* QEMU_HW_CORE_CPU_H */
