/*
 * Branch trace: what a capture records
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/boards.h"
#include "qapi/error.h"
#include "qemu/bitmap.h"
#include "selection.h"

static uint32_t privilege_bits(BranchTracePrivilege privilege)
{
    switch (privilege) {
    case BRANCH_TRACE_PRIVILEGE_USER:
        return BTRAIL_PRIVILEGE_USER;
    case BRANCH_TRACE_PRIVILEGE_KERNEL:
        return BTRAIL_PRIVILEGE_KERNEL;
    default:
        return BTRAIL_PRIVILEGE_USER | BTRAIL_PRIVILEGE_KERNEL;
    }
}

bool branch_trace_filter_has_cr3(const BranchTraceFilter *filter, uint64_t cr3)
{
    unsigned i;

    if (!filter->cr3_count) {
        return true;
    }
    for (i = 0; i < filter->cr3_count; i++) {
        if (btrail_cr3_is(cr3, filter->cr3[i])) {
            return true;
        }
    }
    return false;
}

static int compare_cr3(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static bool select_vcpus(BranchTraceSelection *selection, uint16List *vcpus,
                         Error **errp)
{
    unsigned max_cpus = current_machine->smp.max_cpus;

    selection->vcpus = bitmap_new(max_cpus);
    for (; vcpus; vcpus = vcpus->next) {
        if (!qemu_get_cpu(vcpus->value)) {
            error_setg(errp, "there is no vCPU %u: see query-cpus-fast",
                       vcpus->value);
            return false;
        }
        set_bit(vcpus->value, selection->vcpus);
    }
    if (bitmap_empty(selection->vcpus, max_cpus)) {
        error_setg(errp, "the list of vCPUs is empty: omit it to trace all");
        return false;
    }
    return true;
}

static bool select_cr3(BranchTraceFilter *filter, uint64List *cr3,
                       Error **errp)
{
    for (; cr3; cr3 = cr3->next) {
        if (filter->cr3_count == BRANCH_TRACE_MAX_CR3) {
            error_setg(errp, "at most %d address spaces can be selected: "
                       "trace all and filter in the agent",
                       BRANCH_TRACE_MAX_CR3);
            return false;
        }
        filter->cr3[filter->cr3_count++] = cr3->value;
    }
    if (!filter->cr3_count) {
        error_setg(errp, "the list of address spaces is empty: omit it to "
                   "trace all");
        return false;
    }
    qsort(filter->cr3, filter->cr3_count, sizeof(uint64_t), compare_cr3);
    return true;
}

BranchTraceSelection *
branch_trace_selection_new(bool has_vcpus, uint16List *vcpus,
                           bool has_privilege, BranchTracePrivilege privilege,
                           bool has_cr3, uint64List *cr3, Error **errp)
{
    BranchTraceSelection *selection = g_new0(BranchTraceSelection, 1);

    selection->privilege = has_privilege ? privilege
                                         : BRANCH_TRACE_PRIVILEGE_ALL;
    selection->filter.privilege = privilege_bits(selection->privilege);
    if ((has_vcpus && !select_vcpus(selection, vcpus, errp)) ||
        (has_cr3 && !select_cr3(&selection->filter, cr3, errp))) {
        branch_trace_selection_free(selection);
        return NULL;
    }
    return selection;
}

void branch_trace_selection_free(BranchTraceSelection *selection)
{
    if (selection) {
        g_free(selection->vcpus);
        g_free(selection);
    }
}

bool branch_trace_selection_has(const BranchTraceSelection *selection,
                                int cpu_index)
{
    return !selection->vcpus || test_bit(cpu_index, selection->vcpus);
}

const BranchTraceFilter *
branch_trace_selection_filter(const BranchTraceSelection *selection,
                              int cpu_index)
{
    static const BranchTraceFilter nothing;

    return branch_trace_selection_has(selection, cpu_index)
           ? &selection->filter : &nothing;
}

void branch_trace_selection_info(const BranchTraceSelection *selection,
                                 BranchTraceInfo *info)
{
    uint64List **tail = &info->cr3;
    unsigned i;

    info->has_privilege = true;
    info->privilege = selection->privilege;
    info->has_cr3 = selection->filter.cr3_count > 0;
    for (i = 0; i < selection->filter.cr3_count; i++) {
        QAPI_LIST_APPEND(tail, selection->filter.cr3[i]);
    }
}
