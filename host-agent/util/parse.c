/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Numbers, sizes, times and ranges as people write them: see parse.h
 */

#include <errno.h>
#include <glib.h>
#include <string.h>

#include "util/parse.h"

/* @p is where the value @n ends. */
static bool store(const char *p, uint64_t n, const char **end, uint64_t *value)
{
    if (!end && *p) {
        return false;
    }
    if (end) {
        *end = p;
    }
    *value = n;
    return true;
}

bool parse_text_number(const char *text, const char **end, uint64_t *value)
{
    uint64_t n;
    char *p;

    if (!g_ascii_isdigit(*text)) {
        return false;
    }
    errno = 0;
    n = g_ascii_strtoull(text, &p,
                         g_ascii_strncasecmp(text, "0x", 2) ? 10 : 16);
    return !errno && store(p, n, end, value);
}

bool parse_text_size(const char *text, const char **end, uint64_t *value)
{
    static const char units[] = "KMGT";
    const char *p, *unit;
    unsigned shift = 0;
    uint64_t n;

    if (!parse_text_number(text, &p, &n)) {
        return false;
    }
    if (*p && (unit = strchr(units, g_ascii_toupper(*p)))) {
        shift = 10 * (unit - units + 1);
        p++;
    }
    return n <= UINT64_MAX >> shift && store(p, n << shift, end, value);
}

bool parse_text_time(const char *text, const char **end, uint64_t *value)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {
        { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 },
        { "min", 60000000000 }, { "s", 1000000000 }, { "h", 3600000000000 },
        { "", 1000000000 },
    };
    const char *p, *fraction;
    uint64_t n, unit;
    unsigned i;

    if (!parse_text_number(text, &p, &n)) {
        return false;
    }
    fraction = p;
    if (*p == '.' && g_ascii_isdigit(p[1])) {
        for (p++; g_ascii_isdigit(*p); p++) {
            continue;
        }
    }
    for (i = 0; !g_str_has_prefix(p, units[i].name); i++) {
        continue;
    }
    unit = units[i].ns;
    /* The fraction is less than one unit. */
    if (n > UINT64_MAX / unit - 1) {
        return false;
    }
    n *= unit;
    while (++fraction < p) {
        unit /= 10;
        n += (*fraction - '0') * unit;
    }
    return store(p + strlen(units[i].name), n, end, value);
}

bool parse_text_range(const char *text, parse_text_fn *parse,
                      struct range *range)
{
    struct range r = { 0, UINT64_MAX };
    const char *p = text;

    if (!g_str_has_prefix(p, "..") && !parse(p, &p, &r.begin)) {
        return false;
    }
    if (!g_str_has_prefix(p, "..") ||
        (p[2] && !parse(p + 2, NULL, &r.end)) || r.begin > r.end) {
        return false;
    }
    *range = r;
    return true;
}

bool parse_text_list(const char *text, bool *set, unsigned n)
{
    const char *p = text;

    memset(set, 0, n * sizeof(*set));
    for (;; p++) {
        uint64_t first, last;

        if (!parse_text_number(p, &p, &first)) {
            return false;
        }
        last = first;
        if ((*p == '-' && !parse_text_number(p + 1, &p, &last)) ||
            last >= n || first > last) {
            return false;
        }
        memset(set + first, true, (last - first + 1) * sizeof(*set));
        if (*p != ',') {
            return !*p;
        }
    }
}
