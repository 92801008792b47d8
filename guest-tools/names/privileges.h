/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BTRAIL_PRIVILEGES_H
#define BTRAIL_PRIVILEGES_H

#include <stdbool.h>

/*
 * Gives up all capabilities except those that reading names takes, and the way
 * to get others.  If @suffices says that these do not suffice for perf,
 * CAP_SYS_ADMIN stays in reserve: that is the case before Linux 5.8, and in
 * Debian's kernels.  Returns what has failed, with errno, or NULL.
 */
const char *privileges_drop(bool (*suffices)(void));

/* Takes CAP_SYS_ADMIN out of the reserve, if it is there, or back. */
void privileges_admin(bool use);

#endif /* BTRAIL_PRIVILEGES_H */
