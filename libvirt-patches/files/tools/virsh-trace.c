/*
 * virsh-trace.c: Commands to trace the branches of a domain
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#include <config.h>
#include "virsh-trace.h"
#include "virsh-trace-end.h"
#include "virsh-trace-option.h"
#include "virsh-trace-session.h"
#include "virsh-util.h"

/*
 * "trace-stop" command
 */
static const vshCmdInfo info_trace_stop = {
    .help = N_("stop tracing the branches of a domain"),
    .desc = N_("End a session. Its trace has all that was recorded until "
               "then."),
};

static const vshCmdOptDef opts_trace_stop[] = {
    VIRSH_COMMON_OPT_DOMAIN_FULL(VIR_CONNECT_LIST_DOMAINS_ACTIVE),
    VIRSH_TRACE_OPT_SESSION(N_("name of the session (default: the only one of the user)")),
    {.name = NULL}
};

static bool
cmdTraceStop(vshControl *ctl, const vshCmd *cmd)
{
    g_autoptr(virshDomain) dom = NULL;
    g_autofree char *session = NULL;

    if (!(dom = virshCommandOptDomain(ctl, cmd, NULL)) ||
        !(session = virshTraceGetSession(ctl, dom, cmd)))
        return false;

    return virshTraceEndStopped(ctl, &dom, session);
}

/*
 * "trace-dump" command
 */
static const vshCmdInfo info_trace_dump = {
    .help = N_("write the last branches of a session into a file"),
    .desc = N_("Write what a session of --mode last has kept into a trace on "
               "the domain's host. The session continues."),
};

static const vshCmdOptDef opts_trace_dump[] = {
    VIRSH_COMMON_OPT_DOMAIN_FULL(VIR_CONNECT_LIST_DOMAINS_ACTIVE),
    VIRSH_TRACE_OPT_FILE,
    VIRSH_TRACE_OPT_SESSION(N_("name of the session (default: the only one of the user)")),
    {.name = NULL}
};

static bool
cmdTraceDump(vshControl *ctl, const vshCmd *cmd)
{
    g_autoptr(virshDomain) dom = NULL;
    g_autofree char *session = NULL;
    const char *file = NULL;

    if (vshCommandOptString(ctl, cmd, "file", &file) < 0 ||
        !(dom = virshCommandOptDomain(ctl, cmd, NULL)) ||
        !(session = virshTraceGetSession(ctl, dom, cmd)))
        return false;

    return virshTraceEndDump(ctl, &dom, session, file);
}

const vshCmdDef traceCmds[] = {
    {.name = "trace-dump",
     .handler = cmdTraceDump,
     .opts = opts_trace_dump,
     .info = &info_trace_dump,
     .flags = 0
    },
    {.name = "trace-list",
     .handler = cmdTraceList,
     .opts = opts_trace_list,
     .info = &info_trace_list,
     .flags = 0
    },
    {.name = "trace-start",
     .handler = cmdTraceStart,
     .opts = opts_trace_start,
     .info = &info_trace_start,
     .flags = 0
    },
    {.name = "trace-status",
     .handler = cmdTraceStatus,
     .opts = opts_trace_status,
     .info = &info_trace_status,
     .flags = 0
    },
    {.name = "trace-stop",
     .handler = cmdTraceStop,
     .opts = opts_trace_stop,
     .info = &info_trace_stop,
     .flags = 0
    },
    {.name = NULL}
};
