/*
 * Branch trace: what a capture records
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_SELECTION_H
#define HW_MISC_BRANCH_TRACE_SELECTION_H

#include "hw/misc/branch-trace.h"
#include "qapi/qapi-types-branch-trace.h"

/* vCPUs, and a filter of what they do; not changed once it is made */
typedef struct BranchTraceSelection {
    BranchTracePrivilege privilege;
    unsigned long *vcpus;       /* bitmap, NULL for all */
    BranchTraceFilter filter;   /* of those */
} BranchTraceSelection;

/* The arguments of the QMP commands; NULL if they make no sense */
BranchTraceSelection *
branch_trace_selection_new(bool has_vcpus, uint16List *vcpus,
                           bool has_privilege, BranchTracePrivilege privilege,
                           bool has_cr3, uint64List *cr3, Error **errp);
void branch_trace_selection_free(BranchTraceSelection *selection);

bool branch_trace_selection_has(const BranchTraceSelection *selection,
                                int cpu_index);

/* The filter for a vCPU; one that is not selected has one for nothing. */
const BranchTraceFilter *
branch_trace_selection_filter(const BranchTraceSelection *selection,
                              int cpu_index);

/* Adds the selection to what a query returns. */
void branch_trace_selection_info(const BranchTraceSelection *selection,
                                 BranchTraceInfo *info);

#endif /* HW_MISC_BRANCH_TRACE_SELECTION_H */
