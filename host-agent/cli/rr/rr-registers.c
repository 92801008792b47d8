/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registers in what QEMU's "info registers" prints: see rr-registers.h
 */

#include <glib.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/rr/rr-registers.h"

#define HEX "0123456789abcdef"

/* The name before an equals sign, "R8 =0000000000000000"; false without one */
static bool read_name(const char *begin, const char *equals,
                      char name[static 12])
{
    const char *last = equals, *first;

    while (last > begin && last[-1] == ' ') {
        last--;
    }
    first = last;
    while (first > begin && g_ascii_isalnum(first[-1])) {
        first--;
    }
    if (first == last || last - first >= 12) {
        return false;
    }
    for (unsigned i = 0; i <= last - first; i++) {
        name[i] = first + i < last ? g_ascii_tolower(first[i]) : 0;
    }
    return true;
}

/* A number of some groups of digits, from its highest bits on; but one of the
 * x87, whose sign and exponent are last */
static void read_number(struct rr_register *r, const char *digits,
                        const size_t *sizes, unsigned n)
{
    const char *groups[RR_REGISTER_GROUPS];
    bool x87 = n == 2 && sizes[1] == 4;
    char *end = r->text + sprintf(r->text, "0x");

    for (unsigned i = 0; i < n; i++) {
        groups[i] = digits;
        digits += sizes[i] + 1;
    }
    if (x87) {
        end += sprintf(end, "%.4s", groups[1]);
        n = 1;
    }
    for (unsigned i = 0; i < n; i++) {
        r->low = g_ascii_strtoull(groups[i], NULL, 16);
        end += sprintf(end, "%016" PRIx64, r->low);
    }
}

bool rr_register_next(const char **text, struct rr_register *r)
{
    for (const char *equals = *text; (equals = strchr(equals, '=')); equals++) {
        size_t sizes[RR_REGISTER_GROUPS], n = 0, size;
        const char *end = equals;

        do {
            size = strspn(end + 1, HEX);
            sizes[n] = size;
            n += size > 0;
            end += size ? 1 + size : 0;
        } while (size && n < RR_REGISTER_GROUPS && *end == ' ');
        /* Flags, which have fewer digits, and segments, which begin with as
         * many as a selector has */
        if (n && sizes[0] >= 8 && sizes[0] <= 16 &&
            read_name(*text, equals, r->name)) {
            read_number(r, equals + 1, sizes, n);
            *text = end;
            return true;
        }
    }
    return false;
}
