/*
 * Branch trace: the stream of one vCPU
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_STREAM_H
#define HW_MISC_BRANCH_TRACE_STREAM_H

#include "hw/misc/branch-trace.h"
#include "qapi/qapi-types-branch-trace.h"
#include "blocks.h"
#include "buffer.h"
#include "code.h"
#include "queue.h"

/**
 * BranchTracePolicy - what a stream does when it has no free slab
 * @overflow:   enum btrail_overflow_policy.  The loss of the agent can make it
 *              another one than was asked for.
 * @gap_reason: of records that are lost, enum btrail_gap_reason
 *
 * Written with the BQL held, read by the vCPUs.
 */
typedef struct BranchTracePolicy {
    uint32_t overflow;
    uint32_t gap_reason;
} BranchTracePolicy;

/* Other threads read @cpu, @cpu_index and, atomically, @state. */
struct BranchTraceStream {
    CPUState *cpu;              /* NULL while unplugged, and after the end */
    int cpu_index;
    const BranchTraceProducerOps *ops;
    BranchTraceCursor *cursor;
    BranchTraceCursor unplugged_cursor;
    BranchTraceBuffer *buf;
    const BranchTraceFilter *filter;
    const BranchTracePolicy *policy;

    /* In shared memory, written only */
    struct btrail_shm_vcpu *shm;
    struct btrail_slab_desc *desc;
    uint8_t *slabs;

    /* The slab in progress: a shared one, or the sink */
    bool in_sink;
    struct btrail_record *records;
    struct btrail_event *events;
    uintptr_t threshold;        /* of the cursor: the slab is full */
    uint64_t first_index;
    uint64_t first_cr3;
    unsigned n_events;
    bool has_task;              /* one of the events is a TASK event: */
    unsigned last_task;         /* the last of these */
    bool has_kernel;            /* one of the events is a KERNEL event */

    /*
     * The sink is a slab of the device's own.  Records go there when no slab
     * is free.  When one becomes free, the content moves there; what does not
     * fit into the sink is lost.
     */
    struct btrail_record *sink_records;
    struct btrail_event *sink_events;
    uint64_t sink_gap;          /* lost just before the sink's first record */
    uint16_t sink_gap_reason;

    uint64_t cr3;
    struct btrail_event task;   /* the last one; type 0: there was none */
    const BranchTraceKernels *tasks;    /* NULL if they are not noticed */
    bool kernels;               /* the agent knows KERNEL events */
    struct btrail_event kernel; /* the last one; type 0: there was none */
    struct btrail_event left;   /* the task that it has ended, but for that of a
                                   nested guest */
    BranchTraceQueue queue;     /* of slabs */
    uint64_t lost;              /* written by the vCPU, read by all */
    uint64_t published;         /* index after the last published slab */
    uint64_t since;             /* index of the first record under @filter */
    uint64_t *slab_end;         /* see stream_slab_end() */

    BranchTraceCodeRing *code;  /* NULL if code is not reported */
    BranchTraceQueue code_queue;    /* of its items */

    /* Is that work queued for the vCPU?  With the BQL held */
    bool flush_queued;
    bool refill_queued;

    enum btrail_vcpu_state state;
    uint64_t paused_ns;
    uint64_t wait_start;

    /* As of the last call of has_progressed() and has_lost() */
    uint64_t old_tail;
    uint64_t old_code_tail;
    uint64_t old_lost;
};

BranchTraceStream *branch_trace_stream_new(CPUState *cpu,
                                           BranchTraceBuffer *buf,
                                           const BranchTraceFilter *filter,
                                           const BranchTracePolicy *policy,
                                           BranchTraceCode *code);
void branch_trace_stream_free(BranchTraceStream *s);

/*
 * These run on the thread of the vCPU, or with the BQL held while it does not
 * run.
 */

/* Starts the stream, or continues it on @cpu if its vCPU was unplugged. */
void branch_trace_stream_plug(BranchTraceStream *s, CPUState *cpu);
void branch_trace_stream_unplug(BranchTraceStream *s);

void branch_trace_stream_change(BranchTraceStream *s,
                                const BranchTraceFilter *filter);

/* Changes how tasks are found; NULL in between. */
void branch_trace_stream_set_tasks(BranchTraceStream *s,
                                   const BranchTraceKernels *tasks);

/* Publishes the slab in progress, if the vCPU need not wait for the next. */
void branch_trace_stream_flush(BranchTraceStream *s);

/* Publishes the end; @reason is enum btrail_end_reason. */
void branch_trace_stream_end(BranchTraceStream *s, uint16_t reason);

/* Continues in a slab, if one has become free. */
void branch_trace_stream_refill(BranchTraceStream *s);

/* The guest was stopped or resumed. */
void branch_trace_stream_vm_state(BranchTraceStream *s, bool running);

/* Index of the next record */
uint64_t branch_trace_stream_index(BranchTraceStream *s);

/*
 * The slab in progress (@n is 0), or that number @n before it.  False if the
 * buffer does not have it any more.  With policy overwrite, and only if no agent
 * has the buffer: nothing of it is checked.
 */
bool branch_trace_stream_slab(BranchTraceStream *s, unsigned n,
                              BranchTraceSlab *slab);

/* With policy pause, holds the vCPU while items of code wait for room. */
void branch_trace_stream_wait_for_code(BranchTraceStream *s);

/* The rest may run on any thread. */

/* Makes the vCPU read the clock at its next record. */
void branch_trace_stream_tick(BranchTraceStream *s);

/* Is there room for a vCPU that has none? */
bool branch_trace_stream_can_refill(BranchTraceStream *s);

/*
 * Reads how far the agent is.  Returns false if it has written a tail that is
 * not possible: it is lost then, and the last valid tail stays in force.
 */
bool branch_trace_stream_read_tail(BranchTraceStream *s);

/* From now on the agent in @slot drains; it continues where the last one was. */
void branch_trace_stream_hand_over(BranchTraceStream *s, uint32_t slot);

/* Has the agent drained anything since the last call? */
bool branch_trace_stream_has_progressed(BranchTraceStream *s);

/* Were records lost since the last call?  @lost is set to their sum. */
bool branch_trace_stream_has_lost(BranchTraceStream *s, uint64_t *lost);

/* What is known of the stream, with a state that ignores the selection */
BranchTraceVcpu *branch_trace_stream_info(BranchTraceStream *s);

#endif /* HW_MISC_BRANCH_TRACE_STREAM_H */
