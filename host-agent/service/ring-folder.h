/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The folder in which a flight recorder has its ring, in that of its guest
 *
 * Whoever makes one holds a lock on it as long as it records.  The kernel
 * releases it with the process, so a ring that nobody holds was left by a
 * process.  The state names such a ring (see state.h), unless the process was
 * killed between the two.
 */

#ifndef BTRAIL_RING_FOLDER_H
#define BTRAIL_RING_FOLDER_H

#include "service/folder.h"

/*
 * Make one.  Returns its descriptor, which has the lock and is the caller's, or
 * -1; @name gets its name, to be freed.
 */
int part_ring_folder_make(const struct folder *folder, char **name,
                     GError **error);

/*
 * Remove the rings in a guest's folder in which there are no records, and that
 * nobody holds.
 */
void part_ring_folder_remove_left(const struct folder *folder);

#endif /* BTRAIL_RING_FOLDER_H */
