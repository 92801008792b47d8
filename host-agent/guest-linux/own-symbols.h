/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols of the kernel itself, which stay as long as it runs
 */

#ifndef LINUX_OWN_SYMBOLS_H
#define LINUX_OWN_SYMBOLS_H

#include <glib.h>

#include "guest-linux/kernel.h"

/* Gets a part of a text, of whole lines. */
typedef void linux_text_fn(void *opaque, const char *text, size_t size);

/*
 * Gives them in the form of /proc/kallsyms, as root sees it, in parts: it is
 * megabytes.  All are at most LINUX_SYMBOLS_MAX bytes.
 */
void linux_own_symbols(const struct linux_kernel *k, linux_text_fn *fn,
                       void *opaque);

/*
 * Gets where its image is, with everything that has names of its own; false if
 * its symbols do not say so.
 */
bool linux_image(const struct linux_kernel *k, uint64_t *start, uint64_t *end);

#endif /* LINUX_OWN_SYMBOLS_H */
