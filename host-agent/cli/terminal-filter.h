/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a guest writes to a terminal, without what is more than writing
 *
 * Text, colours and the place of the cursor pass.  What is left out: titles,
 * the clipboard and other commands in strings; reports, except that of the
 * cursor, which a terminal sends as if its user had typed them; modes that make
 * it send more than what is typed; controls of eight bits; all that is not
 * known here.
 */

#ifndef BTRAIL_CLI_TERMINAL_FILTER_H
#define BTRAIL_CLI_TERMINAL_FILTER_H

#include <glib.h>
#include <stdint.h>

#define TERMINAL_FILTER_SEQUENCE    64

/* All zero in the beginning */
struct terminal_filter {
    unsigned state;
    unsigned n;                 /* bytes of @sequence */
    char sequence[TERMINAL_FILTER_SEQUENCE];
};

/* What passes of the next bytes is appended. */
void terminal_filter(struct terminal_filter *f, const char *bytes, size_t n,
                     GString *out);

/*
 * What takes back what can have passed: to the normal screen, with a cursor, and
 * no colours
 */
extern const char terminal_filter_end[];

#endif /* BTRAIL_CLI_TERMINAL_FILTER_H */
