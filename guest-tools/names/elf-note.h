/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The build-id of a program or library
 */

#ifndef BTRAIL_ELF_NOTE_H
#define BTRAIL_ELF_NOTE_H

#include <stdint.h>

#include "backtrail/guest-names.h"

/**
 * elf_note_build_id - read the build-id of an ELF file
 * @path: of the file
 * @inode: that it must have, or 0
 * @id: gets it
 *
 * Returns its size, 0 if there is none.
 */
unsigned elf_note_build_id(const char *path, uint64_t inode,
                           uint8_t id[BTRAIL_GUEST_BUILD_ID_MAX]);

/*
 * The same of a file that stays open: its descriptor, or -1 if it is no regular
 * file.  @size gets that of the build-id
 */
int elf_note_open(const char *path, uint64_t inode,
                  uint8_t id[BTRAIL_GUEST_BUILD_ID_MAX], unsigned *size);

#endif /* BTRAIL_ELF_NOTE_H */
