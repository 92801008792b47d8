/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Cursors: reading a stream from chunk to chunk
 */

#include <errno.h>

#include "lib/agent/merged.h"
#include "lib/agent/trace-files.h"
#include "lib/internal/block.h"
#include "lib/internal/kernel-ends.h"
#include "util/search.h"

/* Decoded at a time: what the second-level cache holds with the tables. */
#define BATCH_RECORDS   8192

/* Bytes that are taken from a budget ahead of time */
#define CHARGE_MORE     (UINT64_C(1) << 20)

struct btrail_cursor {
    const struct btrail_trace *trace;
    const struct btrail_trace_stream *stream;
    const GArray *ends;         /* times without a kernel, or NULL */
    struct btrail_unpacker *unpacker;
    struct btrail_buf payload;
    struct btrail_record *records;
    uint64_t charged;           /* bytes taken from the trace's budget */
    bool events_only;
    bool counts_only;
    bool check_only;            /* decode records, return none */
    uint64_t bad_chunks;
    uint64_t holes;             /* without any of these, that were returned */

    /* The current place */
    unsigned next_chunk;
    unsigned end_chunk;         /* the first one that it does not read */
    uint64_t index;
    uint64_t damaged_to;        /* index at which the last damaged chunk ends */
    uint64_t cr3;
    struct btrail_time time;
    struct btrail_task task;
    struct btrail_kernel kernel;
    uint64_t skip_to;           /* return nothing before this index */
    uint64_t skip_to_time;      /* nor before this TIME, if not 0 */
    uint32_t skip_to_event;     /* nor before this one of the chunk, from 1 */

    /* The next chunk, if it was loaded before its turn */
    bool ahead;
    int ahead_ret;
    int ahead_errno;

    /* The chunk it is in */
    bool loaded;
    struct btrail_block_header header;
    uint32_t position;          /* records that are done */
    uint32_t next_event;
    struct btrail_event event;  /* a synthetic one */
    bool unexplained;           /* by a damaged chunk */
};

int btrail_cursor_open(struct btrail_cursor **cursor,
                       const struct btrail_trace *trace, unsigned vcpu,
                       unsigned flags)
{
    const struct btrail_trace_stream *stream;
    struct btrail_cursor *c;

    if (!cursor || !trace || (flags & ~(BTRAIL_CURSOR_EVENTS_ONLY |
                                        BTRAIL_CURSOR_COUNTS_ONLY))) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    stream = btrail_trace_find_stream(trace, vcpu);
    if (!stream) {
        return -BTRAIL_ERR_STREAM;
    }
    c = g_new0(struct btrail_cursor, 1);
    c->trace = trace;
    c->stream = stream;
    c->ends = btrail_trace_kernel_ends(trace);
    c->end_chunk = stream->chunks->len;
    c->events_only = flags & BTRAIL_CURSOR_EVENTS_ONLY;
    c->counts_only = flags & BTRAIL_CURSOR_COUNTS_ONLY;
    c->unpacker = btrail_unpacker_new();
    c->records = g_new(struct btrail_record, BATCH_RECORDS);
    c->time.icount = BTRAIL_NO_ICOUNT;
    *cursor = c;
    return 0;
}

void btrail_cursor_close(struct btrail_cursor *c)
{
    if (c) {
        btrail_budget_give(btrail_trace_decoding(c->trace), c->charged);
        btrail_unpacker_free(c->unpacker);
        btrail_buf_free(&c->payload);
        g_free(c->records);
        g_free(c);
    }
}

uint64_t btrail_cursor_bad_chunks(const struct btrail_cursor *c)
{
    return c ? c->bad_chunks : 0;
}

uint64_t btrail_cursor_damage(const struct btrail_cursor *c)
{
    return c ? c->bad_chunks + c->holes : 0;
}

static const struct btrail_index_entry *entry(const struct btrail_cursor *c,
                                              unsigned i)
{
    return btrail_entry(c->stream->chunks, i);
}

/*
 * Takes what is needed for the chunk up to a record from the budget.  Nothing
 * is given back before the end: the next chunk needs as much.
 */
