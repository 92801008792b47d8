/*
 * virsh-trace-option.h: Options that several trace commands have
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#pragma once

#include "virsh-completer-trace.h"

#define VIRSH_TRACE_OPT(_name, _type, _completer, _helpstr) \
    {.name = _name, \
     .type = VSH_OT_ ## _type, \
     .completer = _completer, \
     .help = _helpstr, \
    }

/* A domain, or all running ones */
#define VIRSH_TRACE_OPT_DOMAINS(cflags) \
    {.name = "domain", \
     .type = VSH_OT_STRING, \
     .positional = true, \
     .completer = virshDomainNameCompleter, \
     .completer_flags = cflags, \
     .help = N_("domain name, id or uuid (default: all running ones)"), \
    }

#define VIRSH_TRACE_OPT_SESSION(_helpstr) \
    VIRSH_TRACE_OPT("session", STRING, virshTraceSessionCompleter, _helpstr)

#define VIRSH_TRACE_OPT_FILE \
    VIRSH_TRACE_OPT("file", STRING, virshCompleteEmpty, \
                    N_("name of the trace in the domain's folder on its host (default: session and time)"))

#define VIRSH_TRACE_OPT_JSON \
    VIRSH_TRACE_OPT("json", BOOL, NULL, \
                    N_("print one line of JSON for each domain"))
