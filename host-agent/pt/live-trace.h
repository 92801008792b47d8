/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Streams of Intel PT that come while the guest runs: records, with code that
 * is read meanwhile
 *
 * What comes is looked through at once for new address spaces, whose code is
 * read.  It is decoded later, PSB by PSB, once all code that is known was read
 * again: so that it is known what was the same before and after it was
 * executed.  Where a page has two contents, both are tried.
 */

#ifndef BTRAIL_LIVE_TRACE_H
#define BTRAIL_LIVE_TRACE_H

#include "pt/flow.h"
#include "pt/live-code.h"

/**
 * struct live_trace_options
 * @flow:  how streams are decoded
 * @code:  see there
 * @held:  bytes of a stream that wait for their PSB at most; 0: as many as
 *         usual
 */
struct live_trace_options {
    struct pt_flow_options flow;
    struct live_code_options code;
    size_t held;
};

/**
 * struct live_trace_count - of all streams
 * @flow:   @decoded, @skipped and @host are all bytes that were fed, after
 *          live_trace_finish()
 * @pieces: from PSB to PSB
 * @tried:  of which some code had two contents
 * @chosen: of which the packets contradict one of them, and not the other; or
 *          for which both say the same
 */
struct live_trace_count {
    struct pt_flow_count flow;
    uint64_t pieces;
    uint64_t tried;
    uint64_t chosen;
};

struct live_trace;
struct live_stream;

/* @memory is the guest's, and must outlive it. */
struct live_trace *live_trace_new(const struct guest_memory *memory,
                                  const struct live_trace_options *options);
/* Frees its streams, too. */
void live_trace_free(struct live_trace *t);

/**
 * struct live_trace_ops - of a stream
 * @give:   takes what comes of it
 * @read:   says code as live_trace_read() does, which it asks for that; or NULL
 * @change: the code of a page is no more what it was, but for records that were
 *          made and not given yet, of which there are @held; or NULL
 * @give_opaque: for @give
 * @code_opaque: for @read and @change
 */
struct live_trace_ops {
    pt_flow_fn *give;
    pt_code_fn *read;
    void (*change)(void *opaque, uint64_t cr3, uint64_t page, unsigned held);
    void *give_opaque;
    void *code_opaque;
};

/* A stream; before any is fed.  @host_tsc: as of struct pt_flow_options, if it
 * is not that of the others; or NULL */
struct live_stream *live_trace_add(struct live_trace *t,
                                   const struct kvm_tsc *host_tsc);

/* What is to be done with it; once, before any is fed */
void live_stream_begin(struct live_stream *s, const struct live_trace_ops *ops);

/* The stream is the first argument. */
pt_code_fn live_trace_read;

/**
 * live_trace_feed - bytes of the stream, as soon as they have come
 * @p, @n:  cut anywhere; none, if new address spaces are to be read again
 * @since:  they say what was executed since then, and until now: when there
 *          were none of them yet, less the time that they are on their way.
 *          Not before that of the call before
 */
void live_trace_feed(struct live_stream *s, const uint8_t *p, size_t n,
                     uint64_t since);

/* Before what is fed next, bytes are missing. */
void live_trace_missing(struct live_stream *s);

/* Decodes what has come. */
void live_trace_decode(struct live_trace *t);

/* The same of all of it, also what no PSB ends: the guest stands still, and no
 * more comes until it goes on. */
void live_trace_flush(struct live_trace *t);

/* Gives out what was decoded; otherwise that happens from time to time. */
void live_trace_give(struct live_trace *t);

/* The same up to the end */
void live_trace_finish(struct live_trace *t);

struct live_trace_count live_trace_counted(const struct live_trace *t);
const struct live_code *live_trace_code(const struct live_trace *t);

#endif /* BTRAIL_LIVE_TRACE_H */