static int charge(struct btrail_cursor *c, uint32_t records)
{
    uint64_t memory = c->payload.cap +
                      btrail_unpacker_memory(c->unpacker, records);

    if (memory > c->charged) {
        /* Not for each batch */
        memory += MIN(memory / 4, CHARGE_MORE);
        if (!btrail_budget_take(btrail_trace_decoding(c->trace),
                                memory - c->charged)) {
            return -BTRAIL_ERR_MEMORY;
        }
        c->charged = memory;
    }
    return 0;
}

/* Loads chunk number @i. */
static int load(struct btrail_cursor *c, unsigned i, bool events_only)
{
    const struct btrail_index_entry *e = entry(c, i);
    int ret = btrail_file_load_chunk(btrail_trace_file(c->trace, e->file), e,
                                     &c->payload, c->unpacker, events_only,
                                     &c->header);

    if (!ret) {
        c->position = 0;
        c->next_event = 0;
        ret = charge(c, 0);
    }
    return ret;
}

/* Does it return records? */
static bool decodes(const struct btrail_cursor *c)
{
    return !c->events_only && !c->counts_only;
}

/* Loads the next chunk, unless that was done. */
static int load_next(struct btrail_cursor *c)
{
    if (!c->ahead) {
        return load(c, c->next_chunk, !decodes(c));
    }
    c->ahead = false;
    errno = c->ahead_errno;
    return c->ahead_ret;
}

void btrail_cursor_decode_ahead(struct btrail_cursor *c)
{
    c->ahead_ret = load_next(c);
    if (!c->ahead_ret) {
        c->ahead_ret = charge(c, c->header.records);
    }
    c->ahead_errno = errno;
    c->ahead = true;
    if (!c->ahead_ret && decodes(c)) {
        btrail_unpacker_ahead(c->unpacker);
    }
}

/* Does chunk @e switch to an address space? */
static enum btrail_switches switches_to(const struct btrail_cursor *c,
                                        const struct btrail_index_entry *e,
                                        uint64_t root)
{
    return btrail_roots_switches(btrail_trace_file(c->trace, e->file)->roots,
                                 e, root);
}

/* Does this error of load() mean that the chunk must be left out? */
static bool unusable(int ret)
{
    return ret == -BTRAIL_ERR_CORRUPT || ret == -BTRAIL_ERR_VERSION;
}

/* Reports a hole that no GAP event in the file explains. */
static void put_hole(struct btrail_cursor *c, uint64_t end, uint16_t reason,
                     struct btrail_batch *batch)
{
    uint64_t lost = end - c->index;

    c->unexplained = reason == BTRAIL_GAP_CORRUPT && c->index >= c->damaged_to;
    batch->index = c->index;
    c->event = (struct btrail_event) {
        .index = end,
        .type = BTRAIL_EVENT_GAP,
        .reason = reason,
        .data = { lost },
    };
    c->index = end;
    batch->event = &c->event;
    batch->synthetic = reason == BTRAIL_GAP_CORRUPT;
}

/*
 * Why are records missing right before chunk @i?  For the first chunk of a
 * file, its header says.
 */
static uint16_t hole_reason(const struct btrail_cursor *c, unsigned i)
{
    const struct btrail_index_entry *e = entry(c, i);
    uint16_t begin = btrail_trace_file(c->trace, e->file)->header.begin;

    return begin && (!i || entry(c, i - 1)->file != e->file) ?
           begin : BTRAIL_GAP_CORRUPT;
}

/*
 * Reports what is missing before a chunk, unless it has the same reason as what
 * the chunk itself may lack, and can be reported with that.
 */
static bool put_file_hole(struct btrail_cursor *c, unsigned i,
                          struct btrail_batch *batch)
{
    uint64_t first_index = entry(c, i)->first_index;
    uint16_t reason = hole_reason(c, i);

