/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Continuing a capture that another process of the service has started
 */

#ifndef BTRAIL_GUEST_RESTORE_H
#define BTRAIL_GUEST_RESTORE_H

#include "service/guest.h"

/*
 * After guest_connect(): continue a capture of another process that the
 * device still has, and that @state describes (see service-state.h).
 */
void guest_restore(struct guest *g, JsonObject *state);

#endif /* BTRAIL_GUEST_RESTORE_H */
