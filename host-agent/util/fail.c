/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Functions that return whether all went well: see fail.h
 */

#include "util/fail.h"

bool fail_with(GError **error, GQuark domain, int code, const char *format,
               ...)
{
    va_list args;

    if (error) {
        va_start(args, format);
        *error = g_error_new_valist(domain, code, format, args);
        va_end(args);
    }
    return false;
}
