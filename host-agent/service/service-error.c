/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Errors of the service
 */

#include <errno.h>

#include "service/service-error.h"

G_DEFINE_QUARK(btrail-service-error-quark, service_error)

bool service_fail_errno(GError **error, const char *format, ...)
{
    int e = errno;
    g_autofree char *what = NULL;
    va_list args;

    va_start(args, format);
    what = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error(error, SERVICE_ERROR, SERVICE_ERROR_SYSTEM,
                "%s: %s", what, g_strerror(e));
    errno = e;
    return false;
}
