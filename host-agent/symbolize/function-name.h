/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names that compilers give to functions
 *
 * GCC and LLVM rename a function that they have changed: where arguments are
 * missing, or known, or which another file has a function of the same name as.
 * Who calls it calls the function that has the name without that.
 */

#ifndef BTRAIL_FUNCTION_NAME_H
#define BTRAIL_FUNCTION_NAME_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The length of the name in the source.  Parts of functions, ".cold" and
 * ".part", are no functions that somebody calls, and keep their names.
 */
size_t function_name_plain(const char *symbol);

/* Does somebody mean this symbol by a name, as it is or without additions? */
bool function_name_is(const char *symbol, const char *name);

#endif /* BTRAIL_FUNCTION_NAME_H */
