/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Triggers as people write and read them
 *
 * PLACE[,do=ACTION][,hits=N][,longer=TIME][,until=MARK][,once].  The service
 * decides what is a place.
 */

#ifndef BTRAIL_CLIENT_TRIGGER_TEXT_H
#define BTRAIL_CLIENT_TRIGGER_TEXT_H

#include <json-glib/json-glib.h>

/*
 * The mark that a place names, from its "mark:" on, or NULL.  "p:mark::f" is a
 * function, so only a mark of anybody can have a name that begins with a colon.
 */
const char *trigger_mark(const char *place);

/**
 * trigger_parse - the trigger of a command
 * @action: if the text has none: enum trigger_action
 *
 * Errors: G_OPTION_ERROR.
 */
JsonObject *trigger_parse(const char *text, unsigned action, GError **error);

/*
 * A trigger of the service's answer, to be freed: as trigger_parse() takes it,
 * and then the number of its places
 */
char *trigger_text(JsonObject *trigger);

#endif /* BTRAIL_CLIENT_TRIGGER_TEXT_H */
