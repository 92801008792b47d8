/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions that a process has compiled, as its perf-PID.map has them: a line
 * "START SIZE NAME" for each, in hexadecimal digits
 *
 * They become an ELF file, in which each is where its address is.
 */

#ifndef BTRAIL_COMPILED_FUNCTIONS_H
#define BTRAIL_COMPILED_FUNCTIONS_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * struct compiled_function
 * @number: one that was said later has a higher one
 * @name:   where it is in the names, with a NUL after it
 */
struct compiled_function {
    uint64_t start;
    uint64_t end;
    guint number;
    gsize name;
};

enum compiled_line {
    COMPILED_LINE_BAD,
    COMPILED_LINE_NOTHING,      /* a function without code, or of the kernel */
    COMPILED_LINE_FUNCTION,
};

/*
 * Reads a line of @n bytes.  @f gets where the function is, *@name what it is
 * called, up to the end of the line.
 */
enum compiled_line compiled_functions_parse(const char *line, size_t n,
                                            struct compiled_function *f,
                                            const char **name);

/* Bytes of the build-id of such a file, which are random */
#define COMPILED_FUNCTIONS_ID   20

/* The path that they are known by, in place of a file's */
#define COMPILED_FUNCTIONS_PATH 32
void compiled_functions_path(char path[COMPILED_FUNCTIONS_PATH], uint32_t pid);

/* Is a path one of a perf-PID.map? */
bool compiled_functions_is_path(const char *path, uint32_t *pid);

/*
 * The ELF file, with @id as its build-id, to be unreferenced; NULL if there are
 * none.  Of two that overlap it has the one that was said later; of those with
 * the highest addresses, only what @most bytes have room for.
 */
GByteArray *compiled_functions_file(const struct compiled_function *all,
                                    guint n, const char *names, size_t most,
                                    const uint8_t id[COMPILED_FUNCTIONS_ID]);

#endif /* BTRAIL_COMPILED_FUNCTIONS_H */
