/*
 * virsh-trace-end.h: Wait for the end of a trace session, or of a dump
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#pragma once

#include "virsh-util.h"

/*
 * These wait, print the result, and return false, with an error reported, if it
 * did not end in order.  @dom is stolen.
 */

/* A session that has just started, after vshEventStart() */
bool
virshTraceEndSession(vshControl *ctl,
                     virshDomain **dom,
                     const char *session,
                     bool verbose);

/* Stop a session. */
bool
virshTraceEndStopped(vshControl *ctl,
                     virshDomain **dom,
                     const char *session);

/* Dump a session, into @file; NULL for one of the agent's choice */
bool
virshTraceEndDump(vshControl *ctl,
                  virshDomain **dom,
                  const char *session,
                  const char *file);
