/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An output file, which is written completely or not at all
 */

#ifndef BTRAIL_RESULT_H
#define BTRAIL_RESULT_H

#include <stdbool.h>
#include <stdio.h>

struct result {
    FILE *file;
    char *path;                 /* NULL: standard output */
    char *temporary;
};

/* @path NULL or "-" is standard output.  False after an error message. */
bool result_open(struct result *r, const char *path);

/* Moves the file to its path.  On an error, prints it and leaves no file. */
bool result_close(struct result *r);

/* Removes the file. */
void result_discard(struct result *r);

#endif /* BTRAIL_RESULT_H */
