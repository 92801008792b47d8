/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * JSON from untrusted sources, and what JSON of ours has in common
 */

#ifndef BTRAIL_JSON_H
#define BTRAIL_JSON_H

#include <json-glib/json-glib.h>

/**
 * btrail_json_parse_object - parse a JSON object from an untrusted source
 * @text: NUL-terminated
 *
 * NULL if it is not an object, not UTF-8, has what is not JSON outside of
 * strings or no escape inside of them, or is nested deeper than makes sense
 * (json-glib parses with recursion).
 *
 * An integer that does not fit into gint64 is a double, which nobody takes for
 * an integer.  QEMU has such ones among others: its uint64 is of 64 bits.
 */
JsonNode *btrail_json_parse_object(const char *text);

/* A member of an object; NULL, @fallback or FALSE if it has another type. */
const char *btrail_json_string(JsonObject *object, const char *name);
JsonObject *btrail_json_object(JsonObject *object, const char *name);
JsonArray *btrail_json_array(JsonObject *object, const char *name);
gint64 btrail_json_int(JsonObject *object, const char *name, gint64 fallback);
/* The same of an element of an array, which must have it */
gint64 btrail_json_element(JsonArray *array, guint i, gint64 fallback);
gboolean btrail_json_is_true(JsonObject *object, const char *name);

/**
 * btrail_json_add - add members to an object
 *
 * The arguments are pairs of a name and a value; NULL ends them.  The name has
 * a prefix for the type of the value, as in libvirt:
 *   s: string, S: the same, and nothing is added if it is NULL,
 *   u: unsigned, U: 64 bits, X: 64 bits as the string "0x" and 16 digits,
 *   b: bool, d: double, o: JsonObject, a: JsonArray; the last two are taken.
 */
void btrail_json_add(JsonObject *object, ...) G_GNUC_NULL_TERMINATED;

/* A new object with such members */
JsonObject *btrail_json_new(const char *name, ...) G_GNUC_NULL_TERMINATED;

/* Adds copies of all members of @from. */
void btrail_json_add_all(JsonObject *object, JsonObject *from);

/*
 * The text of an object, to be freed; if @pretty, with a line for each member.
 * It is valid JSON whatever strings and numbers are in it, and the strings are
 * quoted as by btrail_quote_json(): json_to_string() writes "1e+308.0", U+001F
 * and bytes that are not UTF-8.  A number that is not finite becomes null.
 */
char *btrail_json_text(JsonObject *object, gboolean pretty);

/*
 * Adds a time as in 2024-02-29T23:59:59Z.  @seconds are since 1970.  A time
 * whose year does not have four digits is left out.
 */
void btrail_json_set_time(JsonObject *object, const char *name,
                          gint64 seconds);

#endif /* BTRAIL_JSON_H */
