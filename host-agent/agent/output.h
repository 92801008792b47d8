/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The thread that compresses and writes blocks
 */

#ifndef BTRAIL_OUTPUT_H
#define BTRAIL_OUTPUT_H

#include "store.h"
#include "stream.h"

struct btrail_output;

/**
 * btrail_output_new - start the thread
 * @store:  used by the thread alone until btrail_output_free()
 * @blocks: how many there may be at a time; more than there are streams.
 *          When all are in use, getting one waits.
 */
struct btrail_output *btrail_output_new(struct btrail_store *store,
                                        unsigned blocks);

/* Where streams hand their blocks; to be used by one thread. */
struct btrail_block_sink *btrail_output_sink(struct btrail_output *o);

/* Bytes written so far */
uint64_t btrail_output_bytes(const struct btrail_output *o);

/* Records written so far, and those that GAP events written so far count */
uint64_t btrail_output_records(const struct btrail_output *o);
uint64_t btrail_output_lost(const struct btrail_output *o);

/* errno of a failed write, or 0.  Everything is dropped after that. */
int btrail_output_error(const struct btrail_output *o);

/* Write what there is and end the thread. */
void btrail_output_finish(struct btrail_output *o);

/* After btrail_output_finish() */
void btrail_output_free(struct btrail_output *o);

#endif /* BTRAIL_OUTPUT_H */
