/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a recording has come to, for who watches it
 */

#ifndef BTRAIL_PROGRESS_H
#define BTRAIL_PROGRESS_H

#include <stdint.h>
#include <stdio.h>

struct progress {
    uint64_t records;
    uint64_t bytes;
    uint64_t lost;
    uint64_t paused_ns;
};

/* A rate that is not known */
#define PROGRESS_NO_RATE    (-1.0)

/*
 * A line for a terminal, in place of the one before: after so many
 * nanoseconds, at a rate of so many records a second now.
 */
void progress_print(FILE *file, uint64_t ns, const struct progress *p,
                    double rate);

/* What there is in the end, and why it has ended (NULL: nobody says) */
void progress_sum(FILE *file, const char *path, const struct progress *p,
                  const char *why);

#endif /* BTRAIL_PROGRESS_H */
