/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The events of a block as columns of numbers
 *
 * zstd compresses numbers best that are small and beside others of their kind.
 * So there is a column for each, events that come again are places in lists of
 * the latest ones, and times are what a prediction was wrong by.
 * docs/trace-format.md describes the columns.
 */

#ifndef BTRAIL_EVENT_COLUMNS_H
#define BTRAIL_EVENT_COLUMNS_H

#include "backtrail/trace.h"
#include "lib/agent/bytes.h"

enum btrail_event_column {
    BTRAIL_EVENT_KINDS,     /* type, reason, and which columns have more */
    BTRAIL_EVENT_GAPS,      /* records since the event before */
    BTRAIL_EVENT_OFFSETS,   /* of the index from the position of the stream */
    BTRAIL_EVENT_DATA,      /* three of all events but TIME; or one: a place */
    BTRAIL_EVENT_CLOCKS = BTRAIL_EVENT_DATA + 3,    /* three of TIME events */
    BTRAIL_EVENT_COLUMNS = BTRAIL_EVENT_CLOCKS + 3,
};

/*
 * The most bytes of an event in all columns.  Its kind and the records before it
 * have nine at most; in older traces these, its type and its reason have ten.
 */
#define BTRAIL_EVENT_MAX_BYTES (10 + 4 * BTRAIL_VARINT_MAX)

/* Types of events that come again, and how many of each are known */
#define BTRAIL_EVENT_LISTS      4
#define BTRAIL_EVENT_RECENT     16

/**
 * struct btrail_event_model - what the numbers of an event refer to
 * @first:  the first TIME event that is known; host is 0 if there is none
 * @last:   the last one
 * @recent: what events of a type said, the last one first
 */
struct btrail_event_model {
    struct btrail_time first;
    struct btrail_time last;
    struct {
        unsigned n;
        uint64_t data[BTRAIL_EVENT_RECENT][3];
    } recent[BTRAIL_EVENT_LISTS];
};

/* Begins a block, with the TIME event in force before it. */
void btrail_event_model_begin(struct btrail_event_model *model,
                              const struct btrail_time *time);

/**
 * btrail_event_columns_add - write an event
 * @columns:  BTRAIL_EVENT_COLUMNS buffers
 * @gap:      records since the event before it in the block
 * @position: of the stream; the event's own index can be another one
 */
void btrail_event_columns_add(struct btrail_buf *columns,
                              struct btrail_event_model *model, uint32_t gap,
                              uint64_t position, const struct btrail_event *e);

/**
 * struct btrail_event_reader - reads columns that were written
 * @simple: they are seven, without predictions, as in older traces
 */
struct btrail_event_reader {
    bool simple;
    const uint8_t *columns[BTRAIL_EVENT_COLUMNS];
    const uint8_t *end;
    struct btrail_event_model model;
};

/**
 * btrail_event_reader_begin - find the columns of @n events
 * @data, @len: all of them, one after the other
 * @time:       in force before them
 *
 * False if these bytes are not the columns of so many events.
 */
bool btrail_event_reader_begin(struct btrail_event_reader *reader,
                               const uint8_t *data, size_t len, uint32_t n,
                               const struct btrail_time *time, bool simple);

/**
 * btrail_event_reader_next - read one of these @n events
 * @gap:    records since the event before it: any number in a damaged trace
 * @offset: its index, less the position of the stream
 * @e:      without its index
 *
 * False if it is damaged.
 */
bool btrail_event_reader_next(struct btrail_event_reader *reader,
                              uint64_t *gap, uint64_t *offset,
                              struct btrail_event *e);

#endif /* BTRAIL_EVENT_COLUMNS_H */
