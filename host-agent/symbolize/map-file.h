/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file of --map: names that the user gives
 *
 * backtrail-names(7) describes its format.
 */

#ifndef BTRAIL_MAP_FILE_H
#define BTRAIL_MAP_FILE_H

#include <glib.h>

#include "symbolize/address-space.h"
#include "util/compiled-functions.h"

/**
 * struct map_process - an address space in the file
 * @cr3:  as btrail_cr3_root() has it
 * @name: can be NULL
 * @pid:  -1 if the file does not have it
 */
struct map_process {
    uint64_t cr3;
    char *name;
    int64_t pid;
    struct address_space *space;
};

/**
 * struct map_functions - what process @pid has compiled
 * @all:   of struct compiled_function
 * @names: theirs
 */
struct map_functions {
    uint32_t pid;
    GArray *all;
    GString *names;
};

struct map_file;

/**
 * map_file_read
 * @error: gets what is wrong, and where
 *
 * Returns NULL if the file cannot be read.
 */
struct map_file *map_file_read(const char *path, GError **error);

/*
 * Parses @text, and changes it.  @path is for messages; if it is that of a
 * perf-PID.map, the text is one.
 */
struct map_file *map_file_parse(char *text, const char *path, GError **error);
void map_file_free(struct map_file *map);

/* Mappings and symbols that are the same in all address spaces */
struct address_space *map_file_shared(struct map_file *map);

/* The process of an address space, or NULL */
struct map_process *map_file_process(struct map_file *map, uint64_t cr3);

/* Those of process number @i of which the file has some; NULL: no more */
const struct map_functions *map_file_functions(const struct map_file *map,
                                               unsigned i);

/* All address spaces of the file: struct map_process */
GList *map_file_processes(const struct map_file *map);

#endif /* BTRAIL_MAP_FILE_H */
