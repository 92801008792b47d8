/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is where in an address space: mapped files, and symbols
 */

#ifndef BTRAIL_ADDRESS_SPACE_H
#define BTRAIL_ADDRESS_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_file;

/* Addresses from here on are the same in all address spaces: the kernel's. */
#define ADDRESS_SHARED  (UINT64_C(1) << 63)

/**
 * struct mapping - a range that a file, or something else, is mapped to
 * @offset:   of the file at @start
 * @path:     of the file, or what else it is: "[vdso]"; "" for nothing
 * @build_id: in digits, or NULL
 * @elf:      the file on the host, once it was looked for
 * @looked:   it was
 * @code:     it can be executed
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

/* @module may be NULL. */
struct symbol {
    uint64_t start;
    uint64_t end;
    const char *name;
    const char *module;
};

struct address_space;

struct address_space *address_space_new(void);
void address_space_free(struct address_space *as);

/*
 * Map a range; of what was there before, what is outside of it stays.  Strings
 * are copied.
 */
void address_space_map(struct address_space *as, const struct mapping *m);

/* The mapping at an address, or NULL */
struct mapping *address_space_find(struct address_space *as,
                                   uint64_t address);

/* All in order; @n gets how many there are. */
struct mapping *address_space_mappings(struct address_space *as, size_t *n);

/**
 * address_space_symbol_add - name a place
 * @name: copied; NULL for a place where the symbol before it ends
 */
void address_space_symbol_add(struct address_space *as, uint64_t start,
                              const char *name, const char *module);

/*
 * The symbol at an address or NULL; a symbol ends where the next one begins.
 */
const struct symbol *address_space_symbol(struct address_space *as,
                                          uint64_t address);

/* The address of a symbol */
bool address_space_symbol_find(struct address_space *as, const char *name,
                               uint64_t *address);

/**
 * address_space_kallsyms - add a symbol of a kernel
 * @type:   as in /proc/kallsyms: what is no function ends the one before
 * @module: in brackets, or NULL
 */
void address_space_kallsyms(struct address_space *as, uint64_t address,
                            char type, const char *name, const char *module);

/* The same, of a line of /proc/kallsyms; false if it makes no sense */
bool address_space_kallsyms_line(struct address_space *as, const char *line);

#endif /* BTRAIL_ADDRESS_SPACE_H */
