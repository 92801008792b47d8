/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copying chunks: see copy.h
 */

#include "lib/internal/copy.h"

/* A stream, as far as it has been copied */
struct copy_stream {
    bool begun;                 /* it has a chunk or an event */
    bool ended;                 /* it has its END event */
    bool left_out;              /* a chunk, since the last one that was not */
    uint64_t index;             /* of the next record */
    uint64_t damaged_to;        /* where the last chunk left out ends */
    uint64_t cr3;
    struct btrail_time time;
    struct btrail_block *fill;  /* events to add before the next chunk */
};

struct btrail_copy {
    struct btrail_store *store;
    uint16_t begin;
    bool decode;
    struct btrail_merge_result sum;
    struct btrail_unpacker *unpacker;
    struct btrail_packer *packer;
    struct btrail_buf payload;  /* of the chunk */
    struct btrail_buf packed;   /* events that are filled in before it */
    struct copy_stream *streams[BTRAIL_MAX_VCPUS];
};

struct btrail_copy *btrail_copy_new(struct btrail_store *store,
                                    uint16_t begin, bool decode)
{
    struct btrail_copy *c = g_new0(struct btrail_copy, 1);

    c->store = store;
    c->begin = begin;
    c->decode = decode;
    c->unpacker = btrail_unpacker_new();
    c->packer = btrail_packer_new();
    return c;
}

void btrail_copy_free(struct btrail_copy *c)
{
    unsigned i;

    if (c) {
        for (i = 0; i < BTRAIL_MAX_VCPUS; i++) {
            if (c->streams[i]) {
                btrail_block_free(c->streams[i]->fill);
                g_free(c->streams[i]);
            }
        }
        btrail_unpacker_free(c->unpacker);
        btrail_packer_free(c->packer);
        btrail_buf_free(&c->payload);
        btrail_buf_free(&c->packed);
        g_free(c);
    }
}

void btrail_copy_to(struct btrail_copy *c, struct btrail_store *store)
{
    c->store = store;
}

const struct btrail_merge_result *btrail_copy_sum(const struct btrail_copy *c)
{
    return &c->sum;
}

static struct copy_stream *get_stream(struct btrail_copy *c, unsigned vcpu)
{
    struct copy_stream *s = c->streams[vcpu];

    if (!s) {
        s = c->streams[vcpu] = g_new0(struct copy_stream, 1);
        s->time.icount = BTRAIL_NO_ICOUNT;
    }
    return s;
}

/* Adds an event of our own at the end of the stream. */
static void fill_event(struct copy_stream *s, unsigned vcpu,
                       const struct btrail_event *event)
{
    struct btrail_event e = *event;

    if (!s->fill) {
        s->fill = btrail_block_new();
    }
    if (!s->fill->header.events) {
        btrail_block_begin(s->fill, vcpu, s->index, s->cr3, &s->time);
    }
    if (btrail_event_is_known_gap(&e)) {
        s->index += e.data[0];
    }
    e.index = s->index;
    btrail_block_add_event(s->fill, &e);
    s->begun = true;
}

static void fill_gap(struct btrail_copy *c, struct copy_stream *s,
                     unsigned vcpu, uint16_t reason, uint64_t lost)
{
    fill_event(s, vcpu, &(struct btrail_event) {
        .type = BTRAIL_EVENT_GAP, .reason = reason, .data = { lost },
    });
    c->sum.gaps++;
    if (lost == BTRAIL_LOST_UNKNOWN) {
        c->sum.lost_unknown = true;
    } else {
        c->sum.lost += lost;
    }
}

static int flush_fill(struct btrail_copy *c, struct copy_stream *s)
{
    int ret = 0;

    if (!s->fill || !s->fill->header.events) {
        return 0;
    }
    if (c->store) {
        btrail_packer_pack(c->packer, s->fill, &c->packed);
        ret = btrail_store_data(c->store, c->packed.data, c->packed.len,
                                &s->fill->header);
    }
    s->cr3 = s->fill->cr3_now;
    s->time = s->fill->model.last;
    s->fill->header.events = 0;
    return ret;
}

/* Loads a chunk and checks it.  Errors: as of the callers, CORRUPT. */
static int load(struct btrail_copy *c, const struct btrail_file *f,
                const struct btrail_index_entry *e, bool decode,
                struct btrail_block_header *h)
{
    int ret = btrail_file_load_chunk(f, e, &c->payload, c->unpacker, !decode,
                                     h);

    if (!ret && decode && h->records &&
        !btrail_unpacker_records(c->unpacker, NULL, h->records)) {
        ret = -BTRAIL_ERR_CORRUPT;
    }
    return ret;
}

/* Fills what is missing before the first chunk of a file that says why. */
static void fill_begin(struct btrail_copy *c, struct copy_stream *s,
                       const struct btrail_file *f,
                       const struct btrail_index_entry *e, bool begins)
{
    uint16_t reason = f->header.begin;
    uint64_t damaged_to = MIN(s->damaged_to, e->first_index);

    if (!begins || !reason) {
        return;
    }
    if (s->index < damaged_to) {
        fill_gap(c, s, e->vcpu, BTRAIL_GAP_CORRUPT, damaged_to - s->index);
        s->left_out = false;
    }
    if (s->index < e->first_index) {
        /* Damage gets a GAP event: readers do not trust a header with it. */
        if (!s->begun && !s->left_out && reason == c->begin &&
            reason != BTRAIL_GAP_CORRUPT) {
            s->index = e->first_index;
        } else {
            fill_gap(c, s, e->vcpu, reason, e->first_index - s->index);
        }
    }
}

