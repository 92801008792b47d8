/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Waiting for a peer
 */

#ifndef BTRAIL_WAIT_H
#define BTRAIL_WAIT_H

#include "util/agent-error.h"

/**
 * btrail_wait() - until a file descriptor is ready, or broken
 * @fd:         whose
 * @events:     POLLIN, POLLOUT or both
 * @deadline:   of g_get_monotonic_time(), microseconds; -1: none
 * @cancel_fd:  readable when waiting is to end; -1: none
 * @late:       what to say when the deadline has passed
 *
 * Returns: false and an error when it was cancelled, which comes first, or
 * too late, or when poll() failed.
 */
bool btrail_wait(int fd, short events, gint64 deadline, int cancel_fd,
                 const char *late, GError **error);

#endif /* BTRAIL_WAIT_H */
