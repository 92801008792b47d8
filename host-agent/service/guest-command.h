/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Executing the commands of a guest's clients; see docs/service.md
 */

#ifndef BTRAIL_GUEST_COMMAND_H
#define BTRAIL_GUEST_COMMAND_H

#include "service/guest.h"

/* A command from the control connection of @g, to be replied to with @id */
void btrail_guest_command(struct btrail_guest *g, gint64 id,
                          JsonObject *command);

#endif /* BTRAIL_GUEST_COMMAND_H */
