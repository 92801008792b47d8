/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Slabs to blocks: see stream.h
 */

#include "lib/agent/stream.h"

/* Records that are added to a block between two checks of its size */
#define STEP    4096

struct btrail_stream {
    unsigned vcpu;
    struct btrail_block_sink *sink;
    struct btrail_encoder *encoder;
    struct btrail_block *block;
    const struct btrail_stream_observer *observer;
    bool anywhere;
    bool started;
    bool ended;
    uint64_t index;
    uint64_t cr3;
    struct btrail_time time;
    struct btrail_event task;   /* the last one that was named; type 0: none */
    bool has_task;              /* the block has a TASK event */
    struct btrail_event kernel; /* the last one that was named; type 0: none */
    bool has_kernel;            /* the block has a KERNEL event */
    uint64_t unexplained;
};

struct btrail_stream *btrail_stream_new(unsigned vcpu,
                                        struct btrail_block_sink *sink,
                                        bool anywhere)
{
    struct btrail_stream *s = g_new0(struct btrail_stream, 1);

    s->vcpu = vcpu;
    s->sink = sink;
    s->anywhere = anywhere;
    s->encoder = btrail_encoder_new();
    s->time.icount = BTRAIL_NO_ICOUNT;
    return s;
}

void btrail_stream_observe(struct btrail_stream *s,
                           const struct btrail_stream_observer *observer)
{
    s->observer = observer;
}

void btrail_stream_free(struct btrail_stream *s)
{
    if (s) {
        btrail_block_free(s->block);
        btrail_encoder_free(s->encoder);
        g_free(s);
    }
}

uint64_t btrail_stream_index(const struct btrail_stream *s)
{
    return s->index;
}

bool btrail_stream_ended(const struct btrail_stream *s)
{
    return s->ended;
}

uint64_t btrail_stream_unexplained(const struct btrail_stream *s)
{
    return s->unexplained;
}

int btrail_stream_flush(struct btrail_stream *s)
{
    struct btrail_block *block = s->block;

    if (!block) {
        return 0;
    }
    s->block = NULL;
    btrail_encoder_end(s->encoder);
    return s->sink->put(s->sink, block);
}

/* Records that can be added to the block until its size is checked again */
static size_t room(const struct btrail_stream *s)
{
    return MIN(btrail_encoder_room(s->encoder), btrail_block_room(s->block));
}

static int need_block(struct btrail_stream *s)
{
    int ret;

    if (s->block &&
        (!room(s) ||
         s->block->header.events == BTRAIL_BLOCK_MAX_EVENTS)) {
        ret = btrail_stream_flush(s);
        if (ret) {
            return ret;
        }
    }
    if (!s->block) {
        s->block = s->sink->get(s->sink);
        btrail_block_begin(s->block, s->vcpu, s->index, s->cr3, &s->time);
        btrail_encoder_begin(s->encoder, s->block->streams,
                             &s->block->footprint);
        s->has_task = false;
        s->has_kernel = false;
    }
    return 0;
}

/* The block must have room for it. */
static void put_event(struct btrail_stream *s, const struct btrail_event *e)
{
    btrail_block_add_event(s->block, e);
    if (e->type == BTRAIL_EVENT_GAP) {
        btrail_encoder_gap(s->encoder);
    }
    if (s->observer) {
        s->observer->event(s->observer->opaque, s->vcpu, e);
    }
    s->index = s->block->header.end_index;
    btrail_event_apply(e, &s->cr3, &s->time);
    s->ended |= e->type == BTRAIL_EVENT_END;
    if (e->type == BTRAIL_EVENT_TASK) {
        s->task = *e;
        s->has_task = true;
    } else if (e->type == BTRAIL_EVENT_KERNEL) {
        s->kernel = *e;
        s->has_kernel = true;
        s->task.type = 0;
    }
}

/*
 * A block that does not know its kernel and its task yet names them before its
 * first record.
 */
static void put_kernel_and_task(struct btrail_stream *s)
{
    struct btrail_event kernel = s->kernel, task = s->task;
    bool put_task = !s->has_task;

    if (s->block->header.records) {
        return;
    }
    if (kernel.type && !s->has_kernel) {
        kernel.index = s->index;
        put_event(s, &kernel);
        /* It has ended the task. */
        put_task = true;
    }
    if (task.type && put_task) {
        task.index = s->index;
        /* It was another event that a task left with. */
        task.reason &= BTRAIL_TASK_KERNEL | BTRAIL_TASK_UNKNOWN;
        put_event(s, &task);
    }
}

static int add_records(struct btrail_stream *s,
                       const struct btrail_record *records, size_t n)
{
    while (n) {
        size_t step;
        int ret = need_block(s);

        if (ret) {
            return ret;
        }
        put_kernel_and_task(s);
        step = MIN(MIN(n, room(s)), STEP);
        btrail_encoder_records(s->encoder, records, step);
        btrail_block_add_records(s->block, step);
        if (s->observer) {
            s->observer->records(s->observer->opaque, s->vcpu, records, step);
        }
        s->index += step;
        records += step;
        n -= step;
    }
    return 0;
}

static int add_event(struct btrail_stream *s, const struct btrail_event *e)
{
    int ret = need_block(s);

    if (!ret) {
        if (e->type == BTRAIL_EVENT_WAKE) {
            /* A reader of the block knows who wakes it. */
            put_kernel_and_task(s);
        }
        put_event(s, e);
    }
    return ret;
}

void btrail_stream_begin(struct btrail_stream *s, uint64_t index)
{
    if (s->anywhere && !s->started) {
        s->index = index;
    }
}

