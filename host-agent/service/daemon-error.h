/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Errors of the service
 */

#ifndef BTRAIL_DAEMON_ERROR_H
#define BTRAIL_DAEMON_ERROR_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define BTRAIL_DAEMON_ERROR btrail_daemon_error_quark()
GQuark btrail_daemon_error_quark(void);

/**
 * enum btrail_daemon_error
 * @BTRAIL_DAEMON_ERROR_SYSTEM:  a system call failed
 * @BTRAIL_DAEMON_ERROR_CONFIG:  the configuration makes no sense
 * @BTRAIL_DAEMON_ERROR_PEER:    a device says what it must not, or is gone
 * @BTRAIL_DAEMON_ERROR_COMMAND: a command makes no sense, or not now
 * @BTRAIL_DAEMON_ERROR_NAME:    a name of a file that is not permitted
 * @BTRAIL_DAEMON_ERROR_LIMIT:   a limit of the administrator's
 */
enum btrail_daemon_error {
    BTRAIL_DAEMON_ERROR_SYSTEM,
    BTRAIL_DAEMON_ERROR_CONFIG,
    BTRAIL_DAEMON_ERROR_PEER,
    BTRAIL_DAEMON_ERROR_COMMAND,
    BTRAIL_DAEMON_ERROR_NAME,
    BTRAIL_DAEMON_ERROR_LIMIT,
};

/* Set @error to a message of this code; always false. */
bool btrail_daemon_fail(GError **error, enum btrail_daemon_error code,
                        const char *format, ...) G_GNUC_PRINTF(3, 4);

/* "WHAT: strerror(errno)"; always false */
bool btrail_daemon_fail_errno(GError **error, const char *format, ...)
    G_GNUC_PRINTF(2, 3);

#endif /* BTRAIL_DAEMON_ERROR_H */
