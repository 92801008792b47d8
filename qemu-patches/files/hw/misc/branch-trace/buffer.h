/*
 * Branch trace: the memory that the device shares with the agent
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_BUFFER_H
#define HW_MISC_BRANCH_TRACE_BUFFER_H

#include "hw/misc/branch-trace-transport.h"

/**
 * BranchTraceBuffer - the memfd of a capture, as the device laid it out
 * @slot:  which tail belongs to the connected agent; with the BQL held
 * @ready: socket pair; the device writes to wake up the agent
 * @free:  socket pair; the agent writes when it has freed slabs
 *
 * The device relies on these copies alone: the agent can write to all of the
 * shared memory.  The second end of each socket pair is the agent's, so no
 * call on the first may depend on file status flags to return at once.
 */
typedef struct BranchTraceBuffer {
    int fd;
    uint8_t *base;
    uint64_t size;
    uint64_t vcpu_offset;
    uint64_t vcpu_stride;
    uint64_t desc_offset;
    uint64_t slab_offset;
    uint32_t vcpus;
    uint32_t slabs;
    uint32_t slab_size;
    uint32_t records_per_slab;
    uint32_t event_offset;
    uint32_t events_per_slab;
    uint64_t code_offset;
    uint64_t code_page_offset;
    uint32_t code_items;
    uint32_t slot;
    int ready[2];
    int free[2];
} BranchTraceBuffer;

/*
 * Nothing of the buffer is in memory before it is used.  Even if this fails,
 * the caller destroys the buffer.
 */
bool branch_trace_buffer_create(BranchTraceBuffer *buf, unsigned vcpus,
                                uint64_t size_per_vcpu, uint32_t code_items,
                                Error **errp);

/* Any thread.  This can take long: a second for some GiB. */
void branch_trace_buffer_destroy(BranchTraceBuffer *buf);

/* The area of a vCPU */
uint8_t *branch_trace_buffer_area(const BranchTraceBuffer *buf, unsigned vcpu);

/* Wakes up the agent if it sleeps. */
void branch_trace_buffer_signal(BranchTraceBuffer *buf);

/*
 * Consumes the agent's signals that it has freed slabs; false if it has sent
 * something else.
 */
bool branch_trace_buffer_read_free(BranchTraceBuffer *buf);

/* Replaces @free, for another agent. */
bool branch_trace_buffer_renew_free(BranchTraceBuffer *buf, Error **errp);

#endif /* HW_MISC_BRANCH_TRACE_BUFFER_H */
