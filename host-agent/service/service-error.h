/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Errors of the service
 */

#ifndef BTRAIL_SERVICE_ERROR_H
#define BTRAIL_SERVICE_ERROR_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/fail.h"

#define SERVICE_ERROR service_error_quark()
GQuark service_error_quark(void);

/**
 * enum service_error
 * @SERVICE_ERROR_SYSTEM:  a system call failed
 * @SERVICE_ERROR_CONFIG:  the configuration is wrong
 * @SERVICE_ERROR_PEER:    a device breaks the protocol, or is gone
 * @SERVICE_ERROR_COMMAND: a command is wrong, or not possible now
 * @SERVICE_ERROR_NAME:    a name of a file that is not permitted
 * @SERVICE_ERROR_LIMIT:   a limit of the configuration
 */
enum service_error {
    SERVICE_ERROR_SYSTEM,
    SERVICE_ERROR_CONFIG,
    SERVICE_ERROR_PEER,
    SERVICE_ERROR_COMMAND,
    SERVICE_ERROR_NAME,
    SERVICE_ERROR_LIMIT,
};

/* Set @error to a message of this code; always false. */
#define service_fail(error, code, ...) \
    fail_with(error, SERVICE_ERROR, code, __VA_ARGS__)

/* "WHAT: strerror(errno)"; always false */
bool service_fail_errno(GError **error, const char *format, ...)
    G_GNUC_PRINTF(2, 3);

#endif /* BTRAIL_SERVICE_ERROR_H */
