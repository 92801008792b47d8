/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ELF files: symbols, lines and bytes at addresses
 *
 * Addresses are those that the file itself names; who has mapped it elsewhere
 * subtracts the difference before.
 */

#ifndef BTRAIL_ELF_FILE_H
#define BTRAIL_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_file;

/* From @start to before @end; @name lives as long as the file is open. */
struct elf_symbol {
    const char *name;
    uint64_t start;
    uint64_t end;
};

/* NULL if it is no ELF file for x86, or cannot be read; errno tells which:
 * ENOEXEC for the former. */
struct elf_file *elf_file_open(const char *path);

/* With the file that elf_file_set_debug() was given, if any */
void elf_file_close(struct elf_file *f);

const char *elf_file_path(const struct elf_file *f);

/* In lower-case digits; NULL if it has none */
const char *elf_file_build_id(const struct elf_file *f);

/* Name of the file with its debugging information; NULL if it names none */
const char *elf_file_debug_link(const struct elf_file *f);

/* 32 or 64, of the instructions in it */
unsigned elf_file_bits(const struct elf_file *f);

/* Has it a symbol table, or lines, of its own? */
bool elf_file_has_symbols(const struct elf_file *f);
bool elf_file_has_lines(const struct elf_file *f);

/*
 * Take symbols and lines from @debug, too, which was stripped from @f and
 * belongs to it from here on.
 */
void elf_file_set_debug(struct elf_file *f, struct elf_file *debug);

/* The address at which the byte at @offset of the file is */
bool elf_file_address(const struct elf_file *f, uint64_t offset,
                      uint64_t *address);

/* Where in the file the byte at @address is */
bool elf_file_offset(const struct elf_file *f, uint64_t address,
                     uint64_t *offset);

/* The function at @address, or NULL */
const struct elf_symbol *elf_file_symbol(struct elf_file *f,
                                         uint64_t address);

/* The function or label called @name, or NULL */
const struct elf_symbol *elf_file_find(struct elf_file *f, const char *name);

/* @name lives as long as the file is open. */
bool elf_file_line(struct elf_file *f, uint64_t address, const char **name,
                   unsigned *line);

/**
 * elf_file_lines - all that the file tells of lines
 * @fn: gets where the code of a line is, more than once for many
 */
typedef void elf_file_line_fn(void *opaque, uint64_t start, uint64_t end,
                              const char *name, unsigned line);
void elf_file_lines(struct elf_file *f, elf_file_line_fn *fn, void *opaque);

/* All functions, in the order of their addresses */
const struct elf_symbol *elf_file_symbols(struct elf_file *f, size_t *n);

/* Bytes of what is loaded at @address; returns how many there are. */
size_t elf_file_read(const struct elf_file *f, uint64_t address, void *buf,
                     size_t n);

#endif /* BTRAIL_ELF_FILE_H */
