/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's table of its own symbols, as kernel/kallsyms.c reads it
 *
 * Their order has changed over time, and kernels before 6.0 do not say where
 * they are.  They are then found by their structure.
 */

#ifndef KALLSYMS_H
#define KALLSYMS_H

#include "guest-linux/page-walk.h"
#include "guest-linux/vmcoreinfo.h"

#define KALLSYMS_MAX        (1u << 21)
#define KALLSYMS_NAME_MAX   1024

struct kallsyms;

/*
 * Reads the kernel's symbols and checks them against the address of _stext in
 * @v.  Returns NULL if none agree with it.
 */
struct kallsyms *kallsyms_read(struct page_walk *kernel,
                               const struct vmcoreinfo *v);

/*
 * The same of a kernel that says nothing of where they are.  Reads all of its
 * image.
 */
struct kallsyms *kallsyms_search(struct page_walk *kernel, uint64_t stext);
void kallsyms_free(struct kallsyms *k);

/*
 * Does linux_is_name() hold for all of their names?  It does, except in hostile
 * guests.
 */
bool kallsyms_is_plain(const struct kallsyms *k);

uint32_t kallsyms_count(const struct kallsyms *k);

/* Gets symbol @i in the order of the table; its name belongs to @k. */
void kallsyms_get(const struct kallsyms *k, uint32_t i, uint64_t *address,
                  char *type, const char **name);

/*
 * Finds the first symbol of this name; returns false, and an address of 0, if
 * there is none or that is its address.
 */
bool kallsyms_find(const struct kallsyms *k, const char *name,
                   uint64_t *address);

#endif /* KALLSYMS_H */
