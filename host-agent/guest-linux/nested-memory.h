/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a guest of the guest has as its memory
 *
 * Nested page tables in the guest's RAM say where it is (AMD64 Architecture
 * Programmer's Manual vol. 2, "Nested Paging"): those of KVM, which have the
 * format of 64-bit page tables.  What they do not map, because the nested guest
 * has not touched it yet or it was taken away, counts as no RAM.
 */

#ifndef NESTED_MEMORY_H
#define NESTED_MEMORY_H

#include "guest-linux/guest-memory.h"

struct nested_memory;

/* Those of 64 GiB */
#define NESTED_MEMORY_PAGES (UINT64_C(1) << 24)

/**
 * nested_memory_new - see memory through nested page tables
 * @ram:  of the guest; must outlive it
 * @root: physical address of the highest table
 * @pages: how many pages, and entries of tables, may be looked at in a scan to
 *        find some, such as NESTED_MEMORY_PAGES.  Tables can lead in circles
 */
struct nested_memory *nested_memory_new(const struct guest_memory *ram,
                                        uint64_t root, uint64_t pages);
void nested_memory_free(struct nested_memory *n);

/* The tables have this many levels, 4 or 5; 4 at first. */
void nested_memory_set_levels(struct nested_memory *n, unsigned levels);

/* The memory; belongs to @n. */
const struct guest_memory *nested_memory_view(const struct nested_memory *n);

/* Where in the guest's RAM an address is; UINT64_MAX if it is not mapped */
uint64_t nested_memory_place(struct nested_memory *n, uint64_t address);

#endif /* NESTED_MEMORY_H */
