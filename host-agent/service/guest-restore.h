/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Continuing a capture that another process of the service has started
 */

#ifndef BTRAIL_GUEST_RESTORE_H
#define BTRAIL_GUEST_RESTORE_H

#include "service/guest.h"

/*
 * After btrail_guest_connect(): continue the capture that @state describes,
 * which the device still has.  Takes a reference to @state.
 */
void btrail_guest_restore(struct btrail_guest *g, JsonObject *state);

#endif /* BTRAIL_GUEST_RESTORE_H */
