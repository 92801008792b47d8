/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The progress of a recording: see progress.h
 */

#include <inttypes.h>

#include "cli/progress.h"

void progress_print(FILE *file, uint64_t ns, const struct progress *p,
                    double rate)
{
    fprintf(file, "\r%6.1f s  %9.1f M records  ", ns / 1e9, p->records / 1e6);
    if (rate >= 0) {
        fprintf(file, "%6.1f M/s  ", rate / 1e6);
    }
    fprintf(file, "%8.1f MB  %" PRIu64 " lost  %.1f s paused ",
            p->bytes / 1e6, p->lost, p->paused_ns / 1e9);
    fflush(file);
}

void progress_sum(FILE *file, const char *path, const struct progress *p,
                  const char *why)
{
    double bits = p->records ? p->bytes * 8.0 / p->records : 0;

    fprintf(file, "%s: %" PRIu64 " records, %" PRIu64 " bytes (%.2f bits a "
            "record), %" PRIu64 " lost, vCPUs paused for %.3f s%s%s\n", path,
            p->records, p->bytes, bits, p->lost, p->paused_ns / 1e9,
            why ? "; " : "", why ? why : "");
}
