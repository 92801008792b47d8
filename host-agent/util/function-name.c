/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of functions: see function-name.h
 */

#include <glib.h>
#include <string.h>

#include "util/demangle.h"
#include "util/function-name.h"
#include "util/last-colon.h"
#include "util/plain-name.h"

/* As it is, or without additions */
static bool is_symbol(const char *symbol, const char *name)
{
    size_t n = strlen(name);

    /* Most symbols begin with something else. */
    return !strncmp(symbol, name, n) &&
           (!symbol[n] || (symbol[n] == '.' && plain_name(symbol) == n));
}

/* Are they the same but for blanks? */
static bool is_same(const char *a, const char *b)
{
    for (;;) {
        a += strspn(a, " ");
        b += strspn(b, " ");
        if (!*a || *a != *b) {
            return *a == *b;
        }
        a++;
        b++;
    }
}

/* The length of an operator that has brackets which enclose nothing */
static size_t operator_size(const char *text)
{
    static const char *const operators[] = {
        "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "<", ">",
    };
    const char *sign = text + strlen("operator");

    if (!g_str_has_prefix(text, "operator")) {
        return 0;
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(operators); i++) {
        if (g_str_has_prefix(sign, operators[i])) {
            return sign - text + strlen(operators[i]);
        }
    }
    return 0;
}

/*
 * The names of the templates, of which a name has instances: without "<int>",
 * or "::<i32>" in Rust.  "<A as B>::f" of Rust is no instance.
 */
static char *without_arguments(const char *name)
{
    g_autoptr(GString) s = g_string_new(NULL);
    unsigned depth = 0;

    for (const char *c = name; *c; c++) {
        size_t n = depth ? 0 : operator_size(c);

        if (n) {
            g_string_append_len(s, c, n);
            c += n - 1;
        } else if (*c == '<' && (depth || s->len)) {
            if (!depth && g_str_has_suffix(s->str, "::")) {
                g_string_truncate(s, s->len - 2);
            }
            depth++;
        } else if (*c == '>' && depth) {
            /* The arrow of a function's type in Rust does not end them. */
            depth -= c[-1] != '-';
        } else if (!depth) {
            g_string_append_c(s, *c);
        }
    }
    return g_string_free(g_steal_pointer(&s), FALSE);
}

/* Can this be a name for it?  Most are not, and this is quick. */
static bool may_be(const char *demangled, const char *name)
{
    g_autofree char *word =
        g_strndup(name, strspn(name, G_CSET_A_2_Z G_CSET_a_2_z "_"));

    return strstr(demangled, word);
}

bool function_name_is_known(const char *symbol, const char *demangled,
                            const char *name)
{
    g_autofree char *plain = NULL, *whole = NULL, *some = NULL;
    g_autofree char *template = NULL;

    if (is_symbol(symbol, name)) {
        return true;
    }
    if (!demangled || !may_be(demangled, name)) {
        return false;
    }
    if (!strcmp(demangled, name)) {
        return true;
    }
    plain = g_strndup(symbol, plain_name(symbol));
    whole = demangle(plain, true);
    /* Parts, see plain_name(), have other names. */
    if (!whole || strstr(whole, " [clone ")) {
        return false;
    }
    if (is_same(whole, name)) {
        return true;
    }
    some = demangle(plain, false);
    template = some ? without_arguments(some) : NULL;
    return some && (is_same(some, name) || is_same(template, name));
}

bool function_name_is(const char *symbol, const char *name)
{
    g_autofree char *demangled = NULL;

    if (is_symbol(symbol, name)) {
        return true;
    }
    /* What is in no scope is in the symbol as it is. */
    if (!name[strspn(name, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_")] &&
        !strstr(symbol, name)) {
        return false;
    }
    demangled = demangle(symbol, true);
    return function_name_is_known(symbol, demangled, name);
}

bool function_name_valid(const char *text)
{
    bool source = strpbrk(text, "(<") || strstr(text, "::") ||
                  strstr(text, "operator");
    bool colons = !last_colon(text) && last_colon_closed(text);

    if (!*text || g_ascii_isdigit(*text) || strchr(" /", *text) ||
        !g_utf8_validate(text, -1, NULL)) {
        return false;
    }
    for (const char *c = text; *c; c++) {
        if (c[0] == ':' && c[1] == ':') {
            c++;
        } else if (g_ascii_iscntrl(*c) || (*c == ':' && !colons) ||
                   (!source && !g_ascii_isalnum(*c) && *c > 0 &&
                    !strchr("_.$/", *c))) {
            return false;
        }
    }
    return true;
}
