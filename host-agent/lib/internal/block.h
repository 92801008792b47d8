/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A block: a piece of a stream, the payload of a DATA chunk
 *
 * Blocks are independent of each other.  docs/trace-format.md describes the
 * bytes.
 */

#ifndef BTRAIL_BLOCK_H
#define BTRAIL_BLOCK_H

#include "backtrail/trace.h"
#include "lib/agent/bytes.h"
#include "lib/internal/codec.h"
#include "lib/internal/cr3set.h"
#include "lib/internal/event-columns.h"
#include "lib/internal/footprint.h"

#define BTRAIL_BLOCK_MAX_RECORDS    BTRAIL_CODEC_MAX_RECORDS
#define BTRAIL_BLOCK_MAX_EVENTS     (1u << 16)

#define BTRAIL_BLOCK_FOOTPRINT  2
#define BTRAIL_BLOCK_PREDICTED  4

/* Without the list of address spaces */
#define BTRAIL_BLOCK_HEADER_SIZE    88
/* Of one entry in that list */
#define BTRAIL_BLOCK_ROOT_SIZE      8

/**
 * struct btrail_block_header - what is known without decoding
 * @vcpu:        whose stream
 * @codec:       BTRAIL_CODEC_*, and BTRAIL_BLOCK_FOOTPRINT more if it has one,
 *               and BTRAIL_BLOCK_PREDICTED more if events refer to earlier ones
 * @first_index: index before the first event and record
 * @end_index:   index after the last event and record
 * @cr3:         in force before the first event and record
 * @time:        the TIME event in force there; host is 0 if there is none
 * @time_first:  host clock of @time or of the first TIME event
 * @time_last:   host clock of the last TIME event, or of @time
 * @records:     records, at most BTRAIL_BLOCK_MAX_RECORDS
 * @events:      events, at most BTRAIL_BLOCK_MAX_EVENTS
 * @switches:    the address spaces that CR3 events change to from another one
 */
struct btrail_block_header {
    uint32_t vcpu;
    uint32_t codec;
    uint64_t first_index;
    uint64_t end_index;
    uint64_t cr3;
    struct btrail_time time;
    uint64_t time_first;
    uint64_t time_last;
    uint32_t records;
    uint32_t events;
    struct btrail_cr3set switches;
};

/* Is it a GAP event that says how many records are missing? */
static inline bool btrail_event_is_known_gap(const struct btrail_event *e)
{
    return e->type == BTRAIL_EVENT_GAP && e->data[0] != BTRAIL_LOST_UNKNOWN;
}

/* Update CR3 and time, which CR3 and TIME events change. */
static inline void btrail_event_apply(const struct btrail_event *e,
                                      uint64_t *cr3, struct btrail_time *time)
{
    if (e->type == BTRAIL_EVENT_CR3) {
        *cr3 = e->data[0];
    } else if (e->type == BTRAIL_EVENT_TIME) {
        *time = (struct btrail_time) { e->data[0], e->data[1], e->data[2] };
    }
}

/* Writing */

/**
 * struct btrail_block - a block that is being written
 * @streams, @events: before compression; @all has both
 * @footprint:  of the code that ran
 * @cr3_now:    CR3 in force at its end
 * @model:      of its events, which has the last TIME event
 * @event_gap:  records since the last event
 */
struct btrail_block {
    struct btrail_block_header header;
    union {
        struct {
            struct btrail_buf streams[BTRAIL_CODEC_STREAMS];
            struct btrail_buf events[BTRAIL_EVENT_COLUMNS];
        };
        struct btrail_buf all[BTRAIL_CODEC_STREAMS +
                              BTRAIL_EVENT_COLUMNS];
    };
    struct btrail_footprint footprint;
    uint64_t cr3_now;
    struct btrail_event_model model;
    uint32_t event_gap;
};

struct btrail_block *btrail_block_new(void);
void btrail_block_free(struct btrail_block *block);

/* Empties a block, for a stream that continues at this point. */
void btrail_block_begin(struct btrail_block *block, unsigned vcpu,
                        uint64_t index, uint64_t cr3,
                        const struct btrail_time *time);

/*
 * Adds @n records, which the caller has encoded into block->streams, with
 * block->footprint.
 */
void btrail_block_add_records(struct btrail_block *block, size_t n);

/*
 * Adds an event.  A known GAP has the index of the next record plus the number
 * of missing records.
 */
void btrail_block_add_event(struct btrail_block *block,
                            const struct btrail_event *event);

