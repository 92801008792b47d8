/*
 * virsh-trace-end.h: Wait for the end of a trace session, or of a dump
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#pragma once

#include "virjson.h"
#include "virsh-util.h"

/*
 * These wait, print the result, and return false, with an error reported, if it
 * did not end in order.  @dom is stolen.
 */

bool
virshTraceEndSession(vshControl *ctl,
                     virshDomain **dom,
                     const char *session,
                     bool verbose);

bool
virshTraceEndStopped(vshControl *ctl,
                     virshDomain **dom,
                     const char *session,
                     virJSONValue *info);

bool
virshTraceEndDump(vshControl *ctl,
                  virshDomain **dom,
                  const char *session,
                  virJSONValue *info);
