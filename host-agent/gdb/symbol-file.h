/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The symbols of a guest's kernel and its modules, as an ELF file for gdb
 *
 * The file has no code, and addresses are those that the guest has, wherever
 * its kernel has put itself.
 */

#ifndef BTRAIL_GDB_SYMBOL_FILE_H
#define BTRAIL_GDB_SYMBOL_FILE_H

#include "backtrail/names.h"
#include "util/agent-error.h"

/*
 * The symbols that a trace has, of struct btrail_symbol, in the order of their
 * addresses; they live as long as the names.  What has the place of something
 * else at other times is left out: gdb does not know of times.
 */
GArray *symbol_file_symbols(const struct btrail_names *names);

/**
 * symbol_file_write - write symbols that are in the order of their addresses
 *
 * A name of the guest can have any bytes; here it is quoted.
 */
bool symbol_file_write(const char *path, const GArray *symbols,
                       GError **error);

/* Writes those that a trace has; *@any: it has some.  Without, there is no
 * file. */
bool symbol_file_write_trace(const char *path,
                             const struct btrail_trace *trace, bool *any,
                             GError **error);

#endif /* BTRAIL_GDB_SYMBOL_FILE_H */
