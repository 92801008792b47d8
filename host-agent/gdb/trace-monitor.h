/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands that a user gives with gdb's "monitor" where it walks a trace
 */

#ifndef BTRAIL_GDB_TRACE_MONITOR_H
#define BTRAIL_GDB_TRACE_MONITOR_H

#include "gdb/monitor.h"

/* "where", "goto PLACE", "next-call [PROCESS:]FUNCTION", "prev-call
 * [PROCESS:]FUNCTION", "prev-switch", "why" and "help", of a trace_target */
extern const struct monitor_command trace_monitor_commands[];

#endif /* BTRAIL_GDB_TRACE_MONITOR_H */
