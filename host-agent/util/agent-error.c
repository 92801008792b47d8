/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Errors of the agent: see agent-error.h
 */

#include <errno.h>

#include "util/agent-error.h"

G_DEFINE_QUARK(btrail-agent-error-quark, agent_error)

bool agent_error_errno(GError **error, const char *what)
{
    int e = errno;

    return agent_fail(error, AGENT_ERROR_SYSTEM, "%s: %s", what,
                      g_strerror(e));
}
