/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files that a trace has mapped and that the host does not have, as far as their
 * build-ids are known
 *
 * Those that are brought from the guest go to elf_files_images(), by their
 * build-ids.
 */

#ifndef BTRAIL_MISSING_FILES_H
#define BTRAIL_MISSING_FILES_H

#include "backtrail/names.h"
#include "symbolize/elf-files.h"

/* @path: in the guest; @pid: of a process that had it mapped */
struct missing_file {
    char *path;
    uint32_t pid;
};

/*
 * {build-id in digits: struct missing_file}; @files finds those that are not
 * missing.  To be unreferenced
 */
GHashTable *missing_files_new(const struct btrail_trace *trace,
                              struct elf_files *files);

/* Reports that an option, which searches @there, has not found some of @all. */
void missing_files_report(const char *option, const char *there,
                          unsigned found, unsigned all);

/* Where a file goes; the folder is made.  To be freed; NULL after an error. */
char *missing_file_place(const char *folder, const char *id);

/* Removes a file that is another one than was wanted.  Is it there? */
bool missing_file_keep(const char *path, const char *id);

#endif /* BTRAIL_MISSING_FILES_H */
