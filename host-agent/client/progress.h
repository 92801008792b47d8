/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The progress and result of a recording, for the user
 */

#ifndef BTRAIL_CLIENT_PROGRESS_H
#define BTRAIL_CLIENT_PROGRESS_H

#include <stdint.h>

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
 * All return text, to be freed, that is not quoted and has no line end.
 *
 * A line for a terminal that replaces the one before: @ns nanoseconds after the
 * start, at @rate records per second
 */
char *progress_line(uint64_t ns, const struct progress *p, double rate);

/* The result, and why the recording has ended (NULL: unknown) */
char *progress_sum(const char *path, const struct progress *p,
                   const char *why);

/* The result of a dump, which has no more */
char *progress_written(const char *path, const struct progress *p);

#endif /* BTRAIL_CLIENT_PROGRESS_H */
