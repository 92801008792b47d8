/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How a user names processes: see process.h
 */

#include <stdio.h>
#include <string.h>

#include "guest-linux/process.h"

bool btrail_process_is(const struct btrail_process *p, const char *name)
{
    char pid[16];

    snprintf(pid, sizeof(pid), "%u", p->pid);
    return !strcmp(name, p->comm) || !strcmp(name, pid);
}