    if (reason == BTRAIL_GAP_CORRUPT || c->index >= first_index) {
        return false;
    }
    if (c->index < c->damaged_to) {
        put_hole(c, MIN(c->damaged_to, first_index), BTRAIL_GAP_CORRUPT,
                 batch);
    } else {
        put_hole(c, first_index, reason, batch);
    }
    return true;
}

/*
 * Goes to the next sound chunk.  Returns 0, with a batch only if there is a
 * hole before it.
 */
static int enter_chunk(struct btrail_cursor *c, struct btrail_batch *batch)
{
    while (c->next_chunk < c->end_chunk) {
        int ret;

        if (put_file_hole(c, c->next_chunk, batch)) {
            return 0;
        }
        ret = load_next(c);
        if (unusable(ret)) {
            c->damaged_to = entry(c, c->next_chunk)->end_index;
            c->bad_chunks++;
            c->next_chunk++;
            c->skip_to_event = 0;
            continue;
        }
        if (ret) {
            return ret;
        }
        c->next_chunk++;
        c->loaded = true;
        c->cr3 = c->header.cr3;
        c->time = c->header.time;
        c->task.known = false;
        c->kernel = (struct btrail_kernel) { 0 };
        if (c->index < c->header.first_index) {
            put_hole(c, c->header.first_index, BTRAIL_GAP_CORRUPT, batch);
        }
        return 0;
    }

    /* The last chunks may be damaged; the index knows how long they were. */
    if (c->end_chunk && c->index < entry(c, c->end_chunk - 1)->end_index) {
        put_hole(c, entry(c, c->end_chunk - 1)->end_index,
                 BTRAIL_GAP_CORRUPT, batch);
        return 0;
    }
    return -BTRAIL_ERR_END;
}

static void put_event(struct btrail_cursor *c, struct btrail_batch *batch)
{
    const struct btrail_event *e =
        &btrail_unpacker_events(c->unpacker)[c->next_event++].event;

    batch->index = c->index;
    batch->event = e;
    btrail_event_apply(e, &c->cr3, &c->time);
    if (e->type == BTRAIL_EVENT_TASK) {
        btrail_event_task(e, &c->task);
        c->task.nested = c->task.known && c->kernel.nested ?
                         c->kernel.number : 0;
    } else if (e->type == BTRAIL_EVENT_KERNEL) {
        btrail_event_kernel(e, &c->kernel);
        memset(&c->task, 0, sizeof(c->task));
    }
    if (btrail_event_is_known_gap(e)) {
        c->index = e->index;
    }
}

/* How many of the next @n records are before the place of the seek? */
static uint32_t unwanted(const struct btrail_cursor *c, uint32_t n)
{
    if (c->skip_to_event || c->time.host < c->skip_to_time) {
        return n;
    }
    if (!c->skip_to_time && c->index < c->skip_to) {
        return MIN(n, c->skip_to - c->index);
    }
    return 0;
}

/* Does another kernel run after the events right after the last record? */
static bool kernel_changes(const struct btrail_cursor *c)
{
    const struct btrail_placed_event *events =
        btrail_unpacker_events(c->unpacker);
    struct btrail_kernel kernel = c->kernel;

    for (uint32_t i = c->next_event;
         i < c->header.events && events[i].position == c->position; i++) {
        btrail_event_kernel(&events[i].event, &kernel);
    }
    return kernel.nested != c->kernel.nested ||
           (kernel.known && c->kernel.known &&
            kernel.number != c->kernel.number);
}

/*
 * Up to the next event.  Errors: MEMORY, CORRUPT (the checksum was right, so it
 * was written like this).
 */
static int put_records(struct btrail_cursor *c, struct btrail_batch *batch)
{
    uint32_t stop = c->next_event < c->header.events ?
        btrail_unpacker_events(c->unpacker)[c->next_event].position :
        c->header.records;
    uint32_t n = stop - c->position;
    uint32_t over = unwanted(c, n);

    if (over) {
        n = over;
    } else if (decodes(c)) {
        n = MIN(n, BATCH_RECORDS);
    }
    if (decodes(c)) {
        /* Skipping them is faster. */
        struct btrail_record *records = over || c->check_only ? NULL :
                                        c->records;
        int ret = charge(c, c->position + n);

        if (ret) {
            return ret;
        }
        if (!btrail_unpacker_records(c->unpacker, records, n)) {
            return -BTRAIL_ERR_CORRUPT;
        }
        batch->records = records;
    }
    if (!c->events_only) {
        batch->count = n;
        batch->index = c->index;
    }
    c->position += n;
    c->index += n;
    batch->leaves = c->position == stop && kernel_changes(c);
    return 0;
}

