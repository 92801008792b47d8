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
virshTraceOverflowCompleter(vshControl *ctl,
                            const vshCmd *cmd,
                            unsigned int flags);

char **
virshTraceModeCompleter(vshControl *ctl,
                        const vshCmd *cmd,
                        unsigned int flags);

char **
virshTraceNameCompleter(vshControl *ctl,
                        const vshCmd *cmd,
                        unsigned int flags);

char **
virshTraceVcpusCompleter(vshControl *ctl,
                         const vshCmd *cmd,
                         unsigned int flags);
