/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Copying large files
 */

#ifndef BTRAIL_COPY_FILE_H
#define BTRAIL_COPY_FILE_H

#include "util/agent-error.h"

/*
 * Copies a file to one that does not exist.  The copy shares its blocks if the
 * file system can do that, and otherwise has the same holes.
 */
bool copy_file(const char *from, const char *to, GError **error);

#endif /* BTRAIL_COPY_FILE_H */
