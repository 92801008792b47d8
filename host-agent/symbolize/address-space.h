/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mappings and symbols of an address space
 */

#ifndef BTRAIL_ADDRESS_SPACE_H
#define BTRAIL_ADDRESS_SPACE_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_file;

/* Addresses from here on are the kernel's, the same in all address spaces. */
#define ADDRESS_SHARED  (UINT64_C(1) << 63)

/**
 * struct mapping - a range of addresses that something is mapped to
 * @offset:   in the file, of @start
 * @path:     of the file; a name such as "[vdso]"; or ""
 * @build_id: in digits, or NULL
 * @elf:      the file on the host, or NULL
 * @looked:   the file was searched on the host
 * @code:     the range is executable
 */
struct mapping {
    uint64_t start;
    uint64_t end;
    uint64_t offset;
    const char *path;
    const char *build_id;
    struct elf_file *elf;
    bool looked;
    bool code;
};

/* @module is in brackets, or NULL.  Strings live as long as what has them. */
struct symbol {
    uint64_t start;
    uint64_t end;
    const char *name;
    const char *module;
};

/* Paths of the images that the kernel maps into programs of 64 and 32 bits */
#define MAPPING_VDSO    "[vdso]"
#define MAPPING_VDSO32  "[vdso32]"

struct address_space;

struct address_space *address_space_new(void);
void address_space_free(struct address_space *as);

/*
 * Maps a range.  Mappings that it overlaps keep what is outside of it.  Strings
 * are copied.
 */
void address_space_map(struct address_space *as, const struct mapping *m);

/*
 * Maps @n ranges that are in the order of addresses and do not overlap, in a
 * time in proportion to @n and to what was mapped before.  Strings are not
 * copied.  Returns false if all was mapped like this before.
 */
bool address_space_map_all(struct address_space *as,
                           const struct mapping *added, size_t n);

/* The mapping at an address, or NULL */
struct mapping *address_space_find(struct address_space *as,
                                   uint64_t address);

/* All mappings in the order of addresses; @n gets their number. */
struct mapping *address_space_mappings(struct address_space *as, size_t *n);

/*
 * Finds the symbol of code at an address; of several at one address, the one
 * that the kernel prints: the first that was added.  It ends where the next one
 * begins; at UINT64_MAX if there is none.
 */
bool address_space_symbol(struct address_space *as, uint64_t address,
                          struct symbol *symbol);

/* Finds the address of a symbol; false if there is none. */
bool address_space_symbol_find(struct address_space *as, const char *name,
                               uint64_t *address);

/* Adds the addresses (uint64_t) of all symbols of a name. */
void address_space_starts(struct address_space *as, const char *name,
                          GArray *addresses);

/*
 * Adds the symbol of a line of /proc/kallsyms; false if it is malformed.  What
 * is not code has no name here, and ends the symbol before it.
 */
bool address_space_kallsyms_line(struct address_space *as, const char *line);

#endif /* BTRAIL_ADDRESS_SPACE_H */
