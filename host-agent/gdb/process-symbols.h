/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The symbols of the process that runs where the guest is, for gdb
 *
 * To gdb, the files that a process has mapped are shared libraries: a list that
 * it asks its target for, and again whenever the target says that it is another
 * one.  It has a number here.  The files are those on the host that the trace's
 * mappings and build-ids name.
 */

#ifndef BTRAIL_GDB_PROCESS_SYMBOLS_H
#define BTRAIL_GDB_PROCESS_SYMBOLS_H

#include "symbolize/symbolizer.h"

struct process_symbols;

/**
 * process_symbols_new
 * @symbols: outlives the result
 * @folder:  private; gets the files.  gdb has to search it for libraries.
 */
struct process_symbols *process_symbols_new(struct symbolizer *symbols,
                                            const char *folder);
void process_symbols_free(struct process_symbols *p);

/*
 * The files are from now on those of a process that serves one gdb; @number: of
 * it, from 1.  When that has ended, the process that made the folder removes
 * them.
 */
void process_symbols_own(struct process_symbols *p, unsigned number);
void process_symbols_forget(struct process_symbols *p, unsigned number);

/*
 * The number of the list where a process, or NULL, runs at @where; 0 is empty,
 * as it is when there are too many
 */
unsigned process_symbols_list(struct process_symbols *p,
                              const struct process *process,
                              const struct symbolizer_where *where,
                              uint64_t pc);

/* What gdb reads of a list (qXfer:libraries:read), to be freed */
char *process_symbols_xml(const struct process_symbols *p, unsigned list);

/*
 * The file of a list that is mapped at an address: a number that is another one
 * if it is mapped elsewhere; 0 if there is none
 */
unsigned process_symbols_home(const struct process_symbols *p, unsigned list,
                              uint64_t address);

/* Would a file be in the list of a process?  Makes no list. */
bool process_symbols_maps(const struct process_symbols *p,
                          const struct process *process,
                          const struct symbolizer_where *where, uint64_t pc,
                          unsigned home);

/* Is that file in a list? */
bool process_symbols_has(const struct process_symbols *p, unsigned list,
                         unsigned home);

#endif /* BTRAIL_GDB_PROCESS_SYMBOLS_H */
