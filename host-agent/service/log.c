/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The log: see log.h
 */

#include <string.h>
#include <unistd.h>

#include "service/log.h"
#include "util/quote.h"

static bool without_priority, with_debug, silent;

void service_log_init(bool plain, bool verbose)
{
    without_priority = plain;
    with_debug = verbose;
}

void service_log_silence(void)
{
    silent = true;
}

char *service_log_format(enum service_log_priority priority, const char *text)
{
    GString *line = g_string_new(NULL);

    if (!without_priority) {
        g_string_append_printf(line, "<%d>", priority);
    }
    btrail_quote_append(line, text, "");
    g_string_append_c(line, '\n');
    return g_string_free(line, FALSE);
}

void service_log(enum service_log_priority priority, const char *format, ...)
{
    g_autofree char *text = NULL, *line = NULL;
    va_list args;

    if (silent || (priority == SERVICE_LOG_DEBUG && !with_debug)) {
        return;
    }
    va_start(args, format);
    text = g_strdup_vprintf(format, args);
    va_end(args);
    line = service_log_format(priority, text);
    /* One write, so that lines of threads do not mix. */
    if (write(STDERR_FILENO, line, strlen(line)) < 0) {
        /* There is no other place to report this to. */
    }
}
