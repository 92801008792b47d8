/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Locks that keep two processes of the service apart
 */

#ifndef BTRAIL_LOCK_H
#define BTRAIL_LOCK_H

#include "service/service-error.h"

/*
 * Create and lock the file @path; closing the returned descriptor unlocks it.
 * If another process has the lock, the error says that "another backtraild
 * @does @what".  -1 on failure.
 */
int service_lock(const char *path, const char *does, const char *what,
                 GError **error);

#endif /* BTRAIL_LOCK_H */