int btrail_stream_event(struct btrail_stream *s, uint16_t type,
                        uint16_t reason, uint64_t data0)
{
    struct btrail_event e = {
        .index = s->index,
        .type = type,
        .reason = reason,
        .data = { data0 },
    };

    if (btrail_event_is_known_gap(&e)) {
        e.index += data0;
    }
    s->started = true;
    return add_event(s, &e);
}

size_t btrail_slab_before(const struct btrail_event *e, size_t position,
                          uint64_t index, size_t n_records)
{
    uint64_t lost = btrail_event_is_known_gap(e) ? e->data[0] : 0;

    if (!position && e->index <= index) {
        /* Before the first record, perhaps in the hole before it */
        return 0;
    }
    if (e->index < index || e->index - index < lost ||
        e->index - index - lost > n_records - position) {
        return SIZE_MAX;
    }
    return e->index - index - lost;
}

bool btrail_slab_check(const struct btrail_slab *slab, uint64_t before,
                       struct btrail_checked_slab *checked)
{
    uint64_t explained = 0;     /* by GAP events before the first record */
    uint64_t expected;          /* index of those */
    uint64_t hole;
    uint64_t index = slab->first_index;
    size_t position = 0;
    size_t i;

    if (slab->first_index < before ||
        slab->n_records >= UINT64_MAX - slab->first_index) {
        return false;
    }
    hole = slab->first_index - before;

    for (i = 0; i < slab->n_events; i++) {
        const struct btrail_event *e = &slab->events[i];
        size_t n = btrail_slab_before(e, position, index, slab->n_records);

        if (n == SIZE_MAX || e->index < before ||
            e->type < BTRAIL_EVENT_CR3 || e->type > BTRAIL_EVENT_WAKE ||
            (i + 1 < slab->n_events && e->type == BTRAIL_EVENT_END)) {
            return false;
        }
        if (btrail_event_is_known_gap(e) && !position &&
            e->index <= slab->first_index) {
            if (e->data[0] > hole - explained) {
                return false;
            }
            explained += e->data[0];
        } else if (e->index > index) {
            position += n;
            index = e->index;
            if (!position) {
                /* Its first record would not have first_index. */
                return false;
            }
        }
    }
    if (slab->n_records - position >= UINT64_MAX - index) {
        return false;
    }
    if (slab->n_events && position != slab->n_records &&
        slab->events[slab->n_events - 1].type == BTRAIL_EVENT_END) {
        return false;
    }

    /* The missing ones are put first; the others must then fit. */
    expected = slab->first_index - explained;
    *checked = (struct btrail_checked_slab) {
        *slab, expected, index + (slab->n_records - position),
    };
    for (i = 0; i < slab->n_events; i++) {
        const struct btrail_event *e = &slab->events[i];

        if (e->index > slab->first_index) {
            break;
        }
        if (btrail_event_is_known_gap(e)) {
            expected += e->data[0];
            if (e->index != expected) {
                return false;
            }
        }
    }
    return true;
}

static bool fits_block(const struct btrail_stream *s,
                       const struct btrail_slab *slab)
{
    const struct btrail_block_header *h = &s->block->header;

    /* Four events may be added to those of the slab. */
    return slab->n_records <= room(s) &&
           slab->n_events + 4 <= BTRAIL_BLOCK_MAX_EVENTS - h->events;
}

static int begin_slab(struct btrail_stream *s,
                      const struct btrail_checked_slab *checked,
                      uint16_t gap_reason)
{
    const struct btrail_slab *slab = &checked->slab;
    uint64_t missing;
    int ret = 0;

    if (!s->started) {
        s->cr3 = slab->cr3;
        s->started = true;
        if (s->anywhere) {
            s->index = checked->begin;
        }
    }
    missing = checked->begin - s->index;
    /* Blocks that begin with a slab begin with a TIME event. */
    if (s->block && !fits_block(s, slab)) {
        ret = btrail_stream_flush(s);
    }
    if (!ret && slab->cr3 != s->cr3) {
        /* Its CR3 event is in the hole. */
        ret = btrail_stream_event(s, BTRAIL_EVENT_CR3, 0, slab->cr3);
    }
    if (!ret && missing) {
        s->unexplained += missing;
        ret = btrail_stream_event(s, BTRAIL_EVENT_GAP, gap_reason, missing);
    }
    return ret;
}

int btrail_stream_append(struct btrail_stream *s,
                         const struct btrail_slab *slab, uint16_t gap_reason)
{
    struct btrail_checked_slab checked;

    return btrail_slab_check(slab, s->index, &checked) ?
           btrail_stream_append_checked(s, &checked, gap_reason) :
           -BTRAIL_ERR_SLAB;
}

int btrail_stream_append_checked(struct btrail_stream *s,
                                 const struct btrail_checked_slab *checked,
                                 uint16_t gap_reason)
{
    const struct btrail_slab *slab = &checked->slab;
    uint64_t index = slab->first_index;
    size_t position = 0;
    size_t i;
    int ret;

    if (s->ended || checked->begin < s->index) {
        return -BTRAIL_ERR_SLAB;
    }
    ret = begin_slab(s, checked, gap_reason);
    for (i = 0; !ret && i < slab->n_events; i++) {
        const struct btrail_event *e = &slab->events[i];
        size_t n = btrail_slab_before(e, position, index,
                                      slab->n_records);

        ret = add_records(s, slab->records + position, n);
        if (ret) {
            break;
        }
        position += n;
        index = MAX(index, e->index);
        ret = add_event(s, e);
    }
    if (!ret) {
        ret = add_records(s, slab->records + position,
                          slab->n_records - position);
    }
    return ret;
}
