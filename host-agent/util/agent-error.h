/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Errors of the agent
 */

#ifndef BTRAIL_AGENT_ERROR_H
#define BTRAIL_AGENT_ERROR_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/fail.h"

#define AGENT_ERROR agent_error_quark()
GQuark agent_error_quark(void);

/**
 * enum agent_error
 * @AGENT_ERROR_SYSTEM:    a system call failed
 * @AGENT_ERROR_PROTOCOL:  the peer broke the protocol
 * @AGENT_ERROR_CLOSED:    the peer is gone
 * @AGENT_ERROR_TIMEOUT:   the peer is silent
 * @AGENT_ERROR_CANCELLED: the caller has cancelled it
 * @AGENT_ERROR_COMMAND:   QMP: the command failed
 * @AGENT_ERROR_NO_COMMAND: QMP: there is no such command
 * @AGENT_ERROR_NO_DEVICE: QMP: there is no such device
 * @AGENT_ERROR_OUTPUT:    the trace cannot be written
 * @AGENT_ERROR_NAMES:     names are needed and not available
 */
enum agent_error {
    AGENT_ERROR_SYSTEM,
    AGENT_ERROR_PROTOCOL,
    AGENT_ERROR_CLOSED,
    AGENT_ERROR_TIMEOUT,
    AGENT_ERROR_CANCELLED,
    AGENT_ERROR_COMMAND,
    AGENT_ERROR_NO_COMMAND,
    AGENT_ERROR_NO_DEVICE,
    AGENT_ERROR_OUTPUT,
    AGENT_ERROR_NAMES,
};

/* Set @error to a message of this code; always false. */
#define agent_fail(error, code, ...) \
    fail_with(error, AGENT_ERROR, code, __VA_ARGS__)

/* Has the caller cancelled it?  False also without an error. */
static inline bool agent_is_cancelled(const GError *error)
{
    return g_error_matches(error, AGENT_ERROR,
                           AGENT_ERROR_CANCELLED);
}

/* Sets @error to "WHAT: strerror(errno)"; always false. */
bool agent_error_errno(GError **error, const char *what);

#endif /* BTRAIL_AGENT_ERROR_H */
