/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names as they are in the source, from symbols that have been mangled by C++,
 * Rust or D
 *
 * Symbols come from files and guests.  What is longer than a name of a person's
 * program, before or after, or takes too long, is not a name here.
 */

#ifndef BTRAIL_DEMANGLE_H
#define BTRAIL_DEMANGLE_H

#include <stdbool.h>

/* Bytes, the last one for the 0; libiberty takes only 1024 of C++. */
#define DEMANGLE_MANGLED_MAX    4096
#define DEMANGLE_MAX            16384

/**
 * demangle - the name of a symbol in the source
 * @whole: with the types of its parameters, where symbols have them, and with
 *         what compilers add: "f(int) [clone .cold]"; without, "f", and
 *         compilers may have added nothing
 *
 * Returns NULL if the symbol is not mangled.  Free with g_free().
 */
char *demangle(const char *symbol, bool whole);

#endif /* BTRAIL_DEMANGLE_H */
