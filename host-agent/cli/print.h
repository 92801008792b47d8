/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Text for people: all that the command prints except the formats of other
 * programs
 *
 * A guest, a trace and a peer choose names.  None of them controls a terminal,
 * or makes a line, because each string is quoted where it leaves; the format
 * itself, which is ours, is not.
 */

#ifndef BTRAIL_CLI_PRINT_H
#define BTRAIL_CLI_PRINT_H

#include <glib.h>
#include <stdio.h>

/*
 * As printf() and fprintf(), with each %s as btrail_quote() returns it.  The
 * width of a string is in characters, and it has no precision.
 */
void cli_printf(const char *format, ...) G_GNUC_PRINTF(1, 2);
void cli_fprintf(FILE *out, const char *format, ...) G_GNUC_PRINTF(2, 3);

/*
 * What cli_printf() prints from cli_hold() up to cli_held() is a header: it is
 * printed with what comes next, if there is something, and not before that or
 * cli_drop_held().
 */
void cli_hold(void);
void cli_held(void);
void cli_drop_held(void);

/* The number of characters that a string has when it is printed */
int cli_width(const char *text);

/*
 * Prints lines of a backtrail of another host, which can be anybody's: what
 * controls a terminal is quoted, and not again what was quoted there.
 */
void cli_print_foreign(FILE *out, const char *text, size_t n);

/* Prints "backtrail: ", a message and a line end to stderr. */
void cli_error(const char *format, ...) G_GNUC_PRINTF(1, 2);

#endif /* BTRAIL_CLI_PRINT_H */
