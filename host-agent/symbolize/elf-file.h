/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ELF files: symbols, lines and bytes at addresses
 *
 * Addresses are those in the file.  If it is mapped elsewhere, the caller
 * subtracts the difference first.
 */

#ifndef BTRAIL_ELF_FILE_H
#define BTRAIL_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_file;

/**
 * struct elf_file_info
 * @build_id:   in lower-case digits; NULL if the file has none
 * @debug_link: name of the file with its debugging information, or NULL
 * @bits:       32 or 64: the mode of its instructions
 */
struct elf_file_info {
    char *path;
    char *build_id;
    char *debug_link;
    unsigned bits;
};

/* From @start to before @end; @name lives as long as the file is open. */
struct elf_symbol {
    const char *name;
    uint64_t start;
    uint64_t end;
};

/*
 * Returns NULL with errno set if the file cannot be read; ENOEXEC if it is not
 * an ELF file for x86.
 */
struct elf_file *elf_file_open(const char *path);

/* Also closes the file that was passed to elf_file_set_debug(). */
void elf_file_close(struct elf_file *f);

const struct elf_file_info *elf_file_info(const struct elf_file *f);

/* Does the file itself have a symbol table, or lines? */
bool elf_file_has_symbols(const struct elf_file *f);
bool elf_file_has_lines(const struct elf_file *f);

/*
 * Takes symbols and lines from @debug, too, which was stripped from @f.  @f
 * owns it from here on.
 */
void elf_file_set_debug(struct elf_file *f, struct elf_file *debug);

/* Finds the address of the byte at @offset of the file. */
bool elf_file_address(const struct elf_file *f, uint64_t offset,
                      uint64_t *address);

/* Finds the offset in the file of the byte at @address. */
bool elf_file_offset(const struct elf_file *f, uint64_t address,
                     uint64_t *offset);

/* The function at @address, or NULL */
const struct elf_symbol *elf_file_symbol(struct elf_file *f,
                                         uint64_t address);

/* The first function or label called @name, see function_name_is(); or NULL */
const struct elf_symbol *elf_file_find(struct elf_file *f, const char *name);

/* All of them, as indices (unsigned) of what elf_file_symbols() returns, each
 * once, also of those that have it as another name; until the next call */
const GArray *elf_file_find_all(struct elf_file *f, const char *name);

/* Finds the source line; @name lives as long as the file is open. */
bool elf_file_line(struct elf_file *f, uint64_t address, const char **name,
                   unsigned *line);

/**
 * elf_file_lines - all lines of the file
 * @fn: is called with each range of code of a line; many lines have several
 */
typedef void elf_file_line_fn(void *opaque, uint64_t start, uint64_t end,
                              const char *name, unsigned line);
void elf_file_lines(struct elf_file *f, elf_file_line_fn *fn, void *opaque);

/**
 * struct elf_function - code that debugging information has of a function: its
 *                       own, or where it is inlined
 * @name:   of a symbol, where the language has others, too
 * @source: where it is declared
 * @entry:  where it begins; it is in one of @ranges
 */
struct elf_function {
    const char *name;
    const char *source;
    unsigned line;
    uint64_t entry;
    const struct elf_range {
        uint64_t start;
        uint64_t end;
    } *ranges;
    size_t n_ranges;
};

/* Calls @fn with each of them, what is inlined after that which it is in. */
typedef void elf_file_function_fn(void *opaque, const struct elf_function *f);
void elf_file_functions(struct elf_file *f, elf_file_function_fn *fn,
                        void *opaque);

/* All functions, in the order of their addresses */
const struct elf_symbol *elf_file_symbols(struct elf_file *f, size_t *n);

/* Reads bytes that are loaded at @address; returns their number. */
size_t elf_file_read(const struct elf_file *f, uint64_t address, void *buf,
                     size_t n);

/* The same of bytes that no program can write to */
size_t elf_file_read_constant(const struct elf_file *f, uint64_t address,
                              void *buf, size_t n);

#endif /* BTRAIL_ELF_FILE_H */
