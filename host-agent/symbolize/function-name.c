/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names that compilers give to functions: see function-name.h
 */

#include <glib.h>
#include <string.h>

#include "symbolize/function-name.h"

/* A number, or a hash, follows each. */
static const char *const additions[] = {
    ".constprop.", ".isra.", ".llvm.", ".lto_priv.",
};

/* How long an addition is that begins here; 0 if there is none */
static size_t addition(const char *text)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(additions); i++) {
        size_t n = strlen(additions[i]);
        size_t digits = strncmp(text, additions[i], n) ? 0 :
                        strspn(text + n, G_CSET_DIGITS);

        if (digits) {
            return n + digits;
        }
    }
    return 0;
}

size_t function_name_plain(const char *symbol)
{
    for (const char *c = strchr(symbol, '.'); c; c = strchr(c + 1, '.')) {
        const char *end = c;
        size_t n;

        while ((n = addition(end))) {
            end += n;
        }
        if (!*end && c > symbol) {
            return c - symbol;
        }
    }
    return strlen(symbol);
}

bool function_name_is(const char *symbol, const char *name)
{
    size_t n = strlen(name);

    /* Most symbols begin with something else. */
    return !strncmp(symbol, name, n) &&
           (!symbol[n] || (symbol[n] == '.' &&
                           function_name_plain(symbol) == n));
}
