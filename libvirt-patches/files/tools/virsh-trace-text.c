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

#include "client/answer.h"
#include "util/json.h"
#include "util/quote.h"

/* For a cell of a table, or a part of other output */
char *
virshTraceQuote(const char *text)
{
    return btrail_quote(text, "");
}

/* Members for a table: one that is a number, and some that are texts */

char *
virshTraceNumber(JsonObject *object,
                 const char *name)
{
    return g_strdup_printf("%llu",
                           (unsigned long long) answer_number(object, name));
}

char **
virshTraceFields(JsonObject *object,
                 const char *const *names,
                 size_t n)
{
    char **fields = g_new0(char *, n + 1);
    size_t i;

    for (i = 0; i < n; i++) {
        const char *text = btrail_json_string(object, names[i]);

        fields[i] = virshTraceQuote(text && *text ? text : "-");
    }

    return fields;
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
