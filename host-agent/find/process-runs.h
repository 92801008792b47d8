/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When the processes of a name ran, and ended, by the tasks that a trace names
 */

#ifndef BTRAIL_PROCESS_RUNS_H
#define BTRAIL_PROCESS_RUNS_H

#include "find/moment.h"
#include "util/agent-error.h"

/**
 * enum process_run
 * @PROCESS_RUN_FIRST:  it begins to run
 * @PROCESS_RUN_LAST:   it has run for the last time, or the trace ends
 * @PROCESS_EXIT_FIRST: the first process of this name that ended has run
 * @PROCESS_EXIT_LAST:  the last one
 */
enum process_run {
    PROCESS_RUN_FIRST,
    PROCESS_RUN_LAST,
    PROCESS_EXIT_FIRST,
    PROCESS_EXIT_LAST,
};

/**
 * process_runs_find - find a moment of the processes of a name
 * @visit: gets the last record before it
 *
 * A process has ended if the last of its tasks to run has called
 * do_task_dead().
 *
 * Errors: COMMAND: there is no such moment; NAMES: the trace does not name that
 * function of the kernel, and so does not show where processes end.
 */
bool process_runs_find(const struct btrail_trace *trace, const char *name,
                       enum process_run what, struct moment *visit,
                       GError **error);

#endif /* BTRAIL_PROCESS_RUNS_H */
