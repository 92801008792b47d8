/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A snapshot without addresses of the kernel
 */

#ifndef BTRAIL_USER_SNAPSHOT_H
#define BTRAIL_USER_SNAPSHOT_H

#include "backtrail/names.h"

/* What makes numbers of addresses, so that they cannot be found out */
#define BTRAIL_USER_SNAPSHOT_KEY    32

/**
 * btrail_snapshot_encode_user - as btrail_snapshot_encode()
 * @key: BTRAIL_USER_SNAPSHOT_KEY bytes; with the same key an address space has the
 *       same mm in all snapshots, which is a number then and no address
 */
int btrail_snapshot_encode_user(const struct btrail_snapshot *snapshot,
                            const uint8_t *key, void **data, size_t *size);

#endif /* BTRAIL_USER_SNAPSHOT_H */
