/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A key of this user, for what only this user can have made
 */

#ifndef BTRAIL_USER_KEY_H
#define BTRAIL_USER_KEY_H

#include "util/agent-error.h"

#define USER_KEY_SIZE    32

/**
 * user_key_get - read the key, which is in ~/.local/state/backtrail/key
 * @make: make one if there is none yet
 *
 * Errors: SYSTEM (it cannot be read or made), PROTOCOL (others can read or
 * write it, so that it is worth nothing).
 */
bool user_key_get(uint8_t key[USER_KEY_SIZE], bool make,
                  GError **error);

#endif /* BTRAIL_USER_KEY_H */
