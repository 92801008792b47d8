/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files of source code, which debug information names: the guest, or whoever has
 * made its files, chooses where they are, and what they have
 */

#ifndef BTRAIL_SOURCE_FILE_H
#define BTRAIL_SOURCE_FILE_H

/* Bytes of a file */
#define SOURCE_FILE_MAX (16u << 20)

/*
 * The lines of a file that is below one of the folders, without tabs; to be
 * freed with g_strfreev().  NULL if there is no such file: links do not lead
 * out of the folders, and what is not a regular file, or is larger, does not
 * count.
 */
char **source_file_read(char *const *folders, const char *file);

#endif /* BTRAIL_SOURCE_FILE_H */
