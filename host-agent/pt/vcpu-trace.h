/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a flow gives, as the stream of a vCPU in a trace: its records and
 * events, the pages of code that they have executed, and which address spaces
 * there are
 */

#ifndef BTRAIL_VCPU_TRACE_H
#define BTRAIL_VCPU_TRACE_H

#include "drain/output.h"
#include "pt/flow.h"
#include "pt/frozen-pages.h"
#include "pt/frozen-spaces.h"

/**
 * struct vcpu_trace_clock - the guest's clock and the host's
 * @hz:    of the guest's TSC; 0: not known, and all times are @begin
 * @tsc:   of the guest when the host's CLOCK_MONOTONIC was
 * @ns:    this
 * @begin: of the host, when the rings were begun; 0: not known, but not before
 *         it was started.  The time of records before the first TSC; an earlier
 *         one is wrong
 * @runs:  times can be after @ns, up to now
 */
struct vcpu_trace_clock {
    uint64_t hz;
    uint64_t tsc;
    uint64_t ns;
    uint64_t begin;
    bool runs;
};

/**
 * struct vcpu_trace_options
 * @vcpu:    its number
 * @output:  gets the stream
 * @pages:   of the trace, for code
 * @clock:   must outlive it
 * @tsc_ahead: what its TSC has more than that of @clock, modulo 2^64
 * @pae:     the guest has 32-bit PAE paging: its CR3s are labelled so
 * @wrapped: what came before the first byte was overwritten
 * @code, @code_opaque: says the code
 */
struct vcpu_trace_options {
    unsigned vcpu;
    struct output *output;
    struct frozen_pages *pages;
    const struct vcpu_trace_clock *clock;
    uint64_t tsc_ahead;
    bool pae;
    bool wrapped;
    pt_code_fn *code;
    void *code_opaque;
};

/**
 * struct vcpu_trace_count
 * @times: that were left out, as they are not between begin and end of the
 *         stream or not after the time before
 * @first: the earliest time of a record, of the host; 0: there is none
 */
struct vcpu_trace_count {
    uint64_t times;
    uint64_t first;
};

struct vcpu_trace;

struct vcpu_trace *vcpu_trace_new(const struct vcpu_trace_options *options);
void vcpu_trace_free(struct vcpu_trace *v);

/* For the flow; the vcpu_trace is the first argument of all. */
pt_flow_fn vcpu_trace_give;
pt_code_fn vcpu_trace_read;

/* The code of a page is no more what it was, from the record after @held more
 * on: these may be of before. */
void vcpu_trace_change(void *opaque, uint64_t cr3, uint64_t page,
                       unsigned held);

/* Nobody knows what comes now, for a reason of BTRAIL_EVENT_GAP; so many bytes
 * of the stream had it. */
void vcpu_trace_gap(struct vcpu_trace *v, uint16_t reason, uint64_t bytes);

/* An event whose only value is a time of the host: PAUSE, RESUME */
void vcpu_trace_event(struct vcpu_trace *v, uint16_t type, uint16_t reason,
                      uint64_t ns);

/* Writes what is left so far, so that it is not lost. */
void vcpu_trace_flush(struct vcpu_trace *v);

/* Ends the stream, and writes what is left of it. */
void vcpu_trace_end(struct vcpu_trace *v, uint16_t reason, uint64_t ns);

/* 0, or the first negative enum btrail_error of the output.  What comes after
 * it is dropped. */
int vcpu_trace_error(const struct vcpu_trace *v);

struct vcpu_trace_count vcpu_trace_counted(const struct vcpu_trace *v);
const struct frozen_spaces *vcpu_trace_spaces(const struct vcpu_trace *v);

/* Why records are missing, as traces say it; @wrapped as above */
uint16_t vcpu_trace_reason(enum pt_gap gap, bool wrapped);

#endif /* BTRAIL_VCPU_TRACE_H */
