/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions of a program or library, read from the guest's page cache
 *
 * The kernel has most of a file in memory that was read lately, or written.  A
 * .symtab has all functions of a file, also of a static program; it is in the
 * last pages of the file, which are not mapped and may not be there.  What the
 * dynamic linker needs is there as a rule: functions that other files may call.
 */

#ifndef LINUX_FILE_FUNCTIONS_H
#define LINUX_FILE_FUNCTIONS_H

#include <glib.h>

#include "guest-linux/page-cache.h"

/**
 * struct linux_functions - functions of a file, as a small ELF file
 * @data:  has the segments, the build-id, the places of sections with code, and
 *         the functions, and no code; NULL if it has no function
 * @n:     how many functions
 * @whole: none of them is missing because it is not in memory
 */
struct linux_functions {
    GByteArray *data;
    unsigned n;
    bool whole;
};

/**
 * linux_file_functions() - read the functions of a 64-bit ELF file
 * @build_id: of the file, @size bytes
 * @result:   gets them, with @data to be unreferenced
 *
 * The guest can have forged all of it: what is read is bounded by the file's
 * budget, and by what a file of a sensible size has.
 */
#define LINUX_FUNCTIONS_MAX     (1u << 20)
void linux_file_functions(struct linux_file *f, const uint8_t *build_id,
                          size_t size, struct linux_functions *result);

#endif /* LINUX_FILE_FUNCTIONS_H */
