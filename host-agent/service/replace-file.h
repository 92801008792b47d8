/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Small files that have their whole text at once
 */

#ifndef BTRAIL_REPLACE_FILE_H
#define BTRAIL_REPLACE_FILE_H

#include "service/service-error.h"

/**
 * replace_file - write a file, or write it again
 * @folder: an open folder
 * @name:   of the file in it
 * @next:   what it is called while it is written; of that name nothing else may
 *          be there
 * @mode:   of a new file
 *
 * Whoever reads it finds the old one or the new one.  After a crash of the host
 * it can be empty: this does not wait until it is on the disk.
 */
bool replace_file(int folder, const char *name, const char *next,
                  unsigned mode, const char *text, GError **error);

#endif /* BTRAIL_REPLACE_FILE_H */
