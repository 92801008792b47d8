/*
 * Branch trace: which producer there is
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/misc/branch-trace.h"

/* The accelerator's, which is there before the device, or without one */
static const BranchTraceProducerOps *producer;

void branch_trace_set_producer(const BranchTraceProducerOps *ops)
{
    producer = ops;
}

const BranchTraceProducerOps *branch_trace_producer(void)
{
    return producer;
}
