/*
 * virsh-trace.h: Commands to trace the branches of a domain
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#pragma once

#include "virsh.h"

extern const vshCmdDef traceCmds[];
