/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The log: lines to standard error, which the journal reads
 */

#ifndef BTRAIL_LOG_H
#define BTRAIL_LOG_H

#include <glib.h>
#include <stdbool.h>

/* Priorities of syslog(3), as the journal takes them in "<N>" */
enum service_log_priority {
    SERVICE_LOG_ERROR = 3,
    SERVICE_LOG_WARNING = 4,
    SERVICE_LOG_INFO = 6,
    SERVICE_LOG_DEBUG = 7,
};

/*
 * @plain:   without "<N>", for people
 * @verbose: also SERVICE_LOG_DEBUG
 */
void service_log_init(bool plain, bool verbose);

/* Write nothing; for fuzzing. */
void service_log_silence(void);

/*
 * Log one line, as btrail_quote() returns it, so that a name cannot forge one.
 */
void service_log(enum service_log_priority priority, const char *format, ...)
    G_GNUC_PRINTF(2, 3);

/* What service_log() would write, to be freed. */
char *service_log_format(enum service_log_priority priority, const char *text);

#endif /* BTRAIL_LOG_H */
