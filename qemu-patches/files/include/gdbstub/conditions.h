/*
 * Conditions of GDB's breakpoints
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef GDBSTUB_CONDITIONS_H
#define GDBSTUB_CONDITIONS_H

#include "exec/vaddr.h"

/**
 * gdb_conditions_parse - conditions as a packet "Z" has them
 * @text: "X", the number of bytes, ",", the bytes; and so on
 *
 * Returns a GPtrArray of GBytes; NULL if it is something else.
 */
GPtrArray *gdb_conditions_parse(const char *text);

/*
 * A breakpoint of type GDB_BREAKPOINT_SW or _HW was inserted, or removed.
 * @conditions is taken; NULL: it has none.
 */
void gdb_conditions_set(unsigned type, vaddr addr, GPtrArray *conditions);
void gdb_conditions_remove(unsigned type, vaddr addr);
void gdb_conditions_remove_all(void);

/* Is it inserted? */
bool gdb_conditions_known(unsigned type, vaddr addr);

/**
 * gdb_breakpoint_holds() - is a breakpoint met?
 * @cpu: CPU that is at it, between two blocks
 * @pc: where it is
 *
 * Not if it has conditions and none of them holds.
 */
bool gdb_breakpoint_holds(CPUState *cpu, vaddr pc);

/* The same where there need not be one */
bool gdb_at_breakpoint(CPUState *cpu);

#endif
