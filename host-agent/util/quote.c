/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Quoting: see quote.h
 */

#include <stdbool.h>
#include <string.h>

#include "util/quote.h"

/* What g_utf8_get_char_validated() returns for other bytes is larger. */
#define MAX_CHARACTER   0x10ffff

static bool is_plain(gunichar c)
{
    GUnicodeType type = g_unichar_type(c);

    return c <= MAX_CHARACTER && g_unichar_isprint(c) &&
           type != G_UNICODE_LINE_SEPARATOR &&
           type != G_UNICODE_PARAGRAPH_SEPARATOR;
}

/* Puts an escape of one letter, if there is one.  JSON has not all of C's. */
static bool put_letter(GString *out, gunichar c, bool json)
{
    static const char characters[] = "\b\t\n\f\r\\\"\a\v";
    static const char letters[] = "btnfr\\\"av";
    const char *known = c < 0x80 ? strchr(characters, c) : NULL;

    if (!known || (json && known - characters >= 7)) {
        return false;
    }
    g_string_append_c(out, '\\');
    g_string_append_c(out, letters[known - characters]);
    return true;
}

static void put_c_escape(GString *out, gunichar c)
{
    if (!put_letter(out, c, false)) {
        g_string_append_printf(out, c < 0x80 ? "\\x%02x" :
                               c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
    }
}

static void put_json_escape(GString *out, gunichar c)
{
    if (put_letter(out, c, true)) {
        return;
    }
    if (c >= 0x10000) {
        g_string_append_printf(out, "\\u%04x", 0xd7c0 + (c >> 10));
        c = 0xdc00 + (c & 0x3ff);
    }
    g_string_append_printf(out, "\\u%04x", c);
}

static void quote(GString *out, const char *text, const char *also, bool json)
{
    const char *plain = text;

    for (;;) {
        const char *next = text + 1;
        gunichar c = (unsigned char)*text;

        if (c >= 0x80) {
            c = g_utf8_get_char_validated(text, -1);
            if (c <= MAX_CHARACTER) {
                next = g_utf8_next_char(text);
            }
        }
        if (c < 0x80 ? c >= ' ' && c != 0x7f && (json || c != '\\') &&
                       !(*also && strchr(also, c)) : is_plain(c)) {
            text = next;
            continue;
        }
        g_string_append_len(out, plain, text - plain);
        if (!*text) {
            break;
        }
        if (c <= MAX_CHARACTER) {
            (json ? put_json_escape : put_c_escape)(out, c);
        } else if (json) {
            g_string_append_unichar(out, 0xfffd);
        } else {
            g_string_append_printf(out, "\\x%02x", (unsigned char)*text);
        }
        plain = text = next;
    }
}

void btrail_quote_append(GString *out, const char *text, const char *also)
{
    quote(out, text, also, false);
}

char *btrail_quote(const char *text, const char *also)
{
    GString *out = g_string_new(NULL);

    btrail_quote_append(out, text, also);
    return g_string_free(out, FALSE);
}

void btrail_quote_json(GString *out, const char *text, const char *also)
{
    quote(out, text, also, true);
}
