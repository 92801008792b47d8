/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Marks as people name them: see mark-wanted.h
 */

#include <glib.h>
#include <string.h>

#include "util/mark-wanted.h"
#include "util/parse.h"

#define PREFIX  "mark:"

/* What a condition is written as; the longer ones come first. */
static const struct {
    const char *text;
    enum mark_condition condition;
} operators[] = {
    { "!=", MARK_NOT_EQUAL }, { "<=", MARK_AT_MOST }, { ">=", MARK_AT_LEAST },
    { "=", MARK_EQUAL }, { "<", MARK_BELOW }, { ">", MARK_ABOVE },
};

static bool parse_value(const char *text, struct mark_wanted *wanted)
{
    bool negative = *text == '-';
    uint64_t value;

    wanted->is_signed = negative || *text == '+';
    if (!parse_text_number(text + wanted->is_signed, NULL, &value)) {
        return false;
    }
    wanted->value = negative ? -value : value;
    return true;
}

/* The operator that ends before @end.  Returns where it begins. */
static const char *find_operator(const char *name, const char *end,
                                 struct mark_wanted *wanted)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(operators); i++) {
        size_t n = strlen(operators[i].text);

        if ((size_t)(end - name) >= n &&
            !memcmp(end - n, operators[i].text, n)) {
            wanted->condition = operators[i].condition;
            return end - n;
        }
    }
    return NULL;
}

/* The last character of an operator that a text has, or NULL */
static const char *last_sign(const char *text)
{
    const char *last = NULL;

    for (; *text; text++) {
        last = strchr("=<>", *text) ? text : last;
    }
    return last;
}

bool mark_wanted_parse(const char *text, struct mark_wanted *wanted)
{
    const char *name = text + strlen(PREFIX), *sign, *end;

    memset(wanted, 0, sizeof(*wanted));
    if (!g_str_has_prefix(text, PREFIX)) {
        return false;
    }
    sign = last_sign(name);
    if (sign && parse_value(sign + 1, wanted)) {
        end = find_operator(name, sign + 1, wanted);
        wanted->name = g_strndup(name, end - name);
    } else {
        wanted->is_signed = false;
        wanted->name = g_strdup(name);
    }
    return true;
}

void mark_wanted_copy(struct mark_wanted *to, const struct mark_wanted *from)
{
    *to = *from;
    to->name = g_strdup(from->name);
}

void mark_wanted_clear(struct mark_wanted *wanted)
{
    g_clear_pointer(&wanted->name, g_free);
}

bool mark_wanted_has_name(const struct mark_wanted *wanted, const char *name)
{
    return !*wanted->name || !strcmp(name, wanted->name);
}

/* Below 0, 0 or above it, as @a is below, the same as or above @b */
static int compare(uint64_t a, uint64_t b, bool is_signed)
{
    uint64_t bias = is_signed ? UINT64_C(1) << 63 : 0;

    return (a ^ bias) < (b ^ bias) ? -1 : a != b;
}

bool mark_wanted_has_value(const struct mark_wanted *wanted, uint64_t value)
{
    int order = compare(value, wanted->value, wanted->is_signed);

    switch (wanted->condition) {
    case MARK_EQUAL:
        return !order;
    case MARK_NOT_EQUAL:
        return order;
    case MARK_BELOW:
        return order < 0;
    case MARK_AT_MOST:
        return order <= 0;
    case MARK_ABOVE:
        return order > 0;
    case MARK_AT_LEAST:
        return order >= 0;
    default:
        return true;
    }
}
