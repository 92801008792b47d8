/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Errors of the agent: see agent-error.h
 */

#include <errno.h>

#include "util/agent-error.h"

G_DEFINE_QUARK(btrail-agent-error-quark, btrail_agent_error)

bool btrail_agent_error_errno(GError **error, const char *what)
{
    int e = errno;

    return btrail_agent_fail(error, BTRAIL_AGENT_ERROR_SYSTEM, "%s: %s", what,
                             g_strerror(e));
}
