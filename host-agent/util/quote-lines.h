/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Text of another program, for a terminal
 */

#ifndef BTRAIL_QUOTE_LINES_H
#define BTRAIL_QUOTE_LINES_H

#include <glib.h>

/*
 * Appends lines of text: what controls a terminal is quoted, as btrail_quote()
 * does it, except line ends, tabs, and what has been quoted already.
 */
void quote_lines(GString *out, const char *text, size_t n);

#endif /* BTRAIL_QUOTE_LINES_H */
