/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of functions: what compilers make of them, and what people mean
 *
 * Names of C++, Rust and D are mangled; people know them as they are in the
 * source, see demangle.h.
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

/*
 * Does somebody mean this symbol by a name: as it is or without additions, or
 * as in the source, "ns::f(int)", where "ns::f" means all functions of the
 * name, and all instances of a template?  Blanks do not matter there.
 */
bool function_name_is(const char *symbol, const char *name);

/* The same, if it is known what demangle() makes of the whole symbol, which can
 * be NULL: this is quick for most names. */
bool function_name_is_known(const char *symbol, const char *demangled,
                            const char *name);

/* Can somebody mean a function by such a text?  Outside of brackets, it has no
 * ':' but "::". */
bool function_name_valid(const char *text);

#endif /* BTRAIL_FUNCTION_NAME_H */
