/*
 * What a guest that is replayed writes to its disks
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef REPLAY_DISKS_H
#define REPLAY_DISKS_H

#include "page-versions.h"

/* Bytes of a page of a disk */
#define REPLAY_DISK_PAGE    4096

/*
 * Checks that all that the guest can write to is behind a blkreplay, which
 * reports each write.
 */
bool replay_disks_supported(Error **errp);
bool replay_disks_any(void);

/*
 * From here on, what the guest writes is kept with these versions of pages.
 * From their first moment on, disks are what they are then.
 */
void replay_disks_start(PageVersions *v);
void replay_disks_stop(void);

/* Has a write not been kept?  Then nothing can be put back. */
bool replay_disks_failed(void);

/* Bytes of memory that are used beside the versions, and the number of pages */
uint64_t replay_disks_size(void);
uint64_t replay_disks_changed(void);

/* The name of the disk that a page is of, "" if it has none; where it is there */
const char *replay_disks_name(uint64_t number);
uint64_t replay_disks_page(uint64_t number);

/* The number of the first page of a disk, and how many it has */
bool replay_disks_find(const char *name, uint64_t *first, uint64_t *pages);

/* Sets what was written since the moment before as versions of a new one. */
void replay_disks_keep(uint64_t moment);

/*
 * Makes the disks what they were at a moment.  now is the one that the guest
 * has come from last.
 */
bool replay_disks_put(uint64_t now, uint64_t moment, Error **errp);

#endif
