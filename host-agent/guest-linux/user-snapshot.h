/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Snapshots for sessions that see only user mode: without addresses of the
 * kernel
 */

#ifndef BTRAIL_USER_SNAPSHOT_H
#define BTRAIL_USER_SNAPSHOT_H

#include "backtrail/names.h"

/* The size of the key that hides addresses */
#define USER_SNAPSHOT_KEY    32

/**
 * snapshot_encode_user - as btrail_snapshot_encode(), without addresses
 * @key: USER_SNAPSHOT_KEY random bytes.  The mm of an address space is a
 *       number and not an address, the same one in all snapshots with this key
 */
int snapshot_encode_user(const struct btrail_snapshot *snapshot,
                         const uint8_t *key, void **data,
                         size_t *size);

#endif /* BTRAIL_USER_SNAPSHOT_H */
