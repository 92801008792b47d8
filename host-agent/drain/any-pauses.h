/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When any vCPU was paused: pauses that overlap count once
 */

#ifndef BTRAIL_ANY_PAUSES_H
#define BTRAIL_ANY_PAUSES_H

#include <glib.h>

#include "lib/agent/pause.h"

/* As many are remembered; the time between two old ones counts as one. */
#define ANY_PAUSES_MAX  4096

struct any_pauses;

struct any_pauses *any_pauses_new(void);
void any_pauses_free(struct any_pauses *pauses);

/* Those of several vCPUs come in any order, but nearly in that of time. */
void any_pauses_add(struct any_pauses *pauses,
                    const struct btrail_pause *pause);

/* How much of a time any vCPU was paused, as far as was added */
uint64_t any_pauses_in(const struct any_pauses *pauses, uint64_t begin,
                       uint64_t end);

#endif /* BTRAIL_ANY_PAUSES_H */
