/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: the symbol of a function, and what somebody may mean by it
 *
 * The input is the symbol, and in a second line a name.
 */

#include <glib.h>
#include <string.h>

#include "fuzz.h"
#include "util/demangle.h"
#include "util/function-name.h"

static void check_name(const char *name)
{
    fuzz_require(!name || (*name && strlen(name) < DEMANGLE_MAX &&
                           g_utf8_validate(name, -1, NULL)));
}

int fuzz_input(const uint8_t *data, size_t size)
{
    g_autofree char *text = g_strndup((const char *)data, size);
    g_auto(GStrv) lines = g_strsplit(text, "\n", 2);
    const char *symbol = lines[0] ? lines[0] : "";
    const char *name = *symbol && lines[1] ? lines[1] : "";
    g_autofree char *whole = demangle(symbol, true);
    g_autofree char *some = demangle(symbol, false);

    check_name(whole);
    check_name(some);
    fuzz_require(function_name_is(symbol, symbol));
    fuzz_require(!whole || function_name_is(symbol, whole));
    fuzz_require(function_name_is(symbol, name) ==
                 function_name_is_known(symbol, whole, name));
    function_name_valid(name);
    if (whole) {
        fuzz_accepted();
    }
    return 0;
}
