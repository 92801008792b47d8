/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A trace of what rings of Intel PT have, which are not written any more: one
 * stream for each vCPU
 *
 * Whoever freezes them has stopped the guest, so that its memory has the code
 * of the end.  What was executed and is not there any more is in GAP events,
 * with how many bytes of PT had it.
 */

#ifndef BTRAIL_FROZEN_TRACE_H
#define BTRAIL_FROZEN_TRACE_H

#include <glib.h>
#include <json-glib/json-glib.h>

#include "pt/vcpu-trace.h"

/**
 * struct frozen_stream - of one vCPU
 * @vcpu:    its number
 * @bytes, @size: two pieces, the older one first
 * @wrapped: older bytes were overwritten
 * @untraced: what it did last is not in them, as it was plugged meanwhile
 * @tsc_ahead: what its TSC has more than that of struct vcpu_trace_clock, modulo
 *           2^64
 * @host_tsc: as of struct pt_flow_options
 * @code:    says what was executed; one thread calls it for this stream alone,
 *           while others call those of other streams
 */
struct frozen_stream {
    unsigned vcpu;
    const uint8_t *bytes[2];
    size_t size[2];
    bool wrapped;
    bool untraced;
    uint64_t tsc_ahead;
    struct kvm_tsc host_tsc;
    pt_code_fn *code;
    void *code_opaque;
};

/* What has been done so far, of all streams together */
struct frozen_progress {
    uint64_t bytes;
    uint64_t size;
    uint64_t records;
};

/* For the thread that decodes; false: end now.  Some times in a second */
typedef bool frozen_progress_fn(void *opaque,
                                const struct frozen_progress *progress);

/**
 * struct frozen_options
 * @flow:     how streams are decoded; each has a @host_tsc of its own
 * @clock:    see there.  Times are up to @clock.ns
 * @mtc, @cyc: streams have such packets
 * @pae:      the guest has 32-bit PAE paging: its CR3s are labelled so
 * @threads:  that decode; 0: as many as there are CPUs
 * @progress: or NULL
 */
struct frozen_options {
    struct pt_flow_options flow;
    struct vcpu_trace_clock clock;
    bool mtc;
    bool cyc;
    bool pae;
    unsigned threads;
    frozen_progress_fn *progress;
    void *progress_opaque;
};

/**
 * struct frozen_count - what came of it
 * @size:   bytes of all rings
 * @flow:   of all streams together.  @decoded, @skipped and @host are all bytes
 *          that were read, which are @size unless it was @ended
 * @spaces: address spaces
 * @pages:  of code, that are in the trace; @more_pages: others had no room
 * @times:  that were left out, as they are not between begin and end of the
 *          stream or not after the time before
 * @first:  the earliest time of a record, of the host; 0: there is none
 * @ended:  @progress has ended it
 */
struct frozen_count {
    uint64_t size;
    struct pt_flow_count flow;
    struct frozen_spaces_count spaces;
    uint64_t pages;
    bool more_pages;
    uint64_t times;
    uint64_t first;
    bool ended;
};

/* Blocks that an output must have for @streams streams */
unsigned frozen_trace_blocks(unsigned streams);

/* Adds to META of the trace what is known before it is decoded. */
void frozen_trace_describe(JsonObject *meta,
                           const struct frozen_options *options,
                           const struct frozen_stream *streams, unsigned n);

/**
 * frozen_trace_write - decode streams
 * @output:  gets what comes of them; nothing else may use its slabs
 * @streams: each of another vCPU
 *
 * Each stream is whole when this returns: it ends with an END event, also if
 * it was ended early.
 *
 * Returns 0, or a negative enum btrail_error of the output.
 */
int frozen_trace_write(struct output *output,
                       const struct frozen_options *options,
                       const struct frozen_stream *streams, unsigned n,
                       struct frozen_count *count);

/* The same as META of the trace: its member "pt" */
JsonObject *frozen_trace_count_json(const struct frozen_count *count);

#endif /* BTRAIL_FROZEN_TRACE_H */
