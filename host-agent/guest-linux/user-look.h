/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A look without addresses of the kernel
 */

#ifndef BTRAIL_USER_LOOK_H
#define BTRAIL_USER_LOOK_H

#include "backtrail/names.h"

/* What makes numbers of addresses, so that they cannot be found out */
#define BTRAIL_USER_LOOK_KEY    32

/**
 * btrail_user_look_encode - as btrail_look_encode()
 * @key: BTRAIL_USER_LOOK_KEY bytes; with the same key an address space has the
 *       same mm in all looks, which is a number then and no address
 */
int btrail_user_look_encode(const struct btrail_look *look,
                            const uint8_t *key, void **data, size_t *size);

#endif /* BTRAIL_USER_LOOK_H */
