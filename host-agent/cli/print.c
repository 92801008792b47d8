/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Text for people: see print.h
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/print.h"
#include "util/quote-lines.h"
#include "util/quote.h"

static void put_string(GString *line, const char *text, int width, bool left)
{
    size_t begin = line->len, end;
    int n;

    btrail_quote_append(line, text ? text : "(null)", "");
    n = width - (int)g_utf8_strlen(line->str + begin, -1);
    end = left ? line->len : begin;
    for (; n > 0; n--) {
        g_string_insert_c(line, end, ' ');
    }
}

/*
 * Appends one conversion, which begins after its '%'.  Returns where it ends.
 * printf() itself prints numbers.
 */
static const char *put_conversion(GString *line, const char *p, va_list *args)
{
    size_t flags = strspn(p, "-+ #0'"), longs;
    bool left = memchr(p, '-', flags);
    g_autoptr(GString) spec = g_string_new("%");
    int width;

    g_string_append_len(spec, p, flags);
    p += flags;
    if (*p == '*') {
        width = va_arg(*args, int);
        g_string_append_printf(spec, "%d", width);
        p++;
    } else {
        size_t n = strspn(p, "0123456789.");

        width = atoi(p);
        g_string_append_len(spec, p, n);
        p += n;
    }
    longs = strspn(p, "lz");
    g_string_append_len(spec, p, longs + 1);
    p += longs;
    switch (*p) {
    case 's':
        put_string(line, va_arg(*args, const char *), width, left);
        break;
    case 'c':
    case 'd':
    case 'u':
    case 'x':
        /* long, long long and size_t have as many bits. */
        if (longs) {
            g_string_append_printf(line, spec->str, va_arg(*args, long));
        } else {
            g_string_append_printf(line, spec->str, va_arg(*args, int));
        }
        break;
    case 'f':
    case 'g':
        g_string_append_printf(line, spec->str, va_arg(*args, double));
        break;
    case '%':
        g_string_append_c(line, '%');
        break;
    default:
        g_error("cli_printf() does not know %s", spec->str);
    }
    return p + 1;
}

/* Is a string printed as it is, with as many characters as bytes? */
static bool is_plain(const char *text)
{
    for (; text && *text >= ' ' && *text < 0x7f && *text != '\\'; text++) {
    }
    return !text || !*text;
}

/* Are all strings printed as they are?  printf() itself is fast. */
static bool all_plain(const char *format, va_list args)
{
    bool plain = true;
    va_list rest;

    va_copy(rest, args);
    for (const char *p = format; plain && (p = strchr(p, '%')); p++) {
        size_t longs;

        p += 1 + strspn(p + 1, "-+ #'0123456789.");
        if (*p == '*') {
            va_arg(rest, int);
            p++;
        }
        longs = strspn(p, "lz");
        p += longs;
        if (*p == 's') {
            plain = is_plain(va_arg(rest, const char *));
        } else if (*p == 'f' || *p == 'g') {
            va_arg(rest, double);
        } else if (longs) {
            va_arg(rest, long);
        } else if (*p != '%') {
            va_arg(rest, int);
        }
    }
    va_end(rest);
    return plain;
}

static void G_GNUC_PRINTF(2, 0) append(GString *line, const char *format,
                                       va_list args)
{
    va_list rest;

    /* A parameter of this type may be an array, which has no address. */
    va_copy(rest, args);
    while (*format) {
        size_t n = strcspn(format, "%");

        g_string_append_len(line, format, n);
        format += n;
        if (*format) {
            format = put_conversion(line, format + 1, &rest);
        }
    }
    va_end(rest);
}

static void G_GNUC_PRINTF(2, 0) print(FILE *out, const char *format,
                                      va_list args)
{
    g_autoptr(GString) line = NULL;

    if (all_plain(format, args)) {
        vfprintf(out, format, args);
        return;
    }
    line = g_string_new(NULL);
    append(line, format, args);
    fwrite(line->str, 1, line->len, out);
}

/* A header that is not printed yet, or NULL; more of it is to come */
static GString *header;
static bool holding;

void cli_hold(void)
{
    cli_drop_held();
    header = g_string_new(NULL);
    holding = true;
}

void cli_held(void)
{
    holding = false;
}

void cli_drop_held(void)
{
    if (header) {
        g_string_free(header, TRUE);
    }
    header = NULL;
    holding = false;
}

void cli_printf(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (holding) {
        append(header, format, args);
    } else {
        if (header) {
            fwrite(header->str, 1, header->len, stdout);
            cli_drop_held();
        }
        print(stdout, format, args);
    }
    va_end(args);
}

void cli_fprintf(FILE *out, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    print(out, format, args);
    va_end(args);
}

void cli_error(const char *format, ...)
{
    g_autofree char *line = g_strdup_printf("backtrail: %s\n", format);
    va_list args;

    va_start(args, format);
    print(stderr, line, args);
    va_end(args);
}

void cli_print_foreign(FILE *out, const char *text, size_t n)
{
    g_autoptr(GString) quoted = g_string_new(NULL);

    quote_lines(quoted, text, n);
    fwrite(quoted->str, 1, quoted->len, out);
    fflush(out);
}

int cli_width(const char *text)
{
    g_autofree char *quoted = btrail_quote(text, "");

    return g_utf8_strlen(quoted, -1);
}