/* Fills what is missing before a sound chunk. */
static void fill_before(struct btrail_copy *c, struct copy_stream *s,
                        const struct btrail_block_header *h)
{
    bool time = h->time.host && memcmp(&h->time, &s->time, sizeof(s->time));
    bool changed = s->begun && (h->cr3 != s->cr3 || time);
    bool filled = s->fill && s->fill->header.events;

    if (s->index < h->first_index || s->left_out || (changed && !filled)) {
        fill_gap(c, s, h->vcpu, BTRAIL_GAP_CORRUPT,
                 h->first_index - s->index);
        filled = true;
    }
    if (filled && h->cr3 != s->cr3) {
        fill_event(s, h->vcpu, &(struct btrail_event) {
            .type = BTRAIL_EVENT_CR3, .data = { h->cr3 },
        });
    }
    if (filled && time) {
        fill_event(s, h->vcpu, &(struct btrail_event) {
            .type = BTRAIL_EVENT_TIME,
            .data = { h->time.host, h->time.tsc, h->time.icount },
        });
    }
}

/* The state after a chunk, from its events */
static void pass_over(struct btrail_copy *c, struct copy_stream *s,
                      const struct btrail_block_header *h)
{
    const struct btrail_placed_event *events =
        btrail_unpacker_events(c->unpacker);
    uint32_t i;

    s->cr3 = h->cr3;
    s->time = h->time;
    for (i = 0; i < h->events; i++) {
        btrail_event_apply(&events[i].event, &s->cr3, &s->time);
        s->ended |= events[i].event.type == BTRAIL_EVENT_END;
    }
    s->index = h->end_index;
    s->begun = true;
    s->left_out = false;
}

void btrail_copy_bad_data(struct btrail_copy *c, const struct btrail_file *f,
                          const struct btrail_index_entry *e, bool begins)
{
    struct copy_stream *s = get_stream(c, e->vcpu);

    fill_begin(c, s, f, e, begins);
    s->damaged_to = e->end_index;
    s->left_out = true;
    c->sum.bad_chunks++;
}

int btrail_copy_data(struct btrail_copy *c, const struct btrail_file *f,
                     const struct btrail_index_entry *e, bool begins)
{
    struct copy_stream *s = get_stream(c, e->vcpu);
    struct btrail_block_header h;
    int ret = load(c, f, e, c->decode, &h);

    if (ret == -BTRAIL_ERR_CORRUPT) {
        btrail_copy_bad_data(c, f, e, begins);
        return 0;
    }
    if (ret) {
        return ret;
    }
    fill_begin(c, s, f, e, begins);
    fill_before(c, s, &h);
    ret = flush_fill(c, s);
    if (!ret && c->store) {
        ret = btrail_store_data(c->store, c->payload.data, c->payload.len,
                                &h);
    }
    if (!ret) {
        pass_over(c, s, &h);
        c->sum.chunks++;
        c->sum.records += h.records;
    }
    return ret;
}

int btrail_copy_sideband(struct btrail_copy *c, const struct btrail_file *f,
                         const struct btrail_index_entry *e)
{
    g_autofree uint8_t *payload = NULL;
    struct btrail_sideband_info info;
    int ret = btrail_file_read_sideband(f, e, &info, NULL, &payload);

    if (ret == -BTRAIL_ERR_CORRUPT) {
        c->sum.bad_chunks++;
        return 0;
    }
    if (!ret && c->store) {
        ret = btrail_store_sideband(c->store, payload, e->size);
    }
    return ret;
}

int btrail_copy_follow(struct btrail_copy *c, const struct btrail_file *f,
                       const struct btrail_index_entry *e)
{
    struct copy_stream *s = get_stream(c, e->vcpu);
    struct btrail_block_header h;
    int ret = load(c, f, e, true, &h);

    if (!ret) {
        pass_over(c, s, &h);
    }
    s->begun = true;
    s->index = e->end_index;
    return ret == -BTRAIL_ERR_CORRUPT ? 0 : ret;
}

static int end_stream(struct btrail_copy *c, struct copy_stream *s,
                      unsigned vcpu, bool cut, bool unknown)
{
    if (s->index < s->damaged_to || s->left_out) {
        fill_gap(c, s, vcpu, BTRAIL_GAP_CORRUPT,
                 MAX(s->index, s->damaged_to) - s->index);
        s->left_out = false;
    }
    if (cut && !s->ended) {
        if (unknown) {
            fill_gap(c, s, vcpu, BTRAIL_GAP_CORRUPT, BTRAIL_LOST_UNKNOWN);
        }
        fill_event(s, vcpu, &(struct btrail_event) {
            .type = BTRAIL_EVENT_END, .reason = BTRAIL_END_CUT,
            .data = { s->time.host },
        });
        s->ended = true;
        c->sum.ends++;
    }
    return flush_fill(c, s);
}

bool btrail_copy_is_open(const struct btrail_copy *c)
{
    unsigned i;

    for (i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        if (c->streams[i] && !c->streams[i]->ended) {
            return true;
        }
    }
    return false;
}

int btrail_copy_end(struct btrail_copy *c, bool cut, bool unknown)
{
    int ret = 0;
    unsigned i;

    for (i = 0; !ret && i < BTRAIL_MAX_VCPUS; i++) {
        if (c->streams[i]) {
            ret = end_stream(c, c->streams[i], i, cut, unknown);
        }
    }
    return ret;
}
