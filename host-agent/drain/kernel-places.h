/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The places of a symbol of the guest's kernel: where the functions are that
 * have the name, see function_name_is()
 *
 * What the kernel itself has stays while it runs; what it has loaded comes and
 * goes, and another kernel can take its place.
 */

#ifndef BTRAIL_KERNEL_PLACES_H
#define BTRAIL_KERNEL_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Static functions of some names are in hundreds of files. */
#define KERNEL_PLACES_MAX       1024

struct kernel_places;

struct kernel_places *kernel_places_new(const char *symbol);
void kernel_places_free(struct kernel_places *p);

/**
 * kernel_places_symbols - take what a kernel has
 * @all:  @n of them, which search for symbols of their own
 * @text: in the form of /proc/kallsyms: either the kernel's own symbols, or all
 *        of what it has loaded, which take the place of those before
 *
 * For one thread.  A guest can have any names: of those that are mangled, only
 * some are read, for all of @all together.
 */
void kernel_places_symbols(struct kernel_places *const *all, unsigned n,
                           uint16_t kernel, const char *text, size_t size);

/* Is one of the functions at this address of this kernel, or of any?  Any
 * thread */
bool kernel_places_has(struct kernel_places *p, uint64_t address,
                       const uint16_t *kernel);

/* The number of places, and whether there are others that are ignored since
 * there are too many; any thread */
unsigned kernel_places_count(const struct kernel_places *p);
bool kernel_places_capped(const struct kernel_places *p);

/* Calls @fn with each address; for the thread of kernel_places_symbols() */
void kernel_places_each(const struct kernel_places *p,
                        void (*fn)(void *opaque, uint64_t address),
                        void *opaque);

#endif /* BTRAIL_KERNEL_PLACES_H */
