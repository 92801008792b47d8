/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The progress and result of a recording, for the user
 */

#ifndef BTRAIL_PROGRESS_H
#define BTRAIL_PROGRESS_H

#include <stdint.h>
#include <stdio.h>

/**
 * struct progress - so far
 * @records:      kept
 * @bytes:        written
 * @record_bytes: those of them that records take; the others are names, code
 *                and the index
 * @lost:         records
 * @paused_ns:    that vCPUs have waited, summed up
 */
struct progress {
    uint64_t records;
    uint64_t bytes;
    uint64_t record_bytes;
    uint64_t lost;
    uint64_t paused_ns;
};

/* An unknown rate */
#define PROGRESS_NO_RATE    (-1.0)

/*
 * Prints a line for a terminal that replaces the one before: @ns nanoseconds
 * after the start, at @rate records per second.
 */
void progress_print(FILE *file, uint64_t ns, const struct progress *p,
                    double rate);

/* Prints the result, and why the recording has ended (NULL: unknown). */
void progress_sum(FILE *file, const char *path, const struct progress *p,
                  const char *why);

#endif /* BTRAIL_PROGRESS_H */
