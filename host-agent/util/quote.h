/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names that a guest, a file or a peer has chosen, for people and in JSON
 *
 * A character that is not seen, or that changes what is seen, is replaced by
 * an escape: control characters (C0, DEL, C1), line and paragraph separators,
 * format characters (direction of text, zero width), what Unicode has not
 * assigned, and bytes that are not UTF-8.  All others stay as they are.
 */

#ifndef BTRAIL_QUOTE_H
#define BTRAIL_QUOTE_H

#include <glib.h>

/**
 * btrail_quote - quote text for people
 * @also: more characters to escape, of ASCII
 *
 * Escapes are those of C: \n, \x1b (a byte), \u202e, \U000e0001; and \\ for a
 * backslash, so that different texts stay different.  The result has one line
 * and is to be freed.
 */
char *btrail_quote(const char *text, const char *also);
void btrail_quote_append(GString *out, const char *text, const char *also);

/*
 * Appends text with JSON's escapes, by which a parser has it as it was.  What is
 * not UTF-8 becomes U+FFFD.  Without @also, this is for JSON whose strings have
 * escapes where JSON demands them.
 */
void btrail_quote_json(GString *out, const char *text, const char *also);

/* What @also has to be for the inside of a string */
#define BTRAIL_QUOTE_STRING "\"\\"

#endif /* BTRAIL_QUOTE_H */
