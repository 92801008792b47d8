/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The progress of a recording: see progress.h
 */

#include <glib.h>
#include <inttypes.h>

#include "cli/print.h"
#include "cli/progress.h"

/* A number with four digits at least, in units of a thousand times another */
static char *format_count(double n)
{
    static const char units[] = "kMGT";
    const char *unit = units;

    if (n < 10000) {
        return g_strdup_printf("%.0f", n);
    }
    for (n /= 1000; n >= 10000 && unit[1]; n /= 1000) {
        unit++;
    }
    return g_strdup_printf("%.1f %c", n, *unit);
}

void progress_print(FILE *file, uint64_t ns, const struct progress *p,
                    double rate)
{
    g_autofree char *records = format_count(p->records);
    g_autofree char *bytes = format_count(p->bytes);

    cli_fprintf(file, "\r%6.1f s  %9s records  ", ns / 1e9, records);
    if (rate >= 0) {
        g_autofree char *a_second = format_count(rate);

        cli_fprintf(file, "%9s/s  ", a_second);
    }
    cli_fprintf(file, "%9sB  %" PRIu64 " lost  %.1f s paused ", bytes, p->lost,
                p->paused_ns / 1e9);
    fflush(file);
}

void progress_sum(FILE *file, const char *path, const struct progress *p,
                  const char *why)
{
    cli_fprintf(file, "%s: %" PRIu64 " records, %" PRIu64 " bytes (", path,
                p->records, p->bytes);
    if (p->records) {
        cli_fprintf(file, "%.2f bits a record, ",
                    p->record_bytes * 8.0 / p->records);
    }
    cli_fprintf(file, "%" PRIu64 " bytes of names and code), %" PRIu64 " lost, "
                "vCPUs paused for %.3f s%s%s\n",
                p->bytes - MIN(p->record_bytes, p->bytes), p->lost,
                p->paused_ns / 1e9, why ? "; " : "", why ? why : "");
}
