/*
 * virsh-trace-text.c: Text for the user, with names that others have chosen
 *
 * Names come from the host of a domain, from its guest or from another user,
 * and must not control the terminal, or look like lines of virsh.
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#include <config.h>
#include "virsh-trace-text.h"

#include "util/quote.h"

/* For a cell of a table, or a part of other output */
char *
virshTraceQuote(const char *text)
{
    return btrail_quote(text, "");
}

static char * G_GNUC_PRINTF(1, 0)
virshTraceLine(const char *format,
               va_list args)
{
    g_autofree char *text = g_strdup_vprintf(format, args);

    return virshTraceQuote(text);
}

/* As vshPrintExtra() */
void
virshTraceSay(vshControl *ctl,
              const char *format,
              ...)
{
    g_autofree char *line = NULL;
    va_list args;

    va_start(args, format);
    line = virshTraceLine(format, args);
    va_end(args);

    vshPrintExtra(ctl, "%s\n", line);
}

/* As vshError() */
void
virshTraceComplain(vshControl *ctl,
                   const char *format,
                   ...)
{
    g_autofree char *line = NULL;
    va_list args;

    va_start(args, format);
    line = virshTraceLine(format, args);
    va_end(args);

    vshError(ctl, "%s", line);
}
