/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files of a guest from itself, by its backtrail-guest-names
 */

#ifndef BTRAIL_GUEST_FILES_H
#define BTRAIL_GUEST_FILES_H

#include "backtrail/names.h"
#include "symbolize/elf-files.h"

/**
 * guest_files_copy - copy files that a trace has mapped, and that are missing
 * @path:  the unix socket of the guest's port
 * @files: finds those that are not missing
 *
 * Only files with a build-id are copied, to elf_files_images().  Returns false
 * after an error message.
 */
bool guest_files_copy(const struct btrail_trace *trace, const char *path,
                      struct elf_files *files);

#endif /* BTRAIL_GUEST_FILES_H */
