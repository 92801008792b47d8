/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Dumps of a guest's flight recorders (mode "last"): those being written, and
 * the last ones that are done
 */

#ifndef BTRAIL_GUEST_DUMP_H
#define BTRAIL_GUEST_DUMP_H

#include "service/guest-member.h"

/*
 * Begin a dump of @m for the command @id; -1 if no client waits.  @file is
 * NULL for a default name.  @dumps, of the guest, must live until the session
 * is done.
 */
bool guest_dump_start(GQueue *dumps, struct guest_member *m, gint64 id,
                      const char *file, enum service_session_why why,
                      GError **error);

/* Add the status of the dumps of a session, of all if @session is NULL. */
void guest_dump_add_status(GQueue *dumps, const char *session,
                           JsonArray *status);

/* Forget all; none is being written. */
void guest_dump_clear(GQueue *dumps);

#endif /* BTRAIL_GUEST_DUMP_H */
