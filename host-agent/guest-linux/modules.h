/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols of the kernel and its modules, as text
 */

#ifndef LINUX_MODULES_H
#define LINUX_MODULES_H

#include <glib.h>

#include "guest-linux/kernel.h"

/* The size of a SIDEBAND chunk */
#define LINUX_SYMBOLS_MAX   (16u << 20)

/*
 * Returns the text of /proc/kallsyms as root sees it, to be freed, except that
 * symbols of modules have a type in lower case, exported or not.  Symbols that
 * do not fit or cannot be read are left out.
 */
GString *linux_symbols(struct linux_kernel *k);

/*
 * Returns a number that changes when modules come or go; 0 if they cannot be
 * read.
 */
uint64_t linux_modules_hash(struct linux_kernel *k);

#endif /* LINUX_MODULES_H */
