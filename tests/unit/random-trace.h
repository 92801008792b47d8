/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traces of anything that can be in one, and what readers must find in them
 */

#ifndef BTRAIL_RANDOM_TRACE_H
#define BTRAIL_RANDOM_TRACE_H

#include <glib.h>

#include "backtrail/trace.h"

/**
 * struct random_item - a record or an event
 * @chunk: of its stream, from 0 on
 * @event: type 0 if this is a record
 * @index: of the record; of the next record before an event
 */
struct random_item {
    unsigned chunk;
    struct btrail_event event;
    struct btrail_record record;
    uint64_t index;
};

/**
 * struct random_stream
 * @items:   of struct random_item, in order
 * @cr3s:    of uint64_t: in force at the start of each chunk
 * @damaged: of bool: for each chunk
 */
struct random_stream {
    unsigned vcpu;
    GArray *items;
    GArray *cr3s;
    GArray *damaged;
    uint64_t end_index;
};

struct random_trace {
    char *path;
    GArray *streams;            /* of struct random_stream */
};

/**
 * random_trace_new - write a trace
 * @vcpus: how many streams; their numbers have holes
 * @slabs: about this many for each
 *
 * Slabs are short.  There are CR3 events that change nothing, several events
 * at one place, GAP events with and without a number, chunks without records,
 * clocks that stand still, and a stream may end without an END event.
 */
struct random_trace *random_trace_new(unsigned vcpus, unsigned slabs);

/* Change a byte in the middle of a chunk's payload. */
void random_trace_damage(struct random_trace *t, unsigned stream,
                         unsigned chunk);

/* Also removes the file. */
void random_trace_free(struct random_trace *t);

#endif /* BTRAIL_RANDOM_TRACE_H */
