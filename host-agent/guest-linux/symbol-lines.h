/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols as lines of text: those of /proc/kallsyms, and where code ends
 */

#ifndef LINUX_SYMBOL_LINES_H
#define LINUX_SYMBOL_LINES_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* The size of a SIDEBAND chunk: what would be more is left out. */
#define LINUX_SYMBOLS_MAX   (16u << 20)

/* Where the kernel's half begins, with page tables of any depth */
#define LINUX_KERNEL_HALF   (UINT64_C(1) << 63)

/**
 * struct linux_code - code that has a name
 * @start: its first address
 * @end:   after its last one
 * @open:  it ends where other code begins, at @end at the latest
 */
struct linux_code {
    uint64_t start;
    uint64_t end;
    bool open;
};

/* Is it of code, by its type in /proc/kallsyms? */
bool linux_is_code(char type);

/* Can it be a name in a line of text? */
bool linux_is_name(const char *name);

/* Appends a line; @module is NULL for a symbol of the kernel itself. */
void linux_symbol_line(GString *text, uint64_t address, char type,
                       const char *name, const char *module);

/* Appends an end line: nothing that has a name is at @address. */
void linux_end_line(GString *text, uint64_t address, const char *module);

/*
 * Appends an end line for each address at which code of @codes (struct
 * linux_code) ends, and no other of them begins within @padding bytes.  Sorts
 * @codes.
 */
void linux_end_lines(GString *text, GArray *codes, uint64_t padding,
                     const char *module);

#endif /* LINUX_SYMBOL_LINES_H */
