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

#define BTRAIL_SERVICE_ERROR btrail_service_error_quark()
GQuark btrail_service_error_quark(void);

/**
 * enum btrail_service_error
 * @BTRAIL_SERVICE_ERROR_SYSTEM:  a system call failed
 * @BTRAIL_SERVICE_ERROR_CONFIG:  the configuration is wrong
 * @BTRAIL_SERVICE_ERROR_PEER:    a device breaks the protocol, or is gone
 * @BTRAIL_SERVICE_ERROR_COMMAND: a command is wrong, or not possible now
 * @BTRAIL_SERVICE_ERROR_NAME:    a name of a file that is not permitted
 * @BTRAIL_SERVICE_ERROR_LIMIT:   a limit of the configuration
 */
enum btrail_service_error {
    BTRAIL_SERVICE_ERROR_SYSTEM,
    BTRAIL_SERVICE_ERROR_CONFIG,
    BTRAIL_SERVICE_ERROR_PEER,
    BTRAIL_SERVICE_ERROR_COMMAND,
    BTRAIL_SERVICE_ERROR_NAME,
    BTRAIL_SERVICE_ERROR_LIMIT,
};

/* Set @error to a message of this code; always false. */
#define btrail_service_fail(error, code, ...) \
    btrail_fail(error, BTRAIL_SERVICE_ERROR, code, __VA_ARGS__)

/* "WHAT: strerror(errno)"; always false */
bool btrail_service_fail_errno(GError **error, const char *format, ...)
    G_GNUC_PRINTF(2, 3);

#endif /* BTRAIL_SERVICE_ERROR_H */
