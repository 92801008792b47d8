/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Address spaces in the memory of a guest, for tests and fuzzing
 */

#ifndef FAKE_SPACE_H
#define FAKE_SPACE_H

#include "guest-linux/page-walk.h"

#define FAKE_SPACE_LEVELS   4

/* Pages of physical memory from 0 on, of which @used are in use */
struct fake_space {
    uint8_t *memory;
    size_t pages;
    size_t used;
};

void fake_space_init(struct fake_space *s, size_t pages);
void fake_space_clear(struct fake_space *s);

/* To be freed before fake_space_clear() */
struct guest_memory *fake_space_memory(const struct fake_space *s);

/* An address space with nothing in it: the address of its root table */
uint64_t fake_space_root(struct fake_space *s);

/* Have a page of @root at @address; what is in it.  It is new if it is not
 * there. */
uint8_t *fake_space_page(struct fake_space *s, uint64_t root,
                         uint64_t address);

/* Have these bytes at @address. */
void fake_space_put(struct fake_space *s, uint64_t root, uint64_t address,
                    const void *bytes, size_t size);

/* Have what an ELF file would have loaded, with @bias; false if it is none. */
bool fake_space_load(struct fake_space *s, uint64_t root, uint64_t bias,
                     const void *file, size_t size);

#endif /* FAKE_SPACE_H */
