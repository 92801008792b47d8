/*
 * virsh-trace.h: Commands to trace the branches of a domain
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#pragma once

#include "virenum.h"
#include "virjson.h"
#include "virsh.h"

/* The words of the agent's commands */
typedef enum {
    VIRSH_TRACE_OVERFLOW_PAUSE,
    VIRSH_TRACE_OVERFLOW_DROP,
    VIRSH_TRACE_OVERFLOW_OVERWRITE,
    VIRSH_TRACE_OVERFLOW_LAST
} virshTraceOverflow;

VIR_ENUM_DECL(virshTraceOverflow);

typedef enum {
    VIRSH_TRACE_MODE_CONTINUOUS,
    VIRSH_TRACE_MODE_NEWEST,
    VIRSH_TRACE_MODE_LAST
} virshTraceMode;

VIR_ENUM_DECL(virshTraceMode);

typedef enum {
    VIRSH_TRACE_NAMES_AUTO,
    VIRSH_TRACE_NAMES_ALL,
    VIRSH_TRACE_NAMES_OFF,
    VIRSH_TRACE_NAMES_LAST
} virshTraceNames;

VIR_ENUM_DECL(virshTraceNames);

typedef enum {
    VIRSH_TRACE_ACTION_START,
    VIRSH_TRACE_ACTION_STOP,
    VIRSH_TRACE_ACTION_DUMP,
    VIRSH_TRACE_ACTION_LAST
} virshTraceAction;

VIR_ENUM_DECL(virshTraceAction);

char *
virshTraceOwner(void);

virJSONValue *
virshTraceStartCommand(vshControl *ctl,
                       const vshCmd *cmd);

char **
virshTraceActiveSessions(vshControl *ctl,
                         virDomainPtr dom);

extern const vshCmdDef traceCmds[];
