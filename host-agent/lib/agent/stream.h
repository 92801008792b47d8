/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A stream that is being written: slabs to blocks
 */

#ifndef BTRAIL_STREAM_H
#define BTRAIL_STREAM_H

#include "lib/internal/block.h"

/**
 * struct btrail_block_sink - the source and destination of blocks
 * @get: returns an unused block, never NULL, with any content
 * @put: receives a finished block; returns 0 or a negative enum btrail_error
 */
struct btrail_block_sink {
    struct btrail_block *(*get)(struct btrail_block_sink *sink);
    int (*put)(struct btrail_block_sink *sink, struct btrail_block *block);
};

/**
 * struct btrail_stream_observer - sees what streams get
 * @records: records that were added, in their order; others may change them at
 *           any time
 * @event:   an event that was added after them
 *
 * What an observer sees is what a cursor over the finished stream finds.
 */
struct btrail_stream_observer {
    void (*records)(void *opaque, unsigned vcpu,
                    const struct btrail_record *records, size_t n);
    void (*event)(void *opaque, unsigned vcpu, const struct btrail_event *e);
    void *opaque;
};

struct btrail_stream;

/*
 * If the stream can begin @anywhere, records missing before the first slab get
 * no GAP event: the header of the file says where they are.
 */
struct btrail_stream *btrail_stream_new(unsigned vcpu,
                                        struct btrail_block_sink *sink,
                                        bool anywhere);

/* Has an observer, which must exist as long, see all that is added from now. */
void btrail_stream_observe(struct btrail_stream *s,
                           const struct btrail_stream_observer *observer);

/* Discards what has not been flushed. */
void btrail_stream_free(struct btrail_stream *s);

/**
 * btrail_stream_append - add a slab
 * @slab:       @slab->records may be changed by others at any time,
 *              @slab->events not
 * @gap_reason: enum btrail_gap_reason, for a hole before the slab that no
 *              GAP event explains
 *
 * Errors: SLAB (nothing was added), and those of the sink.
 */
int btrail_stream_append(struct btrail_stream *s,
                         const struct btrail_slab *slab, uint16_t gap_reason);

/**
 * struct btrail_checked_slab - a slab that does not contradict itself
 * @begin: index of the first record that it holds or whose loss its GAP events
 *         explain
 * @end:   index after its last record
 *
 * btrail_slab_check() makes one.
 */
struct btrail_checked_slab {
    struct btrail_slab slab;
    uint64_t begin;
    uint64_t end;
};

/**
 * btrail_slab_check - check a slab as a whole
 * @before:  index of the next record of its stream
 * @checked: gets the slab
 *
 * A slab that is sound for @before is so for any smaller index, too.
 */
bool btrail_slab_check(const struct btrail_slab *slab, uint64_t before,
                       struct btrail_checked_slab *checked);

/* As btrail_stream_append(), for a slab that was checked */
int btrail_stream_append_checked(struct btrail_stream *s,
                                 const struct btrail_checked_slab *slab,
                                 uint16_t gap_reason);

/*
 * Returns how many records of a slab, from place @position with index @index
 * on, come before event @e; SIZE_MAX if the event cannot be in this slab.
 */
size_t btrail_slab_before(const struct btrail_event *e, size_t position,
                          uint64_t index, size_t n_records);

/*
 * Begins at an index, if the stream can begin anywhere and nothing has been
 * added to it.
 */
void btrail_stream_begin(struct btrail_stream *s, uint64_t index);

/* Adds an event with the index of the next record. */
int btrail_stream_event(struct btrail_stream *s, uint16_t type,
                        uint16_t reason, uint64_t data0);

/* Hands a block that is not empty to the sink. */
int btrail_stream_flush(struct btrail_stream *s);

/* Index of the next record */
uint64_t btrail_stream_index(const struct btrail_stream *s);

/* The END event has been added. */
bool btrail_stream_ended(const struct btrail_stream *s);

/* Records so far in holes that no GAP event of the producer explained */
uint64_t btrail_stream_unexplained(const struct btrail_stream *s);

#endif /* BTRAIL_STREAM_H */
