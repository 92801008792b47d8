/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a kernel switches tasks, and how to find the one that runs
 */

#ifndef LINUX_SWITCH_H
#define LINUX_SWITCH_H

#include "backtrail/transport.h"
#include "guest-linux/kernel.h"

/* Returns false, and a @tasks of zeros, if this kernel is different. */
bool linux_switch(struct linux_kernel *k, struct btrail_tasks *tasks);

#endif /* LINUX_SWITCH_H */
