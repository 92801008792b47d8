/*
 * Branch trace: what the device and its streams share
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_INTERNAL_H
#define HW_MISC_BRANCH_TRACE_INTERNAL_H

#include "hw/misc/branch-trace.h"

/**
 * BranchTraceBuffer - the memfd of a capture, as the device laid it out
 *
 * The copies here are what the device goes by: the agent can write to all of
 * the shared memory.
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
    /*
     * Socket pairs, of which the second end is the agent's.  No call on ours
     * may depend on its file status flags to return at once.
     */
    int ready[2];
    int free[2];
} BranchTraceBuffer;

/* Nothing to destroy yet */
void branch_trace_buffer_init(BranchTraceBuffer *buf);

bool branch_trace_buffer_create(BranchTraceBuffer *buf, unsigned vcpus,
                                uint64_t size_per_vcpu, uint32_t code_items,
                                Error **errp);
void branch_trace_buffer_destroy(BranchTraceBuffer *buf);
void branch_trace_buffer_signal(BranchTraceBuffer *buf);
void branch_trace_buffer_read_free(BranchTraceBuffer *buf);

/**
 * BranchTracePolicy - what a capture tells its streams while they run
 * @overflow:   enum btrail_overflow_policy.  The loss of the agent can make it
 *              another one than was asked for.
 * @gap_reason: for records that are lost, enum btrail_gap_reason
 * @slot:       which tail is that of the agent
 *
 * Written with the BQL held, read by the vCPUs.
 */
typedef struct BranchTracePolicy {
    uint32_t overflow;
    uint32_t gap_reason;
    uint32_t slot;
} BranchTracePolicy;

/**
 * BranchTraceSink - a slab of the device's own
 *
 * Records go here when no slab is free.  What is in it when a slab becomes
 * free moves there; what does not fit is lost.
 */
typedef struct BranchTraceSink {
    struct btrail_record *records;
    struct btrail_event *events;
} BranchTraceSink;

/* What a capture knows of the code that its vCPUs execute, and tells of it */
typedef struct BranchTraceCode BranchTraceCode;
typedef struct BranchTraceCodeStream BranchTraceCodeStream;

BranchTraceCode *branch_trace_code_new(void);
void branch_trace_code_free(BranchTraceCode *code);

/* Any thread: tell everything again, for an agent that has not seen it. */
void branch_trace_code_forget(BranchTraceCode *code);

/* NULL if @code is */
BranchTraceCodeStream *branch_trace_code_stream_new(BranchTraceCode *code,
                                                    BranchTraceBuffer *buf,
                                                    uint8_t *area);
void branch_trace_code_stream_free(BranchTraceCodeStream *c);

/* The vCPU of a stream comes and goes; these run like those of the stream. */
void branch_trace_code_join(BranchTraceStream *s);
void branch_trace_code_leave(BranchTraceStream *s);

/* Move what waits to the ring.  False if something goes on waiting. */
bool branch_trace_code_settle(BranchTraceStream *s);

/* Any thread: see those of the stream. */
bool branch_trace_code_read_tail(BranchTraceStream *s);
void branch_trace_code_init_tail(BranchTraceStream *s, uint32_t slot);
uint64_t branch_trace_code_tail(BranchTraceStream *s);
bool branch_trace_code_half_free(BranchTraceStream *s);

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
    uint64_t sink_gap;          /* lost just before the sink's first record */
    uint16_t sink_gap_reason;

    uint64_t cr3;
    uint64_t head;
    uint64_t tail;              /* as last read and found valid */
    uint64_t lost;              /* written by the vCPU, read by all */
    uint64_t gap_reported;      /* lost, as of the last QMP event */
    uint64_t published;         /* index after the last published slab */
    uint64_t since;             /* index of the first record under @filter */
    uint64_t *slab_end;         /* see stream_slab_end() */

    int state;                  /* enum btrail_vcpu_state */
    uint64_t paused_ns;
    uint64_t wait_start;
    uint64_t wait_tail;         /* the agent's progress, for its timeout */

    BranchTraceCodeStream *code;    /* NULL if it is not told */
    QTAILQ_ENTRY(BranchTraceStream) code_next;
    uint64_t wait_code_tail;    /* see wait_tail */

    BranchTraceSink sink;
    QTAILQ_ENTRY(BranchTraceStream) next;
};

BranchTraceStream *branch_trace_stream_new(CPUState *cpu,
                                           BranchTraceBuffer *buf,
                                           const BranchTraceProducerOps *ops,
                                           const BranchTraceFilter *filter,
                                           const BranchTracePolicy *policy,
                                           BranchTraceCode *code);
void branch_trace_stream_free(BranchTraceStream *s);

/* These run like those in branch-trace.h. */
void branch_trace_stream_begin(BranchTraceStream *s);
void branch_trace_stream_unplug(BranchTraceStream *s);
void branch_trace_stream_replug(BranchTraceStream *s, CPUState *cpu);
void branch_trace_stream_change(BranchTraceStream *s,
                                const BranchTraceFilter *filter);
void branch_trace_stream_flush(BranchTraceStream *s);
void branch_trace_stream_end(BranchTraceStream *s, uint16_t reason);
void branch_trace_stream_refill(BranchTraceStream *s);
void branch_trace_stream_vm_state(BranchTraceStream *s, bool running);

/* Index of the next record */
uint64_t branch_trace_stream_next_index(BranchTraceStream *s);

/* With policy pause: hold the vCPU until the ring of code has room. */
void branch_trace_stream_wait_for_code(BranchTraceStream *s);

/* Any thread: make the vCPU look at the clock at its next record. */
void branch_trace_stream_tick(BranchTraceStream *s);

/* Any thread: is there room for a vCPU that has none? */
bool branch_trace_stream_can_refill(BranchTraceStream *s);

/*
 * Any thread.  False if the agent has written a tail that cannot be: it is
 * lost then, and the last valid one stays in force.
 */
bool branch_trace_stream_read_tail(BranchTraceStream *s);

/* Any thread: let an agent that uses @slot go on where the last one stood. */
void branch_trace_stream_init_tail(BranchTraceStream *s, uint32_t slot);

uint64_t branch_trace_stream_index(BranchTraceStream *s);
uint64_t branch_trace_stream_since(BranchTraceStream *s);
uint64_t branch_trace_stream_drained(BranchTraceStream *s);
uint64_t branch_trace_stream_lost(BranchTraceStream *s);
uint64_t branch_trace_stream_paused_ns(BranchTraceStream *s);

#endif /* HW_MISC_BRANCH_TRACE_INTERNAL_H */