/*
 * How many more records the block should get; 0 if it is full.
 *
 * Records need less space in larger blocks, but a reader must decode all
 * records before the one that it seeks.  So a block has as many as a reader
 * decodes in some milliseconds, up to the limit of the format.
 */
size_t btrail_block_room(const struct btrail_block *block);

/* Bytes in a block before compression */
size_t btrail_block_size(const struct btrail_block *block);

/* Frees the memory of an unusually large block, with its content. */
void btrail_block_trim(struct btrail_block *block);

struct btrail_packer;
struct btrail_packer *btrail_packer_new(void);
void btrail_packer_free(struct btrail_packer *packer);

/* Compresses a block; replaces @payload. */
void btrail_packer_pack(struct btrail_packer *packer,
                        const struct btrail_block *block,
                        struct btrail_buf *payload);

/* Reading */

/* Of one entry in the table of sections, which is after the header */
#define BTRAIL_BLOCK_ENTRY_SIZE 8

/* The most sections that there can be: of the codec, of events, and one more */
#define BTRAIL_BLOCK_SECTIONS (BTRAIL_CODEC_STREAMS + 2)

/* The least bytes of a payload: it can lack those of counts and the footprint */
#define BTRAIL_BLOCK_MIN        \
    (BTRAIL_BLOCK_HEADER_SIZE + \
     (BTRAIL_BLOCK_SECTIONS - 2) * BTRAIL_BLOCK_ENTRY_SIZE)

/* The first bytes of a payload, which have the header and the table */
#define BTRAIL_BLOCK_START                            \
    (BTRAIL_BLOCK_MIN + 2 * BTRAIL_BLOCK_ENTRY_SIZE + \
     BTRAIL_CR3SET_MAX * BTRAIL_BLOCK_ROOT_SIZE)

/* The most bytes that the payload of a sound block can have */
uint64_t btrail_block_max(uint32_t records, uint32_t events);

/*
 * Gets the header from a payload, or from its first bytes if it is longer than
 * BTRAIL_BLOCK_START.  False if it is damaged.
 */
bool btrail_block_header_get(const uint8_t *payload, size_t len,
                             struct btrail_block_header *header);

/**
 * struct btrail_block_section - a section in a payload
 * @offset: from the payload's first byte
 * @stored: its bytes there
 * @len:    its bytes once it is decompressed
 */
struct btrail_block_section {
    uint64_t offset;
    uint32_t stored;
    uint32_t len;
};

/*
 * Finds the footprint, by the first bytes of a payload.  False if there is none,
 * or the table is damaged.
 */
bool btrail_block_find_footprint(const uint8_t *payload, size_t len,
                                 const struct btrail_block_header *header,
                                 struct btrail_block_section *section);

/* Does the reader know its codec? */
bool btrail_block_known(const struct btrail_block_header *header);

/**
 * struct btrail_placed_event - an event and where it is
 * @position: records of the block that come before it
 */
struct btrail_placed_event {
    uint32_t position;
    struct btrail_event event;
};

struct btrail_unpacker;
struct btrail_unpacker *btrail_unpacker_new(void);
void btrail_unpacker_free(struct btrail_unpacker *unpacker);

/**
 * btrail_unpacker_load - decompress a block and check its events
 * @header:  from btrail_block_header_get()
 * @events_only: do not decompress records
 *
 * The payload is not needed afterwards.
 *
 * Errors: CORRUPT, VERSION (unknown codec), MEMORY.
 */
int btrail_unpacker_load(struct btrail_unpacker *unpacker,
                         const uint8_t *payload, size_t len,
                         const struct btrail_block_header *header,
                         bool events_only);

/* Returns header->events events, which are valid until the next load. */
const struct btrail_placed_event *
btrail_unpacker_events(const struct btrail_unpacker *unpacker);

/*
 * Decodes all records right after the load, so that btrail_unpacker_records()
 * only has to copy them.
 */
void btrail_unpacker_ahead(struct btrail_unpacker *unpacker);

/*
 * Decodes the next @n records; false if they are damaged.  Skips them if
 * @records is NULL.
 */
bool btrail_unpacker_records(struct btrail_unpacker *unpacker,
                             struct btrail_record *records, size_t n);

/*
 * The most bytes that it uses once @records of the block are decoded, except
 * tables of a fixed size
 */
uint64_t btrail_unpacker_memory(const struct btrail_unpacker *unpacker,
                                uint32_t records);

#endif /* BTRAIL_BLOCK_H */
