/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files of a guest out of its disk, by guestfish of libguestfs
 */

#ifndef BTRAIL_DISK_IMAGE_H
#define BTRAIL_DISK_IMAGE_H

#include "symbolize/elf-files.h"

/**
 * disk_image_copy - copy files that a trace has mapped, and that are missing
 * @disks: images of one guest; a format can come before one, as in "raw:PATH"
 * @files: finds those that are not missing
 *
 * Only files with a build-id are copied, to elf_files_images(), and all by one
 * run of guestfish.
 * Returns false after an error message.
 */
bool disk_image_copy(const struct btrail_trace *trace, char *const *disks,
                struct elf_files *files);

#endif /* BTRAIL_DISK_IMAGE_H */
