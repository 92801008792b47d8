/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The symbols of the process that runs where the guest is, for gdb
 *
 * At each stop, gdb runs a command that we have defined.  It asks which set of
 * files the process has mapped, by a trace state variable: a number that gdb
 * reads from its target, so that each gdb hears of its own place.  If this is
 * another set than the last time, it takes out the symbols of that one and adds
 * those of the new one.  The files are those on the host that the trace's
 * mappings and build-ids name.
 */

#ifndef BTRAIL_GDB_PROCESS_SYMBOLS_H
#define BTRAIL_GDB_PROCESS_SYMBOLS_H

#include "symbolize/symbolizer.h"

struct process_symbols;

/**
 * process_symbols_new
 * @symbols: outlives the result
 * @folder:  private; gets the files
 */
struct process_symbols *process_symbols_new(struct symbolizer *symbols,
                                            const char *folder,
                                            GError **error);
void process_symbols_free(struct process_symbols *p);

/*
 * The sets are from now on those of a process that serves one gdb; @number: of
 * it, from 1.  When that has ended, the process that made the folder forgets
 * them.
 */
void process_symbols_own(struct process_symbols *p, unsigned number);
void process_symbols_forget(struct process_symbols *p, unsigned number);

/*
 * What gdb has to know, for its file of commands.  PROCESS_SYMBOLS_COMMAND is
 * to be run wherever the guest has moved.
 */
#define PROCESS_SYMBOLS_COMMAND "backtrail-symbols"
void process_symbols_define(const struct process_symbols *p, GString *commands);

/*
 * The number of the set where a process, or NULL, runs at @where: what gdb asks
 * with this request, the rest of which is its number for the variable
 */
#define PROCESS_SYMBOLS_REQUEST "qTV:"
unsigned process_symbols_set(struct process_symbols *p,
                             const struct process *process,
                             const struct symbolizer_where *where,
                             uint64_t pc);

#endif /* BTRAIL_GDB_PROCESS_SYMBOLS_H */
