/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An ELF file with the functions of a program, and without its code
 *
 * A trace keeps it (DYNAMIC in docs/trace-format.md) where the host does not
 * have the program itself.
 */

#ifndef BTRAIL_FUNCTIONS_FILE_H
#define BTRAIL_FUNCTIONS_FILE_H

#include <elf.h>
#include <glib.h>
#include <stdbool.h>

/* The most segments, and ranges of code */
#define FUNCTIONS_FILE_SEGMENTS 64
#define FUNCTIONS_FILE_AREAS    32

/* Bytes of such a file without its functions, at most */
#define FUNCTIONS_FILE_REST     (8u << 10)

struct functions_file;

/* @type: ET_EXEC or ET_DYN; @abi: EI_OSABI, which says what STT_GNU_IFUNC is */
struct functions_file *functions_file_new(uint16_t type, uint8_t abi);
void functions_file_free(struct functions_file *f);

/* Adds a PT_LOAD; what exceeds FUNCTIONS_FILE_SEGMENTS is left out. */
void functions_file_segment(struct functions_file *f, const Elf64_Phdr *load);

/* Adds a range of code; the first one is number 0. */
void functions_file_area(struct functions_file *f, uint64_t start,
                         uint64_t size, const char *name);

/* Adds a function of a range; its st_name and st_shndx are set here. */
void functions_file_add(struct functions_file *f, unsigned area,
                        const Elf64_Sym *symbol, const char *name);

/* How many functions it has, and how many bytes they take */
unsigned functions_file_count(const struct functions_file *f);
size_t functions_file_size(const struct functions_file *f);

/* The file, with a build-id; to be unreferenced */
GByteArray *functions_file_make(const struct functions_file *f,
                                const uint8_t *id, size_t size);

#endif /* BTRAIL_FUNCTIONS_FILE_H */
