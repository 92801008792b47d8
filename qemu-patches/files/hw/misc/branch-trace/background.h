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
 * While too many jobs have not ended, what would lead to another one fails at
 * its start: an agent can make them last.
 */
bool branch_trace_background_has_room(Error **errp);

#endif /* HW_MISC_BRANCH_TRACE_BACKGROUND_H */
