/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Bytes as people write them: text in quotation marks, with the escapes that
 * quote.h has
 */

#ifndef BTRAIL_UNQUOTE_H
#define BTRAIL_UNQUOTE_H

#include <stddef.h>

/**
 * unquote - the bytes of a text that begins with a quotation mark
 * @end: gets what is after the closing one
 * @n:   gets how many bytes there are, which can be 0 themselves
 *
 * Escapes are \x and two digits, for a byte; \u and four, or \U and eight, for
 * a character as UTF-8; \a \b \e \f \n \r \t \v \0 \\ \" and \'.  Returns the
 * bytes and a 0 after them, to be freed; NULL if the text is no such thing.
 */
char *unquote(const char *text, const char **end, size_t *n);

#endif /* BTRAIL_UNQUOTE_H */
