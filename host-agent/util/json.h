/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * JSON from others, and what ours has in common
 */

#ifndef BTRAIL_JSON_H
#define BTRAIL_JSON_H

#include <json-glib/json-glib.h>

/**
 * btrail_json_parse_object - parse a JSON object that nobody vouches for
 * @text: NUL-terminated
 *
 * NULL if it is not an object, not UTF-8, or nested deeper than makes sense
 * (json-glib parses with recursion).
 */
JsonNode *btrail_json_parse_object(const char *text);

/* Members of an object, whatever their type is: NULL, or @fallback, if it is
 * another one. */
const char *btrail_json_string(JsonObject *object, const char *name);
JsonObject *btrail_json_object(JsonObject *object, const char *name);
gint64 btrail_json_int(JsonObject *object, const char *name, gint64 fallback);

/*
 * A time, of so many seconds since 1970, as in 2024-02-29T23:59:59Z; none that
 * is not in years of four digits.
 */
void btrail_json_set_time(JsonObject *object, const char *name,
                          gint64 seconds);

#endif /* BTRAIL_JSON_H */
