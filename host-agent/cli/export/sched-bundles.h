/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a guest's kernel schedules, as the events of ftrace that Perfetto knows:
 * compact bundles of sched_switch and sched_waking of each vCPU
 *
 * Idle tasks are number 0.  A vCPU of which it is not known what it runs has a
 * thread of its own that says so.  A state that is not known is one that no
 * kernel has: readers show it as unknown if they take the states for those of
 * Linux 4.14 or later.
 */

#ifndef BTRAIL_CLI_SCHED_BUNDLES_H
#define BTRAIL_CLI_SCHED_BUNDLES_H

#include "analyze/schedule.h"
#include "cli/export/perfetto.h"

struct sched_bundles;

/* @out outlives the result. */
struct sched_bundles *sched_bundles_new(struct perfetto *out);
void sched_bundles_free(struct sched_bundles *b);

/* For schedule_read(), which gets the bundles as @opaque */
extern const struct schedule_ops sched_bundles_ops;

/* Writes what is left of events. */
void sched_bundles_end(struct sched_bundles *b);

/* Describes the threads that nobody has described. */
void sched_bundles_threads(const struct sched_bundles *b,
                           struct perfetto *out);

#endif /* BTRAIL_CLI_SCHED_BUNDLES_H */
