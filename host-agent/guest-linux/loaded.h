/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols of what comes and goes while a kernel runs: of its modules, and of
 * code that it has made
 */

#ifndef LINUX_LOADED_H
#define LINUX_LOADED_H

#include <glib.h>

#include "guest-linux/kernel.h"

/*
 * Returns them as text in the form of /proc/kallsyms, to be freed; each line
 * has a module.  NULL if it changed while it was read.
 */
GString *linux_loaded_symbols(struct linux_kernel *k);

/*
 * Returns a number that changes when something comes or goes; 0 if it changed
 * while it was read.
 */
uint64_t linux_loaded_hash(struct linux_kernel *k);

#endif /* LINUX_LOADED_H */