/* Returns 0 with a batch, or without one: then the caller calls it again. */
static int step(struct btrail_cursor *c, struct btrail_batch *batch)
{
    if (!c->loaded) {
        return enter_chunk(c, batch);
    }
    if (c->next_event < c->header.events &&
        btrail_unpacker_events(c->unpacker)[c->next_event].position ==
        c->position) {
        put_event(c, batch);
    } else if (c->position < c->header.records) {
        int ret = put_records(c, batch);

        if (unusable(ret)) {
            c->bad_chunks++;
            c->loaded = false;
            c->skip_to_event = 0;
            c->damaged_to = c->header.end_index;
            if (c->index < c->header.end_index) {
                put_hole(c, c->header.end_index, BTRAIL_GAP_CORRUPT, batch);
            }
        } else if (ret) {
            return ret;
        }
    } else {
        c->loaded = false;
    }
    return 0;
}

/* Leaves out what is before the place of the seek. */
static void skip(struct btrail_cursor *c, struct btrail_batch *batch)
{
    if (c->skip_to_event) {
        if (batch->event && c->next_event >= c->skip_to_event) {
            c->skip_to_event = 0;
        } else {
            batch->event = NULL;
            batch->count = 0;
        }
    } else if (c->skip_to_time) {
        /* A hole that is not before a chunk has the moment in it. */
        if (c->time.host < c->skip_to_time &&
            !(batch->synthetic && !c->loaded)) {
            batch->event = NULL;
            batch->count = 0;
        } else if (batch->event || batch->count) {
            /* From here on all are returned, even if the clock goes back. */
            c->skip_to_time = 0;
        }
    } else if (batch->event) {
        if (MAX(batch->index, batch->event->index) < c->skip_to) {
            batch->event = NULL;
        }
    } else if (batch->index < c->skip_to) {
        /* put_records() stops there. */
        batch->count = 0;
    }
}

int btrail_cursor_next(struct btrail_cursor *c, struct btrail_batch *batch)
{
    if (!c || !batch) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    do {
        int ret;

        memset(batch, 0, sizeof(*batch));
        ret = step(c, batch);
        if (ret) {
            return ret;
        }
        skip(c, batch);
    } while (!batch->event && !batch->count);

    c->holes += batch->synthetic && c->unexplained;
    batch->cr3 = c->cr3;
    batch->time = c->time;
    batch->kernel = c->kernel;
    batch->ended = !c->kernel.known && c->ends &&
                   btrail_kernel_ends_at(c->ends, c->time.host, NULL, NULL);
    if (batch->ended) {
        batch->kernel.known = true;
    } else if (c->task.known) {
        batch->task = c->task;
    }
    return 0;
}

/*
 * Goes to chunk @i; of what is before it, only a hole right before it is
 * reported.
 */
static void go_to_chunk(struct btrail_cursor *c, unsigned i)
{
    c->loaded = false;
    c->ahead = false;
    c->next_chunk = i;
    c->index = !i ? 0 : entry(c, i - 1)->end_index;
    c->damaged_to = 0;
    c->cr3 = 0;
    c->time = (struct btrail_time) { .icount = BTRAIL_NO_ICOUNT };
    c->task.known = false;
    c->kernel = (struct btrail_kernel) { 0 };
    c->skip_to = 0;
    c->skip_to_time = 0;
    c->skip_to_event = 0;
}

