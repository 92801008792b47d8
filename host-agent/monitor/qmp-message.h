/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Messages of QMP, whichever way they go
 *
 * virsh has this file, too.
 */

#ifndef BTRAIL_QMP_MESSAGE_H
#define BTRAIL_QMP_MESSAGE_H

#include <json-glib/json-glib.h>

#include "util/agent-error.h"

/* The text of a command, one line without its end, to be freed.  @arguments is
 * taken and may be NULL; @id may be 0 for none. */
char *qmp_format(const char *command, JsonObject *arguments, gint64 id);

/* What the reply to a command returns, or NULL and the error in it */
JsonNode *qmp_result(JsonObject *reply, GError **error);

#endif /* BTRAIL_QMP_MESSAGE_H */
