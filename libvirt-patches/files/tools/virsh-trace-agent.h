/*
 * virsh-trace-agent.h: Ask the trace agent of a domain, and its QEMU
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#pragma once

#include "virjson.h"
#include "virsh.h"

/* An error that is not reported at once, as it may be none */
typedef struct _virshTraceError virshTraceError;
struct _virshTraceError {
    bool unable; /* the domain cannot be traced, or is not running */
    char *message;
};

void
virshTraceErrorClear(virshTraceError *err);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(virshTraceError, virshTraceErrorClear);

void
virshTraceFail(vshControl *ctl,
               virshTraceError *err,
               bool unable,
               const char *format,
               ...)
    G_GNUC_PRINTF(4, 5);

/* These return NULL on error.  @err gets the error; NULL to have it reported */

virJSONValue *
virshTraceQuery(vshControl *ctl,
                virDomainPtr dom,
                virshTraceError *err);

virJSONValue *
virshTraceCommand(vshControl *ctl,
                  virDomainPtr dom,
                  virshTraceError *err,
                  virJSONValue **command);

virJSONValue *
virshTraceAsk(vshControl *ctl,
              virDomainPtr dom,
              virshTraceError *err,
              ...)
    G_GNUC_NULL_TERMINATED;

bool
virshTraceIsCaptured(vshControl *ctl,
                     virDomainPtr dom);
