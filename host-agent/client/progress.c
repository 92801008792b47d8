/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The progress of a recording: see progress.h
 */

#include <glib.h>
#include <inttypes.h>

#include "client/progress.h"

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

char *progress_line(uint64_t ns, const struct progress *p, double rate)
{
    g_autofree char *records = format_count(p->records);
    g_autofree char *bytes = format_count(p->bytes);
    g_autofree char *a_second = format_count(MAX(rate, 0));
    g_autofree char *rates = rate < 0 ? g_strdup("") :
                             g_strdup_printf("%9s/s  ", a_second);

    return g_strdup_printf("%6.1f s  %9s records  %s%9sB  %" PRIu64 " lost  "
                           "%.1f s paused ", ns / 1e9, records, rates, bytes,
                           p->lost, p->paused_ns / 1e9);
}

char *progress_sum(const char *path, const struct progress *p, const char *why)
{
    g_autofree char *size = !p->records ? g_strdup("") :
        g_strdup_printf("%.2f bits a record, ",
                        p->record_bytes * 8.0 / p->records);

    return g_strdup_printf("%s: %" PRIu64 " records, %" PRIu64 " bytes (%s%"
                           PRIu64 " bytes of names and code), %" PRIu64
                           " lost, vCPUs paused for %.3f s%s%s", path,
                           p->records, p->bytes, size,
                           p->bytes - MIN(p->record_bytes, p->bytes), p->lost,
                           p->paused_ns / 1e9, why ? "; " : "",
                           why ? why : "");
}

char *progress_written(const char *path, const struct progress *p)
{
    return g_strdup_printf("%s: %" PRIu64 " records, %" PRIu64 " bytes", path,
                           p->records, p->bytes);
}
