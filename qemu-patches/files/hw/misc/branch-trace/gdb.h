/*
 * Branch trace: GDB's packets for "record btrace"
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_GDB_H
#define HW_MISC_BRANCH_TRACE_GDB_H

#include "device.h"

/* Has the gdbstub offer them. */
BranchTraceGdb *branch_trace_gdb_new(BranchTraceDevice *d);

#endif /* HW_MISC_BRANCH_TRACE_GDB_H */
