/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a guest writes to a terminal: see terminal-filter.h
 */

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/terminal-filter.h"

/* Larger ones mean nothing to a screen. */
#define MAX_PARAMETER   9999

enum {
    GROUND,
    CHARACTER,          /* of several bytes */
    ESCAPE,
    CHARSET,
    COMMAND,            /* after ESC [ */
    STRING,             /* up to BEL or ESC \ */
    STRING_ESCAPE,
};

/* Final bytes of commands that write, erase, scroll, colour and move the
 * cursor; and of those with '?', which have modes */
static const char commands[] = "@ABCDEFGHIJKLMPSTXZ`abdefgmrsu";
static const char erasing[] = "JK";
/* Cursor keys, wrapping, the cursor, and the other screen */
static const unsigned modes[] = { 1, 7, 12, 25, 47, 1047, 1048, 1049 };

const char terminal_filter_end[] =
    "\033[m\033(B\033[r\033[?1l\033[?7h\033[?25h\033[?47l\033[?1049l\033>";

static void begin(struct terminal_filter *f, unsigned state)
{
    f->state = state;
    f->n = 0;
}

/* False if it is longer than any that passes */
static bool keep(struct terminal_filter *f, char c)
{
    if (f->n == sizeof(f->sequence)) {
        return false;
    }
    f->sequence[f->n++] = c;
    return true;
}

static bool is_mode(unsigned long number)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(modes); i++) {
        if (modes[i] == number) {
            return true;
        }
    }
    return false;
}

/* Parameters are numbers, and of what has modes only those that are known. */
static bool are_parameters(const char *text, size_t n, bool only_modes)
{
    g_autofree char *copy = g_strndup(text, n);
    g_auto(GStrv) numbers = g_strsplit_set(copy, ";:", -1);

    for (char **number = numbers; *number; number++) {
        unsigned long value = strtoul(*number, NULL, 10);

        if (strspn(*number, "0123456789") != strlen(*number) ||
            strlen(*number) > 9 || value > MAX_PARAMETER ||
            (only_modes && !is_mode(value))) {
            return false;
        }
    }
    return true;
}

/* Of what is between ESC [ and @final */
static bool may_pass(const struct terminal_filter *f, char final)
{
    const char *p = f->sequence;
    size_t n = f->n;

    if (n && *p == '?') {
        return (final == 'h' || final == 'l' ?
                are_parameters(p + 1, n - 1, true) :
                strchr(erasing, final) && are_parameters(p + 1, n - 1, false));
    }
    if (final == 'n') {
        return n == 1 && *p == '6';
    }
    if (final == 'h' || final == 'l') {
        return n == 1 && *p == '4';
    }
    return strchr(commands, final) && are_parameters(p, n, false);
}

static void end_command(struct terminal_filter *f, char final, GString *out)
{
    if (may_pass(f, final)) {
        g_string_append_len(out, "\033[", 2);
        g_string_append_len(out, f->sequence, f->n);
        g_string_append_c(out, final);
    }
    begin(f, GROUND);
}

static void take_escape(struct terminal_filter *f, unsigned char c,
                        GString *out)
{
    if (c == '[') {
        begin(f, COMMAND);
    } else if (strchr("]PX^_k", c)) {
        begin(f, STRING);
    } else if (c == '(' || c == ')') {
        begin(f, CHARSET);
        keep(f, (char)c);
    } else {
        if (strchr("78DEHM=>", c)) {
            g_string_append_c(out, '\033');
            g_string_append_c(out, (char)c);
        }
        begin(f, GROUND);
    }
}

/* A command's length in the first byte of UTF-8; 0 if it is none */
static unsigned length_of(unsigned char c)
{
    return c >= 0xc2 && c <= 0xdf ? 2 : c >= 0xe0 && c <= 0xef ? 3 :
           c >= 0xf0 && c <= 0xf4 ? 4 : 0;
}

static void take_character(struct terminal_filter *f, GString *out)
{
    if (f->n == length_of((unsigned char)f->sequence[0])) {
        gunichar c = g_utf8_get_char_validated(f->sequence, f->n);

        /* From U+0080 on, there are controls. */
        if (c >= 0xa0 && c != (gunichar)-1 && c != (gunichar)-2) {
            g_string_append_len(out, f->sequence, f->n);
        } else {
            g_string_append_c(out, '?');
        }
        begin(f, GROUND);
    }
}

static void take_ground(struct terminal_filter *f, unsigned char c,
                        GString *out)
{
    if (c == 033) {
        begin(f, ESCAPE);
    } else if (length_of(c)) {
        begin(f, CHARACTER);
        keep(f, (char)c);
    } else if (c >= 0x80) {
        g_string_append_c(out, '?');
    } else if ((c >= ' ' && c < 0x7f) || (c && strchr("\a\b\t\n\v\f\r", c))) {
        g_string_append_c(out, (char)c);
    }
}

static void take(struct terminal_filter *f, unsigned char c, GString *out)
{
    switch (f->state) {
    case CHARACTER:
        if (c >> 6 == 2) {
            keep(f, (char)c);
            take_character(f, out);
            return;
        }
        g_string_append_c(out, '?');
        begin(f, GROUND);
        break;
    case ESCAPE:
        if (c >= ' ' && c < 0x7f) {
            take_escape(f, c, out);
            return;
        }
        begin(f, GROUND);
        break;
    case CHARSET:
        if (strchr("0AB", c) && c) {
            g_string_append_c(out, '\033');
            g_string_append_c(out, f->sequence[0]);
            g_string_append_c(out, (char)c);
            begin(f, GROUND);
            return;
        }
        begin(f, GROUND);
        break;
    case COMMAND:
        if (c >= '@' && c < 0x7f) {
            end_command(f, (char)c, out);
            return;
        }
        if (c >= ' ' && c < '@') {
            /* One that is too long has a parameter that is none. */
            if (!keep(f, (char)c)) {
                f->sequence[0] = '!';
            }
            return;
        }
        begin(f, GROUND);
        break;
    case STRING:
        if (c == '\a' || c == 030 || c == 032) {
            begin(f, GROUND);
        } else if (c == 033) {
            begin(f, STRING_ESCAPE);
        }
        return;
    case STRING_ESCAPE:
        begin(f, c == '\\' ? GROUND : c == 033 ? STRING_ESCAPE : STRING);
        return;
    default:
        break;
    }
    take_ground(f, c, out);
}

void terminal_filter(struct terminal_filter *f, const char *bytes, size_t n,
                     GString *out)
{
    for (size_t i = 0; i < n; i++) {
        take(f, (unsigned char)bytes[i], out);
    }
}
