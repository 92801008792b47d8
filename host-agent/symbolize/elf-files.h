/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finding the ELF files of a guest on the host
 */

#ifndef BTRAIL_ELF_FILES_H
#define BTRAIL_ELF_FILES_H

#include "symbolize/debuginfod.h"
#include "symbolize/elf-file.h"

struct elf_files;

/**
 * struct elf_files_options - where to search; each can be NULL
 * @sysroots:   folders that have the guest's files at the guest's paths
 * @debug_dirs: folders of files by build-id, in the form of a debuginfod
 *              client's cache (ID/debuginfo, ID/executable) or of
 *              /usr/lib/debug (.build-id/xx/yyyy, .debug, with or without
 *              the .build-id)
 * @debuginfod: fetches what is in none of them, if not NULL; the caller's
 *
 * Arrays end with NULL and are copied.
 */
struct elf_files_options {
    char *const *sysroots;
    char *const *debug_dirs;
    struct debuginfod *debuginfod;
};

/* The folder with files that were copied out of guests' disks, to be freed */
char *elf_files_images(void);

/*
 * The user's own folders are searched, too: $DEBUGINFOD_CACHE_PATH or
 * ~/.cache/debuginfod_client, elf_files_images(), and /usr/lib/debug.
 */
struct elf_files *elf_files_new(const struct elf_files_options *options);
void elf_files_free(struct elf_files *files);

/**
 * elf_files_get - the ELF file that is @path in the guest
 * @path:     an absolute path in the guest, or NULL
 * @build_id: in digits, or NULL
 *
 * With @build_id, a file with another one is ignored.  Without it, only the
 * sysroots are searched, never the host's own root.  The file comes with its
 * debugging information, if that is found.
 *
 * Returns a file that lives as long as @files, or NULL.
 */
struct elf_file *elf_files_get(struct elf_files *files, const char *path,
                               const char *build_id);

/*
 * Adds an ELF image that is in no file.  It is found by its build-id, or as
 * @path without one.  False if it is not an ELF image.
 */
bool elf_files_add_image(struct elf_files *files, const char *path,
                         const void *image, size_t size);

/*
 * Adds an ELF image with the functions of a file, which is used where the file
 * is not found, in the place of one with the same build-id.  False if it is no
 * such image.
 */
bool elf_files_add_functions(struct elf_files *files, const void *image,
                             size_t size);

/*
 * The same of a file that is ours, of any size and besides any number.  Returns
 * its build-id, in digits, or NULL.
 */
const char *elf_files_add_own(struct elf_files *files, const void *image,
                              size_t size);

/*
 * The path on the host of the file that is @path in the guest whose root
 * @sysroot is.  Symbolic links are followed as the guest would, and lead to
 * nothing else.  NULL if there is no such file; otherwise to be freed.
 */
char *elf_files_resolve(const char *sysroot, const char *path);

/* The ELF file @path on the host, with its debugging information */
struct elf_file *elf_files_host(struct elf_files *files, const char *path);

#endif /* BTRAIL_ELF_FILES_H */
