/*
 * virsh-trace-each.h: Ask about one domain, or about all running ones
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#pragma once

#include "virsh-trace-agent.h"

/* Returns an answer about a domain, or NULL on error. */
typedef JsonObject *(*virshTraceEachAsk)(vshControl *ctl,
                                         virDomainPtr dom,
                                         void *opaque,
                                         GError **error);

/* Handles an answer.  Returns -1 on error. */
typedef int (*virshTraceEachHandle)(virDomainPtr dom,
                                    JsonObject *info,
                                    void *opaque);

void
virshTraceDomainsFree(virDomainPtr *domains);

int
virshTraceEach(vshControl *ctl,
               const vshCmd *cmd,
               virshTraceEachAsk ask,
               virshTraceEachHandle handle,
               void *opaque,
               bool *failed);
