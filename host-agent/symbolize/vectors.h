/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interrupts and exceptions of x86, and where Linux takes them
 */

#ifndef BTRAIL_VECTORS_H
#define BTRAIL_VECTORS_H

#include "symbolize/kernel-names.h"

/**
 * vectors_find - where the kernel takes an interrupt or exception
 * @exceptions: otherwise interrupts; an NMI is one
 * @name:       a vector (14, 0xec), a name of the SDM ("#PF"), of Linux
 *              ("page_fault", "apic_timer_interrupt") or of the function; NULL
 *              for all
 * @starts:     gets them, of struct kernel_start; none if the kernel has none
 *              of this name, or the trace no names
 *
 * A session that leaves out the kernel has pseudo-addresses in their place,
 * which are added, too.
 */
void vectors_find(const struct btrail_names *names, bool exceptions,
                  const char *name, GArray *starts);

/**
 * struct vector_entry - a function where the kernel takes an interrupt
 * @number: its vector; -1 if it is that of many, or not known
 * @name:   of Linux ("apic_timer_interrupt"); "common_interrupt" is that of all
 *          devices
 */
struct vector_entry {
    int number;
    const char *name;
};

/* Those of all kernels of a trace: names of symbols -> struct vector_entry */
GHashTable *vectors_entries(const struct btrail_names *names);

/*
 * The same name, by that of a function alone, of whichever kernel it is; also of
 * functions which entries call to handle the interrupt.  NULL if it takes none
 */
const char *vectors_interrupt(const char *function);

#endif /* BTRAIL_VECTORS_H */
