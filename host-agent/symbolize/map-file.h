/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names that a person gives: the file of --map
 *
 * Its form is described in backtrail-report(1).
 */

#ifndef BTRAIL_MAP_FILE_H
#define BTRAIL_MAP_FILE_H

#include <glib.h>

#include "symbolize/address-space.h"

/**
 * struct map_process - an address space that has names
 * @cr3:  in the bits of BTRAIL_CR3_ROOT
 * @name: NULL if it has none
 * @pid:  -1 if it is not said
 */
struct map_process {
    uint64_t cr3;
    char *name;
    int64_t pid;
    struct address_space *space;
};

struct map_file;

/**
 * map_file_read
 * @error: gets what is wrong, and where
 *
 * NULL if it cannot be read.
 */
struct map_file *map_file_read(const char *path, GError **error);

/* @text is changed; @path is to speak of it. */
struct map_file *map_file_parse(char *text, const char *path, GError **error);
void map_file_free(struct map_file *map);

/* What is the same in all address spaces */
struct address_space *map_file_shared(struct map_file *map);

/* An address space, or NULL */
struct map_process *map_file_process(struct map_file *map, uint64_t cr3);

#endif /* BTRAIL_MAP_FILE_H */
