/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the agent cannot do yet: sessions of mode "last" and triggers, which
 * btrail_session_new() refuses.  Goes as soon as it can.
 */

#include "daemon-error.h"
#include "session.h"

bool btrail_session_not_yet(bool wanted, GError **error);

bool btrail_session_not_yet(bool wanted, GError **error)
{
    return wanted &&
           !btrail_daemon_fail(error, BTRAIL_DAEMON_ERROR_COMMAND,
                               "mode 'last' and triggers are not there yet");
}

__attribute__((weak))
bool btrail_session_dump(struct btrail_session *s, const char *path,
                         struct btrail_session_dump *dump, GError **error)
{
    g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_OUTPUT,
                "there is nothing to dump");
    return false;
}

__attribute__((weak))
int btrail_session_fired_fd(const struct btrail_session *s)
{
    return -1;
}

__attribute__((weak))
int btrail_session_take_fired(struct btrail_session *s)
{
    return -1;
}
