/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The commands of a guest's clients
 */

#ifndef BTRAIL_GUEST_COMMAND_H
#define BTRAIL_GUEST_COMMAND_H

#include "service/guest.h"

/* A command from the guest's control connection, to be replied to with @id */
void guest_command(struct guest *g, gint64 id,
                   JsonObject *command);

#endif /* BTRAIL_GUEST_COMMAND_H */
