/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Bytes as people write them: see unquote.h
 */

#include <glib.h>
#include <stdbool.h>
#include <string.h>

#include "util/unquote.h"

static bool take_digits(const char **text, unsigned digits, gunichar *value)
{
    for (*value = 0; digits; digits--, (*text)++) {
        if (!g_ascii_isxdigit(**text)) {
            return false;
        }
        *value = *value << 4 | g_ascii_xdigit_value(**text);
    }
    return true;
}

/* What is after a backslash */
static bool take_escape(const char **text, GString *out)
{
    static const char letters[] = "abefnrtv0\\\"'";
    static const char characters[] = "\a\b\033\f\n\r\t\v\0\\\"'";
    char letter = *(*text)++;
    const char *known = letter ? strchr(letters, letter) : NULL;
    gunichar value;

    if (known) {
        g_string_append_c(out, characters[known - letters]);
        return true;
    }
    if (letter == 'x') {
        if (!take_digits(text, 2, &value)) {
            return false;
        }
        g_string_append_c(out, value);
        return true;
    }
    if ((letter != 'u' && letter != 'U') ||
        !take_digits(text, letter == 'u' ? 4 : 8, &value) ||
        !g_unichar_validate(value)) {
        return false;
    }
    g_string_append_unichar(out, value);
    return true;
}

char *unquote(const char *text, const char **end, size_t *n)
{
    g_autoptr(GString) out = g_string_new(NULL);

    if (*text++ != '"') {
        return NULL;
    }
    while (*text != '"') {
        if (!*text) {
            return NULL;
        }
        if (*text != '\\') {
            g_string_append_c(out, *text++);
            continue;
        }
        text++;
        if (!take_escape(&text, out)) {
            return NULL;
        }
    }
    *end = text + 1;
    *n = out->len;
    return g_string_free(g_steal_pointer(&out), FALSE);
}
