/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Open traces and cursors: what the library does with them beside its API
 */

#ifndef BTRAIL_TRACE_FILES_H
#define BTRAIL_TRACE_FILES_H

#include "lib/agent/budget.h"
#include "lib/agent/file.h"

/* NULL if there is none. */
const struct btrail_trace_stream *
btrail_trace_find_stream(const struct btrail_trace *trace, unsigned vcpu);

/* The streams in the order of their vCPUs; NULL if there is no such stream. */
const struct btrail_trace_stream *
btrail_trace_nth_stream(const struct btrail_trace *trace, unsigned n);

/*
 * The streams of @n vCPUs, or all if @vcpus is NULL and @n 0.  The caller frees
 * the array.  Errors: ARGUMENT (also if a vCPU is named twice), STREAM.
 */
int btrail_trace_pick_streams(const struct btrail_trace *trace,
                              const unsigned *vcpus, size_t n,
                              GPtrArray **streams);

/* The files in the order of their parts; NULL if there is no such file. */
const struct btrail_file *btrail_trace_file(const struct btrail_trace *trace,
                                            unsigned n);

/*
 * The last piece of a stream before record @before that may have run one of @n
 * addresses, which are in order (NULL: any): records [*@begin, *@end) of a
 * chunk, or a hole. False if there is none, or no such stream.  What runs is a
 * block that ends with a record, so the block of the first record of the piece
 * begins with the record before it.
 */
bool btrail_trace_last_ran(const struct btrail_trace *trace, unsigned vcpu,
                           const uint64_t *addresses, size_t n, uint64_t before,
                           uint64_t *begin, uint64_t *end);

/*
 * The same of the first piece from record @from on.  After the last chunk
 * there is none.
 */
bool btrail_trace_next_ran(const struct btrail_trace *trace, unsigned vcpu,
                           const uint64_t *addresses, size_t n, uint64_t from,
                           uint64_t *begin, uint64_t *end);

/* The SIDEBAND chunks of all files: of struct btrail_index_entry */
const GArray *btrail_trace_sidebands(const struct btrail_trace *trace);

/* Its times without a kernel, see kernel-ends.h; or NULL */
GArray *btrail_trace_kernel_ends(const struct btrail_trace *trace);

/* What readers of the trace may use; of a constant trace, too */
struct btrail_budget *btrail_trace_budget(const struct btrail_trace *trace);
/* For what cursors need */
struct btrail_budget *btrail_trace_decoding(const struct btrail_trace *trace);

/*
 * As btrail_merge(), while the files are being written: nothing is missing
 * after their last chunks, although they are not complete.  @more: a JSON object
 * that describes the new trace beside what they say, or NULL
 */
int btrail_merge_running(const struct btrail_trace *trace, const char *out,
                         const char *more, struct btrail_merge_result *result);

/*
 * At the end of a chunk, skips the chunks that follow as long as an address
 * space (a btrail_cr3_root()) is in force nowhere in them.
 */
void btrail_cursor_pass_over(struct btrail_cursor *c, uint64_t root);

/*
 * From here on the cursor only returns what is in chunk number @i of the stream
 * and what is missing before it, then END.  With @check_only it decodes records
 * to find damage, but returns batches without @records.
 */
void btrail_cursor_take_chunk(struct btrail_cursor *c, unsigned i,
                              bool check_only);

/*
 * Right after btrail_cursor_take_chunk(), does most of the work that reading
 * the chunk takes: so another thread can read it in less time.
 */
void btrail_cursor_decode_ahead(struct btrail_cursor *c);

/*
 * Reads another batch of a stream (BTRAIL_CURSOR_COUNTS_ONLY).  If that, or the
 * end of the stream, ends a span that was requested, sets *@done and *@span.
 * Errors: those of btrail_cursor_next().
 */
int btrail_spans_step(struct btrail_spans *spans, struct btrail_batch *batch,
                      struct btrail_span *span, bool *done);

#endif /* BTRAIL_TRACE_FILES_H */
