/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How a user names processes of a guest
 */

#ifndef BTRAIL_PROCESS_H
#define BTRAIL_PROCESS_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "backtrail/names.h"

/* Is @name the process's pid, in decimal, or its name? */
static inline bool process_is(const struct btrail_process *p,
                              const char *name)
{
    char pid[16];

    snprintf(pid, sizeof(pid), "%u", p->pid);
    return !strcmp(name, p->comm) || !strcmp(name, pid);
}

#endif /* BTRAIL_PROCESS_H */
