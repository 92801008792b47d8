/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions that processes compile at run time, as far as they write them down:
 * /tmp/perf-PID.map, whose form is that of Linux' perf
 */

#ifndef BTRAIL_FUNCTIONS_H
#define BTRAIL_FUNCTIONS_H

#include "outbox.h"

/* A process executes memory that is no file's: it may have such a map. */
void functions_watch(uint32_t pid);

/* It executes another program from here on. */
void functions_unwatch(uint32_t pid);

/*
 * Sends what processes have added, as there is room, until a time of
 * CLOCK_MONOTONIC.  Maps are read several times a second.  Returns whether
 * there is no more for now.
 */
bool functions_step(struct outbox *out, uint64_t until);

/* The next step reads all maps, from the first one on. */
void functions_again(void);

/* Forgets all. */
void functions_end(void);

#endif /* BTRAIL_FUNCTIONS_H */
