/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of functions: what people mean by them
 *
 * Names of C++, Rust and D are mangled, see demangle.h, and compilers add to
 * names, see plain-name.h; people know them as they are in the source.
 */

#ifndef BTRAIL_FUNCTION_NAME_H
#define BTRAIL_FUNCTION_NAME_H

#include <stdbool.h>

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
