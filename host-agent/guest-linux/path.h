/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Paths of open files
 */

#ifndef LINUX_PATH_H
#define LINUX_PATH_H

#include "guest-linux/kernel.h"

#define LINUX_PATH_MAX  4096

/*
 * Gets the path of a struct file, from the root of the mounts that it is seen
 * through, and whether the file was deleted.  Returns false if it cannot be
 * read.
 */
bool linux_path(struct linux_kernel *k, uint64_t file,
                char path[LINUX_PATH_MAX], bool *deleted);

#endif /* LINUX_PATH_H */
