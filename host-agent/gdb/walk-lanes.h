/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The lanes of processes: what each of their threads has run, on any vCPU
 */

#ifndef BTRAIL_GDB_WALK_LANES_H
#define BTRAIL_GDB_WALK_LANES_H

#include "gdb/lane.h"

/* More threads in a trace are refused: memory is bounded. */
#define WALK_LANES_MAX  1000000u

/**
 * struct walk_lane - the runs of a task
 * @task:   as it was named last
 * @kernel: its number, or 0; of two kernels, tasks of one number are two
 * @runs:   of struct lane_run
 */
struct walk_lane {
    struct btrail_task task;
    unsigned kernel;
    GArray *runs;
};

/*
 * The tasks of all processes with a name, or with a number, as struct walk_lane
 * in the order of their numbers, to be unreffed.  NULL with an error.
 *
 * Errors: COMMAND: the trace has none, names none, or has too many threads.
 */
GArray *walk_lanes(const struct btrail_trace *trace, const char *process,
                   GError **error);

#endif /* BTRAIL_GDB_WALK_LANES_H */
