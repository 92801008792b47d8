/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Text of another program: see quote-lines.h
 */

#include <string.h>

#include "util/quote-lines.h"
#include "util/quote.h"

void quote_lines(GString *out, const char *text, size_t n)
{
    const char *end = text + n;

    while (text < end) {
        g_autofree char *part = NULL;
        size_t length = 0;

        for (; text + length < end && text[length] &&
             !strchr("\\\n\t", text[length]); length++) {
        }
        part = g_strndup(text, length);
        btrail_quote_append(out, part, "");
        text += length;
        if (text < end) {
            /* A byte that is in no text is shown as a byte. */
            g_string_append(out, *text ? "" : "\\x00");
            g_string_append_len(out, text, !!*text);
            text++;
        }
    }
}
