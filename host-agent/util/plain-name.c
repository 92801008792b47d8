/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What compilers add to names: see plain-name.h
 */

#include <glib.h>
#include <string.h>

#include "util/plain-name.h"

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

size_t plain_name(const char *symbol)
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