void btrail_cursor_pass_over(struct btrail_cursor *c, uint64_t root)
{
    if (c->loaded && (c->position < c->header.records ||
                      c->next_event < c->header.events)) {
        return;
    }
    c->loaded = false;
    while (c->next_chunk < c->stream->chunks->len) {
        const struct btrail_index_entry *e = entry(c, c->next_chunk);

        if (btrail_cr3_root(e->cr3) == root ||
            switches_to(c, e, root) != BTRAIL_SWITCHES_NO) {
            break;
        }
        c->index = e->end_index;
        c->next_chunk++;
    }
}

void btrail_cursor_take_chunk(struct btrail_cursor *c, unsigned i,
                              bool check_only)
{
    go_to_chunk(c, i);
    c->end_chunk = i + 1;
    c->check_only = check_only;
    c->bad_chunks = 0;
    c->holes = 0;
}

/* The first chunk that ends after @index */
static unsigned find_chunk(const struct btrail_cursor *c, uint64_t index)
{
    const GArray *chunks = c->stream->chunks;

    return BTRAIL_UP_TO(chunks->data, chunks->len, struct btrail_index_entry,
                        end_index, index);
}

/*
 * Is a record further on in the chunk that is being read?  Events of the index
 * where it stands may have been returned already.
 */
static bool is_ahead(const struct btrail_cursor *c, uint64_t index)
{
    return c->loaded && !c->ahead && index > c->index &&
           index < entry(c, c->next_chunk - 1)->end_index;
}

int btrail_cursor_seek(struct btrail_cursor *c, uint64_t index)
{
    unsigned i;

    if (!c) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    if (is_ahead(c, index)) {
        /* To load it again, and skip all that was read, takes longer. */
        c->skip_to = index;
        c->skip_to_time = 0;
        c->skip_to_event = 0;
        return 0;
    }
    i = find_chunk(c, index);
    /* Events of this very index may end the chunks before. */
    while (i && entry(c, i - 1)->end_index == index) {
        i--;
    }
    go_to_chunk(c, i);
    c->skip_to = index;
    return 0;
}

int btrail_cursor_seek_time(struct btrail_cursor *c, uint64_t host)
{
    const GArray *chunks;

    if (!c) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    chunks = c->stream->chunks;
    /* The first chunk that comes to it, also if clocks go back. */
    go_to_chunk(c, host ? BTRAIL_UP_TO(chunks->data, chunks->len,
                                       struct btrail_index_entry, time_max,
                                       host - 1) : 0);
    c->skip_to_time = host;
    return 0;
}

/**
 * struct cr3_search - for where an address space comes into force
 * @root:  of the address space
 * @index: at it or after it, the first one; or before it, the last one
 * @back:  the latter
 * @event: the CR3 event that was found, counted from 1 in its chunk; 0 for
 *         the start of the chunk
 */
struct cr3_search {
    uint64_t root;
    uint64_t index;
    bool back;
    uint32_t event;
};

static bool wanted(const struct cr3_search *s, uint64_t index)
{
    return s->back ? index < s->index : index >= s->index;
}

/* Is something else in force where chunk @i ends, or is it not sound? */
static bool ends_elsewhere(struct btrail_cursor *c, unsigned i, uint64_t root)
{
    const struct btrail_index_entry *e = entry(c, i);
    const struct btrail_placed_event *events;
    uint32_t k;

    if (switches_to(c, e, root) == BTRAIL_SWITCHES_NO) {
        return e->switches || btrail_cr3_root(e->cr3) != root;
    }
    if (load(c, i, true)) {
        return true;
    }
    events = btrail_unpacker_events(c->unpacker);
    for (k = c->header.events; k--; ) {
        if (events[k].event.type == BTRAIL_EVENT_CR3) {
            return btrail_cr3_root(events[k].event.data[0]) != root;
        }
    }
    return btrail_cr3_root(e->cr3) != root;
}

/*
 * Does the address space come into force at the start of chunk @i?  It may
 * even if no index is missing before: a chunk without records may be lost.
 */
