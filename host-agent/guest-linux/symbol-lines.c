/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols as lines of text: see symbol-lines.h
 */

#include <string.h>

#include "guest-linux/symbol-lines.h"
#include "util/search.h"

#define HEAD    19      /* the address, the type and two spaces */

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

/* Puts 8 hexadecimal digits, each of them made in one byte of a number. */
static void put_digits(char *p, uint32_t v)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t digits = (v & UINT64_C(0xffff0000)) << 16 | (v & 0xffff);
    uint64_t letters;

    digits = (digits | digits << 8) & UINT64_C(0x00ff00ff00ff00ff);
    digits = (digits | digits << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    letters = (digits + 6 * ones) >> 4 & ones;
    digits += '0' * ones + letters * ('a' - '0' - 10);
    digits = GUINT64_TO_BE(digits);
    memcpy(p, &digits, sizeof(digits));
}

void linux_symbol_line(GString *text, uint64_t address, char type,
                       const char *name, const char *module)
{
    size_t n = strlen(name);
    size_t of_module = module ? strlen(module) : 0;
    size_t before = text->len;
    size_t size = HEAD + n + (module ? of_module + 3 : 0) + 1;
    char *p;

    if (before + size > LINUX_SYMBOLS_MAX) {
        return;
    }
    /* printf would be too slow for this many symbols. */
    g_string_set_size(text, before + size);
    p = text->str + before;
    put_digits(p, (uint32_t)(address >> 32));
    put_digits(p + 8, (uint32_t)address);
    p[16] = ' ';
    p[17] = type;
    p[18] = ' ';
    memcpy(p + HEAD, name, n);
    p += HEAD + n;
    if (module) {
        *p++ = '\t';
        *p++ = '[';
        memcpy(p, module, of_module);
        p += of_module;
        *p++ = ']';
    }
    *p = '\n';
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
