/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Devices of QEMU that cannot be replayed
 *
 * They act at times that QEMU's log does not have, or pass on what it does not
 * see.
 */

#ifndef BTRAIL_DEVICES_H
#define BTRAIL_DEVICES_H

#include "util/agent-error.h"

/* What to use instead of a type of device, and NULL if it can be replayed */
const char *devices_refuse(const char *type);

/*
 * The devices of QEMU's "info qtree", among them those that no option has
 * named.  False and an error if one cannot be replayed.  *@note gets what a user
 * must know of those that can, if there is anything.
 */
bool devices_check(const char *qtree, const char **note, GError **error);

#endif /* BTRAIL_DEVICES_H */
