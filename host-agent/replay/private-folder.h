/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Folders that go with the process that they are for
 *
 * Each has a lock, which its owner holds, and its QEMU after it.  A process
 * that is killed leaves a folder whose lock is free: the next one removes it.
 */

#ifndef BTRAIL_PRIVATE_FOLDER_H
#define BTRAIL_PRIVATE_FOLDER_H

#include "util/agent-error.h"

/**
 * private_folder_new - make one, and remove those that nobody owns any more
 * @top:  where they are, such as g_get_tmp_dir()
 * @lock: gets a descriptor that holds the lock, for processes that inherit it,
 *        too
 *
 * Returns its path, to be freed; NULL and an error of errno.
 */
char *private_folder_new(const char *top, int *lock, GError **error);

/* Removes it with all that is in it, and closes the lock. */
void private_folder_remove(const char *folder, int lock);

#endif /* BTRAIL_PRIVATE_FOLDER_H */
