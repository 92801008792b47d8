/*
 * Branch trace: GDB's packets for "record btrace"
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_GDB_H
#define HW_MISC_BRANCH_TRACE_GDB_H

/* Has the gdbstub offer them. */
void branch_trace_gdb_init(void);

#endif /* HW_MISC_BRANCH_TRACE_GDB_H */
