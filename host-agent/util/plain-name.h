/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What compilers add to the name of a function
 *
 * GCC and LLVM rename a function that they have changed: where arguments are
 * missing, or known, or which another file has a function of the same name as.
 * Who calls it calls the function that has the name without that.
 */

#ifndef BTRAIL_PLAIN_NAME_H
#define BTRAIL_PLAIN_NAME_H

#include <stddef.h>

/*
 * The length of a symbol without that.  Parts of functions, ".cold" and
 * ".part", are no functions that somebody calls, and keep their names.
 */
size_t plain_name(const char *symbol);

#endif /* BTRAIL_PLAIN_NAME_H */
