/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory mappings of a process
 */

#ifndef LINUX_MAPPINGS_H
#define LINUX_MAPPINGS_H

#include <glib.h>

#include "backtrail/names.h"
#include "guest-linux/build-id.h"
#include "guest-linux/kernel.h"

/* Mappings of one process: the kernel's default limit is lower. */
#define LINUX_MAPPINGS_MAX  (1u << 17)

/**
 * struct linux_mapped_file - a file that is mapped
 * @mapping:  address of its address_space
 * @build_id: @build_id_size bytes; 0 if it has none
 * @executed: some of it is mapped to be executed
 */
struct linux_mapped_file {
    uint64_t mapping;
    uint8_t build_id[BUILD_ID_MAX];
    uint32_t build_id_size;
    bool executed;
};

/**
 * struct linux_files - what is known of files in a snapshot
 *
 * @strings: all strings of mappings
 * @paths:   of (mnt, dentry)
 * @mapped:  struct linux_mapped_file, by its @mapping; their build-ids are
 *           those of mappings, too
 */
struct linux_files {
    GStringChunk *strings;
    GHashTable *paths;
    GHashTable *mapped;
};

void linux_files_init(struct linux_files *f);
void linux_files_clear(struct linux_files *f);

/* Returns a path in f->strings, NULL if it cannot be read. */
const char *linux_files_path(struct linux_files *f, struct linux_kernel *k,
                             uint64_t file, bool *deleted);

/*
 * Appends the mappings of an mm_struct to @out (of struct btrail_mapping).
 * Returns false if they changed meanwhile or contradict themselves: @out is
 * then in order and not complete.
 */
bool linux_mappings(struct linux_kernel *k, uint64_t mm,
                    struct linux_files *f, GArray *out);

/*
 * Gets the image of the vdso of a process; returns false if it has none.  The
 * caller frees @data.
 */
bool linux_vdso(struct linux_kernel *k, uint64_t mm, uint8_t **data,
                size_t *size);

#endif /* LINUX_MAPPINGS_H */
