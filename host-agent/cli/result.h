/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A file that a command writes: whole, or not at all
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

/* @path NULL or "-" is standard output.  False after saying what is wrong. */
bool result_open(struct result *r, const char *path);

/* Put it in place.  False after saying what is wrong; nothing is left then. */
bool result_close(struct result *r);

/* Leave nothing. */
void result_discard(struct result *r);

#endif /* BTRAIL_RESULT_H */
