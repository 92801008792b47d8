/*
 * virsh-trace.h: Commands to trace the branches of a domain
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#pragma once

#include "vsh.h"

extern const vshCmdDef traceCmds[];

/* virsh-trace-start.c */
extern const vshCmdInfo info_trace_start;
extern const vshCmdOptDef opts_trace_start[];
bool cmdTraceStart(vshControl *ctl, const vshCmd *cmd);

/* virsh-trace-status.c */
extern const vshCmdInfo info_trace_status;
extern const vshCmdOptDef opts_trace_status[];
bool cmdTraceStatus(vshControl *ctl, const vshCmd *cmd);

/* virsh-trace-list.c */
extern const vshCmdInfo info_trace_list;
extern const vshCmdOptDef opts_trace_list[];
bool cmdTraceList(vshControl *ctl, const vshCmd *cmd);
