/*
 * Branch trace: work that may take long
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_BACKGROUND_H
#define HW_MISC_BRANCH_TRACE_BACKGROUND_H

/*
 * All functions are called with the BQL held.
 */

typedef void BranchTraceJob(void *opaque);

/* Calls @job in a thread of its own, without the BQL. */
void branch_trace_background_run(BranchTraceJob *job, void *opaque);

/*
 * What leads to a job fails at first, while too many have not ended: an agent
 * can have them last.
 */
bool branch_trace_background_has_room(Error **errp);

#endif /* HW_MISC_BRANCH_TRACE_BACKGROUND_H */
