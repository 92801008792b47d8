/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Waiting for a peer
 */

#ifndef BTRAIL_WAIT_H
#define BTRAIL_WAIT_H

#include "util/agent-error.h"

/**
 * wait_for_fd() - wait until a file descriptor is ready, or broken
 * @fd:         to wait for
 * @events:     POLLIN, POLLOUT or both
 * @deadline:   of g_get_monotonic_time(), microseconds; -1 for none
 * @cancel_fd:  the wait ends when it becomes readable; -1 for none
 * @late:       the error's message when the deadline has passed
 *
 * Returns: false and an error if the wait was cancelled, which has precedence,
 * or the deadline has passed, or poll() failed.
 */
bool wait_for_fd(int fd, short events, gint64 deadline, int cancel_fd,
                 const char *late, GError **error);

#endif /* BTRAIL_WAIT_H */
