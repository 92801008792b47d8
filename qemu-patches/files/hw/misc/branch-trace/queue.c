/*
 * Branch trace: what the device publishes and the agent drains
 *
 * The agent's tail is in shared memory.  The vCPU reads it when it needs room,
 * and the main thread to watch the agent; the latter also exchanges the agent.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "queue.h"

/* In BranchTraceQueue.drained; no vCPU publishes 2^56 slabs. */
#define SLOT_SHIFT  56
#define TAIL_MASK   ((UINT64_C(1) << SLOT_SHIFT) - 1)

void branch_trace_queue_init(BranchTraceQueue *q, uint64_t *shm_head,
                             uint64_t *shm_tail, uint32_t slot)
{
    *q = (BranchTraceQueue) {
        .drained = (uint64_t)slot << SLOT_SHIFT,
        .shm_head = shm_head,
        .shm_tail = shm_tail,
    };
}

void branch_trace_queue_advance(BranchTraceQueue *q)
{
    qatomic_set(&q->head, q->head + 1);
    qatomic_store_release(q->shm_head, q->head);
}

uint64_t branch_trace_queue_tail(const BranchTraceQueue *q)
{
    return qatomic_read(&q->drained) & TAIL_MASK;
}

uint64_t branch_trace_queue_used(const BranchTraceQueue *q)
{
    return qatomic_read(&q->head) - branch_trace_queue_tail(q);
}

/*
 * Sets @tail to what the agent in the slot of @drained has written.  @drained
 * was read before, so another thread can only have made the queue's newer.
 */
static bool read_valid_tail(BranchTraceQueue *q, uint64_t drained,
                            uint64_t *tail)
{
    uint64_t head;

    *tail = qatomic_load_acquire(&q->shm_tail[drained >> SLOT_SHIFT]);
    /* In this order: the agent's tail cannot be ahead of a later head. */
    head = qatomic_read(&q->head);
    return *tail <= head && *tail >= (drained & TAIL_MASK);
}

bool branch_trace_queue_read_tail(BranchTraceQueue *q)
{
    uint64_t drained = qatomic_load_acquire(&q->drained);
    uint64_t tail;

    if (!read_valid_tail(q, drained, &tail)) {
        return false;
    }
    /* If this fails, another thread has read the tail or changed the slot. */
    qatomic_cmpxchg(&q->drained, drained, (drained & ~TAIL_MASK) | tail);
    return true;
}

void branch_trace_queue_hand_over(BranchTraceQueue *q, uint32_t slot)
{
    uint64_t drained = qatomic_load_acquire(&q->drained);
    uint64_t old, tail;

    while (true) {
        /* The last agent may have drained more since its tail was read. */
        if (!read_valid_tail(q, drained, &tail)) {
            tail = drained & TAIL_MASK;
        }
        qatomic_store_release(&q->shm_tail[slot], tail);
        old = qatomic_cmpxchg(&q->drained, drained,
                              ((uint64_t)slot << SLOT_SHIFT) | tail);
        if (old == drained) {
            break;
        }
        drained = old;
    }
}
