/*
 * virsh-trace-session.h: The sessions of a domain, and the user's own
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#pragma once

#include "virsh.h"

char **
virshTraceActiveSessions(virDomainPtr dom);

char *
virshTraceGetSession(vshControl *ctl,
                     virDomainPtr dom,
                     const vshCmd *cmd);
