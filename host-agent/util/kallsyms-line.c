/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Lines of text in the form of /proc/kallsyms
 */

#include <glib.h>
#include <string.h>

#include "util/kallsyms-line.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

bool btrail_kallsyms_parse(const char *line, size_t size,
                           struct btrail_kallsyms_line *symbol)
{
    const char *p = line, *end = line + size, *name, *rest;
    uint64_t address = 0;

    if (size > 2 && p[0] == '0' && (p[1] | 0x20) == 'x') {
        p += 2;
    }
    for (; p < end && g_ascii_isxdigit(*p); p++) {
        if (address >> 60) {
            return false;
        }
        address = address << 4 | g_ascii_xdigit_value(*p);
    }
    if (p == line || end - p < 4 || p[0] != ' ' || !g_ascii_isgraph(p[1]) ||
        p[2] != ' ') {
        return false;
    }
    *symbol = (struct btrail_kallsyms_line) {
        .address = address, .type = p[1],
    };
    for (name = p + 3; name < end && is_blank(*name); name++) {
        /* A user can have written more than one. */
    }
    for (rest = name; rest < end && !is_blank(*rest); rest++) {
        /* The name */
    }
    symbol->name = name;
    symbol->name_size = rest - name;
    for (; rest < end && is_blank(*rest); rest++) {
        /* What is before the module */
    }
    while (end > rest && is_blank(end[-1])) {
        end--;
    }
    if (rest < end) {
        if (end - rest < 3 || rest[0] != '[' || end[-1] != ']') {
            return false;
        }
        symbol->module = rest + 1;
        symbol->module_size = end - rest - 2;
    }
    return symbol->name_size;
}

bool btrail_kallsyms_next(const char **text, const char *end,
                          struct btrail_kallsyms_line *symbol)
{
    while (*text < end) {
        const char *line = *text;
        const char *stop = memchr(line, '\n', end - line) ?: end;

        *text = stop < end ? stop + 1 : end;
        if (btrail_kallsyms_parse(line, stop - line, symbol)) {
            return true;
        }
    }
    return false;
}

bool btrail_kallsyms_is_end(const struct btrail_kallsyms_line *symbol)
{
    static const char name[] = ".end";

    return symbol->type == 'e' && symbol->name_size == sizeof(name) - 1 &&
           !memcmp(symbol->name, name, sizeof(name) - 1);
}
