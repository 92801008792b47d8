/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols of the kernel and its modules, as text
 */

#ifndef LINUX_MODULES_H
#define LINUX_MODULES_H

#include <glib.h>

#include "guest-linux/kernel.h"

/* What a SIDEBAND chunk can have */
#define LINUX_SYMBOLS_MAX   (16u << 20)

/*
 * The text of /proc/kallsyms as root sees it, but that symbols of modules have
 * a type in lower case, exported or not.  What does not fit, or cannot be
 * read, is left out; to be freed.
 */
GString *linux_symbols(struct linux_kernel *k);

/*
 * A number that changes when modules come or go; 0 if they could not be read
 */
uint64_t linux_modules_hash(struct linux_kernel *k);

#endif /* LINUX_MODULES_H */
