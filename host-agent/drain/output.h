/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The thread that compresses and writes blocks
 */

#ifndef BTRAIL_OUTPUT_H
#define BTRAIL_OUTPUT_H

#include "lib/agent/budget.h"
#include "lib/agent/code-piece.h"
#include "lib/agent/store.h"
#include "lib/agent/stream.h"

struct output;

/**
 * output_new - start the thread
 * @store:  only the thread may use it, until output_free()
 * @names:  likewise: for sideband, or NULL if that goes to @store, too
 * @blocks: how many there may be at a time; more than there are streams.
 *          When all are in use, a caller that needs one waits.
 */
struct output *output_new(struct btrail_store *store,
                          struct btrail_store *names,
                          unsigned blocks);

/* Where streams hand their blocks; for one thread, or without slabs for any */
struct btrail_block_sink *output_sink(struct output *o);

/*
 * A slab is handed to a stream: all before it are returned to the producer.  If
 * this process is killed, whoever drains next gets all slabs that were not
 * returned, so what is written must have nothing of these.  A block that ends
 * within a slab therefore waits for the next call, or for output_returned():
 * all slabs are returned.  For the same thread
 */
void output_slab(struct output *o);
void output_returned(struct output *o);

/*
 * Would a stream have to wait for the disk to add records?  For the thread that
 * has the streams
 */
bool output_full(struct output *o);

/*
 * Writes a piece of sideband; @data, @info->size bytes, is freed with g_free().
 * Waits while too much is queued.  As the sink
 */
void output_sideband(struct output *o,
                     const struct btrail_sideband_info *info,
                     void *data);

/*
 * Writes a piece of sideband that is packed already (see sideband.h).  @payload
 * is freed with g_free(), and its bytes and entry are then given back to the
 * budget that they were taken from.  For any thread; blocks do not wait for it.
 */
void output_packed(struct output *o, void *payload, size_t size,
                   struct btrail_budget *budget);

/*
 * Has the thread call a function once it has written all that is queued, and
 * waits for that; before output_finish().  If @fn returns a store,
 * sideband goes there from then on.
 */
typedef struct btrail_store *output_fn(void *opaque);
void output_call(struct output *o, output_fn *fn,
                 void *opaque);

/* CPU time that the thread has used so far */
uint64_t output_cpu_ns(const struct output *o);

/* Bytes written so far, and those of them that chunks of records have */
uint64_t output_bytes(const struct output *o);
uint64_t output_record_bytes(const struct output *o);

/* Records written so far, and records whose loss was written as GAP events */
uint64_t output_records(const struct output *o);
uint64_t output_lost(const struct output *o);

/* errno of a failed write, or 0.  All that comes later is dropped. */
int output_error(const struct output *o);

/* Writes all that is queued and ends the thread. */
void output_finish(struct output *o);

/* After output_finish() */
void output_free(struct output *o);

/* Writes what a builder of code has so far, and empties it. */
void output_code(struct output *o, struct btrail_code_builder *builder);

#endif /* BTRAIL_OUTPUT_H */
