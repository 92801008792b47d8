/*
 * virsh-trace-agent.h: Ask the trace agent of a domain, and its QEMU
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#pragma once

#include "virsh.h"

#include "client/service-client.h"

/* Errors are those of util/agent-error.h.  CLOSED is of a domain that is not
 * running. */

JsonObject *
virshTraceQuery(virDomainPtr dom,
                GError **error);

JsonObject *
virshTraceAsk(virDomainPtr dom,
              JsonObject *command,
              GError **error);

struct service_client
virshTraceClient(virDomainPtr dom);

bool
virshTraceIsCaptured(virDomainPtr dom);

bool
virshTraceIsUnable(const GError *error);

void
virshTraceReport(vshControl *ctl,
                 const char *domain,
                 const GError *error);
