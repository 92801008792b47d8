/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols of the kernel's modules
 */

#ifndef LINUX_MODULES_H
#define LINUX_MODULES_H

#include <glib.h>

#include "guest-linux/kernel.h"

/*
 * Appends their symbols to @text in the form of /proc/kallsyms, except that
 * they have a type in lower case, exported or not, and end lines where their
 * code ends.  A module has those of its initialisation until that is done.
 * Symbols that do not fit or cannot be read are left out.  Returns false if the
 * list of modules could not be read to its end.
 */
bool linux_modules_symbols(struct linux_kernel *k, GString *text);

/*
 * Mixes what changes when modules come, go, or end their initialisation into
 * @hash.  Returns false if it could not all be read.
 */
bool linux_modules_hash(struct linux_kernel *k, uint64_t *hash);

#endif /* LINUX_MODULES_H */
