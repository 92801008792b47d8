/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols as lines of text: see symbol-lines.h
 */

#include <string.h>

#include "guest-linux/symbol-lines.h"
#include "util/search.h"

bool linux_is_code(char type)
{
    return type && strchr("tTwW", type);
}

bool linux_is_name(const char *name)
{
    const char *p = name;

    while ((unsigned char)*p > ' ' && *p != 127) {
        p++;
    }
    return *name && !*p;
}

void linux_symbol_line(GString *text, uint64_t address, char type,
                       const char *name, const char *module)
{
    static const char digits[] = "0123456789abcdef";
    size_t before = text->len;
    char head[19];

    /* printf would be too slow for this many symbols. */
    for (unsigned i = 0; i < 16; i++) {
        head[i] = digits[address >> (60 - 4 * i) & 15];
    }
    head[16] = ' ';
    head[17] = type;
    head[18] = ' ';
    g_string_append_len(text, head, sizeof(head));
    g_string_append(text, name);
    if (module) {
        g_string_append(text, "\t[");
        g_string_append(text, module);
        g_string_append_c(text, ']');
    }
    g_string_append_c(text, '\n');
    if (text->len > LINUX_SYMBOLS_MAX) {
        g_string_truncate(text, before);
    }
}

void linux_end_line(GString *text, uint64_t address, const char *module)
{
    linux_symbol_line(text, address, 'e', ".end", module);
}

static gint by_start(gconstpointer p, gconstpointer q)
{
    const struct linux_code *a = p, *b = q;

    return BTRAIL_COMPARE(a->start, b->start);
}

void linux_end_lines(GString *text, GArray *codes, uint64_t padding,
                     const char *module)
{
    uint64_t covered = 0;

    g_array_sort(codes, by_start);
    for (guint i = 0; i < codes->len; i++) {
        const struct linux_code *c = &g_array_index(codes, struct linux_code,
                                                    i);
        bool last = i + 1 == codes->len;
        uint64_t next = last ? UINT64_MAX : c[1].start;

        covered = MAX(covered, c->open ? MIN(c->end, next) : c->end);
        if (last || (next > covered && next - covered >= padding)) {
            linux_end_line(text, covered, module);
        }
    }
}
