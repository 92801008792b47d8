/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where PROCESS:FUNCTION is split: see last-colon.h
 */

#include <glib.h>
#include <string.h>

#include "util/last-colon.h"

/* In a name */
struct bracket_depth {
    unsigned round;             /* ( [ { */
    unsigned angle;             /* <, as far as it is no sign */
};

/* How long the name of an operator is whose sign can be mistaken */
static size_t operator_size(const char *text, const char *c)
{
    static const char *const signs[] = {
        "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "<", ">",
        ",",
    };
    const size_t n = strlen("operator");

    if (strncmp(c, "operator", n) ||
        (c > text && (g_ascii_isalnum(c[-1]) || c[-1] == '_'))) {
        return 0;
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(signs); i++) {
        if (g_str_has_prefix(c + n, signs[i])) {
            return n + strlen(signs[i]);
        }
    }
    return 0;
}

/* A constant of Rust, such as '<', unlike the lifetime 'a */
static size_t constant_size(const char *c)
{
    if (*c != '\'' || !c[1]) {
        return 0;
    }
    if (c[1] == '\\') {
        return c[2] && c[3] == '\'' ? 4 : 0;
    }
    return c[1] != '\'' && c[2] == '\'' ? 3 : 0;
}

/* Takes a character; false if it closes what is not open. */
static bool take(struct bracket_depth *d, const char *text, const char *c)
{
    switch (*c) {
    case '(':
    case '[':
    case '{':
        d->round++;
        return true;
    case ')':
    case ']':
    case '}':
        return d->round && d->round--;
    case '<':
        /* In parentheses, it can be an operator in an expression. */
        d->angle += !d->round;
        return true;
    case '>':
        /* It is no bracket in the arrow of a function's type in Rust. */
        return d->round || (c > text && c[-1] == '-') ||
               (d->angle && d->angle--);
    default:
        return true;
    }
}

/*
 * The first character in no bracket that is @wanted, or the end.  NULL if
 * brackets do not match up to there.
 */
static const char *find_outside(const char *text, char wanted)
{
    struct bracket_depth d = { 0 };
    const char *c = text;

    while (*c) {
        size_t n = constant_size(c);

        if (!n && !d.round) {
            n = operator_size(text, c);
        }
        if (n) {
            c += n;
            continue;
        }
        if (*c == wanted && !d.round && !d.angle) {
            return c;
        }
        if (!take(&d, text, c)) {
            return NULL;
        }
        c++;
    }
    return d.round || d.angle ? NULL : c;
}

bool last_colon_closed(const char *function)
{
    return find_outside(function, '\0');
}

const char *last_colon(const char *text)
{
    for (const char *c = text + strlen(text); c-- > text;) {
        if (*c == ':' && c > text && c[-1] == ':') {
            c--;
        } else if (*c == ':' && last_colon_closed(c + 1)) {
            return c;
        }
    }
    return NULL;
}

const char *last_colon_comma(const char *function)
{
    const char *c = find_outside(function, ',');

    return c && *c ? c : NULL;
}
