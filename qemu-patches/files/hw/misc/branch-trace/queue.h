/*
 * Branch trace: what the device publishes and the agent drains
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_QUEUE_H
#define HW_MISC_BRANCH_TRACE_QUEUE_H

/**
 * BranchTraceQueue - slabs or items of code of one vCPU
 * @head:     how many were published; written by the vCPU, read by all
 * @drained:  how many were drained, as last read and found valid, and the slot
 *            of the agent that drains; both change at once, by any thread
 * @shm_head: @head in shared memory
 * @shm_tail: the tails of the agents in shared memory, by slot
 */
typedef struct BranchTraceQueue {
    uint64_t head;
    uint64_t drained;
    uint64_t *shm_head;
    uint64_t *shm_tail;
} BranchTraceQueue;

/* Both are in shared memory and zero; the agent in @slot drains. */
void branch_trace_queue_init(BranchTraceQueue *q, uint64_t *shm_head,
                             uint64_t *shm_tail, uint32_t slot);

/* The vCPU publishes the next one. */
void branch_trace_queue_advance(BranchTraceQueue *q);

/* Any thread: how many were drained, as far as is known? */
uint64_t branch_trace_queue_tail(const BranchTraceQueue *q);

/* Any thread: how many are published and not drained, as far as is known? */
uint64_t branch_trace_queue_used(const BranchTraceQueue *q);

/* Any thread: false if the agent has written an impossible tail. */
bool branch_trace_queue_read_tail(BranchTraceQueue *q);

/* From now on the agent in @slot drains; it continues where the last one was. */
void branch_trace_queue_hand_over(BranchTraceQueue *q, uint32_t slot);

#endif /* HW_MISC_BRANCH_TRACE_QUEUE_H */
