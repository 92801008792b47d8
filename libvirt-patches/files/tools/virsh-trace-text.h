/*
 * virsh-trace-text.h: Text for the user, with names that others have chosen
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#pragma once

#include "virsh.h"

#include <json-glib/json-glib.h>

char *
virshTraceQuote(const char *text);

char *
virshTraceNumber(JsonObject *object,
                 const char *name);

char **
virshTraceFields(JsonObject *object,
                 const char *const *names,
                 size_t n);

/* Both take one line without its end. */

void
virshTraceSay(vshControl *ctl,
              const char *format,
              ...)
    G_GNUC_PRINTF(2, 3);

void
virshTraceComplain(vshControl *ctl,
                   const char *format,
                   ...)
    G_GNUC_PRINTF(2, 3);
