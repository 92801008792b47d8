/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Errors of the agent
 */

#ifndef BTRAIL_AGENT_ERROR_H
#define BTRAIL_AGENT_ERROR_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/fail.h"

#define BTRAIL_AGENT_ERROR btrail_agent_error_quark()
GQuark btrail_agent_error_quark(void);

/**
 * enum btrail_agent_error
 * @BTRAIL_AGENT_ERROR_SYSTEM:    a system call failed
 * @BTRAIL_AGENT_ERROR_PROTOCOL:  the peer broke the protocol
 * @BTRAIL_AGENT_ERROR_CLOSED:    the peer is gone
 * @BTRAIL_AGENT_ERROR_TIMEOUT:   the peer is silent
 * @BTRAIL_AGENT_ERROR_CANCELLED: the caller has cancelled it
 * @BTRAIL_AGENT_ERROR_COMMAND:   QMP: the command failed
 * @BTRAIL_AGENT_ERROR_NO_COMMAND: QMP: there is no such command
 * @BTRAIL_AGENT_ERROR_NO_DEVICE: QMP: there is no such device
 * @BTRAIL_AGENT_ERROR_OUTPUT:    the trace cannot be written
 * @BTRAIL_AGENT_ERROR_NAMES:     names are needed and not available
 */
enum btrail_agent_error {
    BTRAIL_AGENT_ERROR_SYSTEM,
    BTRAIL_AGENT_ERROR_PROTOCOL,
    BTRAIL_AGENT_ERROR_CLOSED,
    BTRAIL_AGENT_ERROR_TIMEOUT,
    BTRAIL_AGENT_ERROR_CANCELLED,
    BTRAIL_AGENT_ERROR_COMMAND,
    BTRAIL_AGENT_ERROR_NO_COMMAND,
    BTRAIL_AGENT_ERROR_NO_DEVICE,
    BTRAIL_AGENT_ERROR_OUTPUT,
    BTRAIL_AGENT_ERROR_NAMES,
};

/* Set @error to a message of this code; always false. */
#define btrail_agent_fail(error, code, ...) \
    btrail_fail(error, BTRAIL_AGENT_ERROR, code, __VA_ARGS__)

/* Sets @error to "WHAT: strerror(errno)"; always false. */
bool btrail_agent_error_errno(GError **error, const char *what);

#endif /* BTRAIL_AGENT_ERROR_H */
