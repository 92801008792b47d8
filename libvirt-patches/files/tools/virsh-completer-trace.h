/*
 * virsh-completer-trace.h: virsh completer callbacks related to tracing
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#pragma once

#include "vsh.h"

char **
virshTraceSessionCompleter(vshControl *ctl,
                           const vshCmd *cmd,
                           unsigned int flags);

char **
virshTraceOptionCompleter(vshControl *ctl,
                          const vshCmd *cmd,
                          unsigned int flags);
