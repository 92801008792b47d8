/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading whole files whose place or content somebody else has chosen
 */

#ifndef BTRAIL_READ_FILE_H
#define BTRAIL_READ_FILE_H

#include <glib.h>

/**
 * read_whole_file - read a regular file
 * @most: bytes of it
 * @size: gets how many it has
 *
 * Its content is to be freed, and has a NUL after it.  NULL after an error,
 * which does not say the path: it is no regular file, larger, or cannot be read.
 * It is not waited for, as a FIFO would be; what the kernel makes up (/proc) is
 * empty.
 */
char *read_whole_file(const char *path, size_t most, size_t *size,
                      GError **error);

/*
 * The same of anything that a person has named, a FIFO or a terminal say, up to
 * its end.
 */
char *read_any(const char *path, size_t most, size_t *size,
               GError **error);

#endif /* BTRAIL_READ_FILE_H */
