/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The lanes of processes: what each of their threads has run, on any vCPU
 */

#ifndef BTRAIL_GDB_WALK_LANES_H
#define BTRAIL_GDB_WALK_LANES_H

#include "gdb/lane.h"

/* The runs of a task; @task is as it was named last */
struct walk_lane {
    struct btrail_task task;
    GArray *runs;               /* of struct lane_run */
};

/*
 * The tasks of all processes with a name, or with a number, as struct walk_lane
 * in the order of their numbers, to be unreffed.  NULL with an error.
 *
 * Errors: COMMAND: the trace has none, or names none.
 */
GArray *walk_lanes(const struct btrail_trace *trace, const char *process,
                   GError **error);

#endif /* BTRAIL_GDB_WALK_LANES_H */