static bool begins_chunk(struct btrail_cursor *c, unsigned i,
                         bool damaged_before, const struct cr3_search *s)
{
    const struct btrail_index_entry *e = entry(c, i);

    return btrail_cr3_root(e->cr3) == s->root &&
           wanted(s, e->first_index) &&
           (!i || damaged_before ||
            e->first_index != entry(c, i - 1)->end_index ||
            ends_elsewhere(c, i - 1, s->root));
}

/* Search the events of a chunk; END if it is not there, and as load(). */
static int search_chunk(struct btrail_cursor *c, unsigned i,
                        struct cr3_search *s)
{
    const struct btrail_index_entry *e = entry(c, i);
    const struct btrail_placed_event *events;
    uint64_t cr3 = e->cr3, lost = 0;
    uint32_t k;
    int ret;

    s->event = 0;
    if (switches_to(c, e, s->root) == BTRAIL_SWITCHES_NO) {
        return -BTRAIL_ERR_END;
    }
    ret = load(c, i, true);
    if (ret) {
        return ret;
    }
    events = btrail_unpacker_events(c->unpacker);
    for (k = 0; k < c->header.events; k++) {
        const struct btrail_event *event = &events[k].event;

        if (event->type == BTRAIL_EVENT_CR3) {
            if (btrail_cr3_root(event->data[0]) == s->root &&
                btrail_cr3_root(cr3) != s->root &&
                wanted(s, e->first_index + events[k].position + lost)) {
                s->event = k + 1;
                if (!s->back) {
                    break;
                }
            }
            cr3 = event->data[0];
        } else if (btrail_event_is_known_gap(event)) {
            lost += event->data[0];
        }
    }
    return s->event ? 0 : -BTRAIL_ERR_END;
}

/* Returns the chunk in @found.  Errors: END, IO, MEMORY. */
static int search_forwards(struct btrail_cursor *c, struct cr3_search *s,
                           unsigned *found)
{
    unsigned i = find_chunk(c, s->index);
    bool damaged = false;

    /* Events of this very index may end the chunks before. */
    while (i && entry(c, i - 1)->end_index == s->index) {
        i--;
    }
    for (; i < c->stream->chunks->len; i++) {
        int ret;

        *found = i;
        s->event = 0;
        if (begins_chunk(c, i, damaged, s)) {
            return 0;
        }
        ret = search_chunk(c, i, s);
        damaged = unusable(ret);
        if (ret != -BTRAIL_ERR_END && !damaged) {
            return ret;
        }
    }
    return -BTRAIL_ERR_END;
}

static int search_backwards(struct btrail_cursor *c, struct cr3_search *s,
                            unsigned *found)
{
    unsigned i = find_chunk(c, s->index);

    /* It may begin with events of a lower index, and nothing does later. */
    i = MIN(i + 1, c->stream->chunks->len);
    while (i--) {
        int ret = search_chunk(c, i, s);

        *found = i;
        if (unusable(ret) && i + 1 < c->stream->chunks->len &&
            begins_chunk(c, i + 1, true, s)) {
            s->event = 0;
            *found = i + 1;
            return 0;
        }
        if (ret != -BTRAIL_ERR_END && !unusable(ret)) {
            return ret;
        }
        s->event = 0;
        if (begins_chunk(c, i, false, s)) {
            return 0;
        }
    }
    return -BTRAIL_ERR_END;
}

int btrail_cursor_seek_cr3(struct btrail_cursor *c, uint64_t cr3,
                           uint64_t index, unsigned flags)
{
    struct cr3_search s = {
        .root = btrail_cr3_root(cr3),
        .index = index,
        .back = flags & BTRAIL_SEEK_PREVIOUS,
    };
    unsigned found;
    int ret;

    if (!c || (flags & ~BTRAIL_SEEK_PREVIOUS)) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    c->loaded = false;
    ret = s.back ? search_backwards(c, &s, &found) :
          search_forwards(c, &s, &found);
    if (ret) {
        go_to_chunk(c, s.back ? 0 : c->stream->chunks->len);
        return ret;
    }
    go_to_chunk(c, found);
    /* Not before the hole that may be there */
    c->index = entry(c, found)->first_index;
    c->skip_to_event = s.event;
    return 0;
}
