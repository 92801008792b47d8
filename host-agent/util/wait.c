/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Waiting for a peer: see wait.h
 */

#include <errno.h>
#include <poll.h>

#include "util/wait.h"

bool wait_for_fd(int fd, short events, gint64 deadline, int cancel_fd,
                 const char *late, GError **error)
{
    struct pollfd fds[] = {
        { .fd = fd, .events = events },
        { .fd = cancel_fd, .events = POLLIN },
    };

    for (;;) {
        int timeout = -1;
        int n;

        if (deadline >= 0) {
            /* Rounded up, so that this does not poll the clock; and asked for
             * once, as less than 0 would be for ever. */
            gint64 left = (deadline - g_get_monotonic_time() + 999) / 1000;

            timeout = (int)CLAMP(left, 0, G_MAXINT);
        }
        n = poll(fds, G_N_ELEMENTS(fds), timeout);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return agent_error_errno(error, "poll");
        }
        if (fds[1].revents) {
            g_set_error(error, AGENT_ERROR,
                        AGENT_ERROR_CANCELLED, "cancelled");
            return false;
        }
        if (fds[0].revents) {
            return true;
        }
        if (!n && g_get_monotonic_time() >= deadline) {
            g_set_error(error, AGENT_ERROR, AGENT_ERROR_TIMEOUT,
                        "%s", late);
            return false;
        }
    }
}
