/*
 * Branch trace: what the device records of a guest, from start to end
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_CAPTURE_H
#define HW_MISC_BRANCH_TRACE_CAPTURE_H

#include "qapi/qapi-types-sockets.h"
#include "qemu/coroutine.h"
#include "control.h"
#include "data-connection.h"
#include "streams.h"

typedef struct BranchTraceCapture BranchTraceCapture;

/**
 * BranchTraceCaptures - the captures of a guest, one at a time
 * @latest:     the one that was started last, or NULL
 * @streams:    those of @latest, for work that waits for a vCPU
 * @connecting: to an agent that has not answered yet, or NULL
 */
typedef struct BranchTraceCaptures {
    BranchTraceCapture *latest;
    BranchTraceStreams *streams;
    BranchTraceData *connecting;
} BranchTraceCaptures;

/**
 * BranchTraceCaptureOptions
 * @name:          at most BTRAIL_CAPTURE_NAME_MAX - 1 bytes
 * @overflow:      what to do when the agent is too slow
 * @buffer_size:   bytes of buffer per vCPU
 * @agent_timeout: milliseconds, 0 for never
 * @code_pages:    of the ring of code of each vCPU, 0 for no code
 * @local:         there is no agent: QEMU itself reads the records, of which
 *                 the last ones are kept; @overflow is overwrite
 */
typedef struct BranchTraceCaptureOptions {
    const char *name;
    BranchTraceOverflow overflow;
    uint64_t buffer_size;
    uint32_t agent_timeout;
    uint32_t code_pages;
    bool local;
} BranchTraceCaptureOptions;

/*
 * All functions are called with the BQL held.  A capture that has ended stays,
 * for queries, until the next one starts.
 */

/* The capture that is active, or NULL */
BranchTraceCapture *
branch_trace_capture_active(const BranchTraceCaptures *captures);

const char *branch_trace_capture_name(const BranchTraceCapture *capture);

/* Is it one without an agent?  Nobody but its owner can change it. */
bool branch_trace_capture_is_local(const BranchTraceCapture *capture);

/*
 * Makes a capture that reports to @control.  @selection is taken over in any
 * case.
 */
BranchTraceCapture *
branch_trace_capture_new(BranchTraceCaptures *captures,
                         const BranchTraceCaptureOptions *options,
                         BranchTraceSelection *selection,
                         BranchTraceControl *control, Error **errp);

/* Frees a capture that was not started. */
void branch_trace_capture_free(BranchTraceCapture *capture);

/* Hands the buffer of a capture that was not started to its agent. */
bool coroutine_fn branch_trace_capture_connect(BranchTraceCapture *capture,
                                               SocketAddress *agent,
                                               Error **errp);

/* QEMU exits: makes a call that waits for an agent fail. */
void branch_trace_capture_cancel(BranchTraceCaptures *captures);

/*
 * Starts a capture that is connected, or local, and takes it over if that
 * succeeds.
 */
bool branch_trace_capture_start(BranchTraceCapture *capture, Error **errp);

/* Connects the active capture to another agent. */
void coroutine_fn branch_trace_capture_attach(BranchTraceCapture *capture,
                                              SocketAddress *agent,
                                              Error **errp);

/*
 * Changes the active capture; @selection is taken over in any case.  The
 * capture may have ended when this returns.
 */
bool branch_trace_capture_change(BranchTraceCapture *capture,
                                 BranchTraceSelection *selection,
                                 BranchTraceOverflow overflow, Error **errp);

/* Ends the active capture; @end_reason is enum btrail_end_reason. */
void branch_trace_capture_end(BranchTraceCapture *capture,
                              BranchTraceReason reason, uint16_t end_reason);

/* Frees the latest capture, which has ended, with its buffer. */
void branch_trace_capture_forget(BranchTraceCaptures *captures);

/* What a query returns; @capture may be NULL. */
BranchTraceInfo *branch_trace_capture_info(BranchTraceCapture *capture);

/* The rest is for events of the guest, while the capture is active. */

/* No vCPU runs at this moment. */
void branch_trace_capture_vm_state(BranchTraceCapture *capture, bool running);
void branch_trace_capture_restored(BranchTraceCapture *capture);
void branch_trace_capture_plug(BranchTraceCapture *capture, CPUState *cpu);

#endif /* HW_MISC_BRANCH_TRACE_CAPTURE_H */
