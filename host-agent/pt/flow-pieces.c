/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One stream of Intel PT, decoded by several threads: see flow-pieces.h
 */

#include <string.h>

#include "pt/flow-pieces.h"
#include "pt/packets.h"

/* Bytes of a piece: its records stay in a core's cache until they are given. */
#define PIECE       (64u << 10)
/* Records of a piece that are kept until it is its turn; few have more */
#define MOST        (4u << 20)
/* Bytes until it is looked whether there are more */
#define STEP        (64u << 10)
/* No PSB+ is longer. */
#define PSB_MAX     256u
/* Pieces that are decoded ahead, of each thread */
#define AHEAD       4u

/* What was given at once */
struct flow_batch {
    size_t records;
    size_t events;
};

/* What a piece gives; used again, as new memory takes time */
struct flow_kept {
    GArray *records;
    GArray *events;
    GArray *batches;
};

/**
 * struct flow_piece
 * @from:  where its flow begins: 0, or a PSB
 * @begin: the end of the PSB+ there; what is given begins here
 * @end:   of the PSB+ after it
 */
struct flow_piece {
    size_t from;
    size_t begin;
    size_t end;
    bool done;
    bool good;                  /* it was decoded, from a place that is known */
    struct pt_flow_place *at_begin;
    struct pt_flow_place *at_end;
    struct pt_flow_count count;
    struct flow_kept kept;
};

struct flow_pieces {
    const struct flow_pieces_options *o;
    const uint8_t *p;
    size_t n;
    GArray *all;                /* of struct flow_piece */

    GMutex lock;
    GCond changed;
    unsigned next;              /* that nobody decodes yet */
    unsigned joined;
    GArray *free;               /* of struct flow_kept */
};

/* Of a thread */
struct flow_worker {
    struct flow_pieces *all;
    struct pt_flow *flow;
    struct flow_piece *piece;
    unsigned number;
    GThread *thread;
};

/* The size of a PSB+ of the guest; 0 if there is none */
static size_t psb_size(const struct flow_pieces_options *o, const uint8_t *p,
                       size_t n)
{
    bool guest = o->flow.bare, has_ip = false;
    uint64_t ip = 0;

    n = MIN(n, PSB_MAX);
    for (size_t i = 0; i < n;) {
        struct pt_packet packet;
        int size = pt_packet_read(p + i, n - i, 0, &packet);

        if (size <= 0) {
            break;
        }
        i += size;
        switch (packet.type) {
        case PT_PACKET_PIP:
            guest |= packet.form;
            break;
        case PT_PACKET_FUP:
            has_ip |= pt_packet_ip(&packet, &ip);
            break;
        case PT_PACKET_PSBEND:
            return guest && has_ip ? i : 0;
        case PT_PACKET_OVF:
        case PT_PACKET_TNT:
        case PT_PACKET_TIP:
            return 0;
        }
    }
    return 0;
}

static void add_piece(struct flow_pieces *all, size_t from, size_t begin)
{
    struct flow_piece piece = { .from = from, .begin = begin, .end = all->n };

    if (all->all->len) {
        g_array_index(all->all, struct flow_piece, all->all->len - 1).end =
            begin;
    }
    g_array_append_val(all->all, piece);
}

static void cut(struct flow_pieces *all)
{
    size_t size = all->o->piece ? all->o->piece : PIECE, at = size;

    add_piece(all, 0, 0);
    while (at < all->n) {
        size_t psb;

        at += pt_packet_find_psb(all->p + at, all->n - at);
        psb = at < all->n ? psb_size(all->o, all->p + at, all->n - at) : 0;
        if (psb) {
            add_piece(all, at, at + psb);
            at += MAX(size, psb);
        } else {
            at += PT_PACKET_MAX;
        }
    }
}

static void keep(void *opaque, const struct btrail_record *records, size_t n,
                 const struct pt_flow_event *events, size_t n_events)
{
    struct flow_worker *w = opaque;
    struct flow_kept *k = &w->piece->kept;
    struct flow_batch batch = { n, n_events };

    if (k->records->len + k->events->len + n + n_events > MOST) {
        w->piece->good = false;
        return;
    }
    g_array_append_vals(k->records, records, n);
    g_array_append_vals(k->events, events, n_events);
    g_array_append_val(k->batches, batch);
}

/* A stream can end with a PSB+, behind which is an empty piece. */
static bool is_last(const struct flow_pieces *all,
                    const struct flow_piece *piece)
{
    return piece == &g_array_index(all->all, struct flow_piece,
                                   all->all->len - 1);
}

static void decode(struct flow_worker *w, struct flow_piece *piece)
{
    const uint8_t *p = w->all->p;

    w->piece = piece;
    piece->good = true;
    pt_flow_restart(w->flow, piece->from);
    if (piece->from) {
        pt_flow_feed(w->flow, p + piece->from, piece->begin - piece->from);
        piece->good = pt_flow_drop(w->flow);
        if (!piece->good) {
            return;
        }
        piece->at_begin = pt_flow_leave(w->flow);
    }
    for (size_t at = piece->begin; at < piece->end && piece->good;) {
        size_t n = MIN(piece->end - at, STEP);

        pt_flow_feed(w->flow, p + at, n);
        at += n;
    }
    if (!piece->good) {
        return;
    }
    if (is_last(w->all, piece)) {
        pt_flow_finish(w->flow);
    } else {
        piece->at_end = pt_flow_leave(w->flow);
    }
    piece->count = *pt_flow_counted(w->flow);
}

static struct flow_kept take_kept(struct flow_pieces *all)
{
    struct flow_kept k = { NULL };

    if (all->free->len) {
        k = g_array_index(all->free, struct flow_kept, all->free->len - 1);
        g_array_set_size(all->free, all->free->len - 1);
    } else {
        k.records = g_array_new(FALSE, FALSE, sizeof(struct btrail_record));
        k.events = g_array_new(FALSE, FALSE, sizeof(struct pt_flow_event));
        k.batches = g_array_new(FALSE, FALSE, sizeof(struct flow_batch));
    }
    g_array_set_size(k.records, 0);
    g_array_set_size(k.events, 0);
    g_array_set_size(k.batches, 0);
    return k;
}

static void free_kept(struct flow_pieces *all)
{
    for (unsigned i = 0; i < all->free->len; i++) {
        const struct flow_kept *k = &g_array_index(all->free, struct flow_kept,
                                                   i);

        g_array_free(k->records, TRUE);
        g_array_free(k->events, TRUE);
        g_array_free(k->batches, TRUE);
    }
    g_array_free(all->free, TRUE);
}

/* The next one, once it is not too far ahead; NULL if there are no more */
static struct flow_piece *take(struct flow_pieces *all)
{
    struct flow_piece *piece = NULL;

    g_mutex_lock(&all->lock);
    while (all->next < all->all->len &&
           all->next >= all->joined + AHEAD * all->o->threads) {
        g_cond_wait(&all->changed, &all->lock);
    }
    if (all->next < all->all->len) {
        piece = &g_array_index(all->all, struct flow_piece, all->next++);
        piece->kept = take_kept(all);
    }
    g_mutex_unlock(&all->lock);
    return piece;
}

static gpointer work(gpointer opaque)
{
    struct flow_worker *w = opaque;
    struct flow_piece *piece;

    w->flow = pt_flow_new(&w->all->o->flow, w->all->o->code,
                          w->all->o->code_opaque[w->number], keep, w);
    while ((piece = take(w->all))) {
        decode(w, piece);
        g_mutex_lock(&w->all->lock);
        piece->done = true;
        g_cond_broadcast(&w->all->changed);
        g_mutex_unlock(&w->all->lock);
    }
    pt_flow_free(w->flow);
    return NULL;
}

static void give_kept(const struct flow_kept *k, pt_flow_fn *give, void *opaque)
{
    const struct btrail_record *r = (void *)k->records->data;
    const struct pt_flow_event *e = (void *)k->events->data;

    for (unsigned i = 0; i < k->batches->len; i++) {
        const struct flow_batch *b = &g_array_index(k->batches,
                                                    struct flow_batch, i);

        give(opaque, r, b->records, e, b->events);
        r += b->records;
        e += b->events;
    }
}

/* From where the one before it has come to */
static void decode_again(struct flow_pieces *all, struct pt_flow *flow,
                         const struct pt_flow_place *from,
                         struct flow_piece *piece)
{
    if (from) {
        pt_flow_enter(flow, from);
    } else {
        pt_flow_restart(flow, 0);
    }
    pt_flow_feed(flow, all->p + piece->begin, piece->end - piece->begin);
    pt_flow_place_free(piece->at_end);
    piece->at_end = NULL;
    if (is_last(all, piece)) {
        pt_flow_finish(flow);
    } else {
        piece->at_end = pt_flow_leave(flow);
    }
    piece->count = *pt_flow_counted(flow);
}

static void join(struct flow_pieces *all, pt_flow_fn *give, void *opaque,
                 struct flow_pieces_count *count)
{
    struct pt_flow *again = pt_flow_new(&all->o->flow, all->o->code,
                                        all->o->code_opaque[all->o->threads],
                                        give, opaque);
    struct pt_flow_place *at = NULL;

    for (unsigned i = 0; i < all->all->len; i++) {
        struct flow_piece *piece = &g_array_index(all->all, struct flow_piece,
                                                  i);

        g_mutex_lock(&all->lock);
        while (!piece->done) {
            g_cond_wait(&all->changed, &all->lock);
        }
        g_mutex_unlock(&all->lock);
        if (piece->good && (!i || pt_flow_is_same(at, piece->at_begin))) {
            give_kept(&piece->kept, give, opaque);
        } else {
            decode_again(all, again, at, piece);
            count->again++;
        }
        pt_flow_add_counts(&count->flow, &piece->count);
        pt_flow_place_free(at);
        at = g_steal_pointer(&piece->at_end);
        pt_flow_place_free(piece->at_begin);
        g_mutex_lock(&all->lock);
        g_array_append_val(all->free, piece->kept);
        all->joined++;
        g_cond_broadcast(&all->changed);
        g_mutex_unlock(&all->lock);
    }
    pt_flow_free(again);
}

void flow_pieces_decode(const struct flow_pieces_options *options,
                        const uint8_t *p, size_t n, pt_flow_fn *give,
                        void *give_opaque, struct flow_pieces_count *count)
{
    struct flow_pieces all = {
        .o = options, .p = p, .n = n,
        .all = g_array_new(FALSE, FALSE, sizeof(struct flow_piece)),
        .free = g_array_new(FALSE, FALSE, sizeof(struct flow_kept)),
    };
    g_autofree struct flow_worker *workers = g_new0(struct flow_worker,
                                                    options->threads);

    memset(count, 0, sizeof(*count));
    g_mutex_init(&all.lock);
    g_cond_init(&all.changed);
    cut(&all);
    count->pieces = all.all->len;
    for (unsigned i = 0; i < options->threads; i++) {
        workers[i].all = &all;
        workers[i].number = i;
        workers[i].thread = g_thread_new("pt-piece", work, &workers[i]);
    }
    join(&all, give, give_opaque, count);
    for (unsigned i = 0; i < options->threads; i++) {
        g_thread_join(workers[i].thread);
    }
    g_array_free(all.all, TRUE);
    free_kept(&all);
    g_mutex_clear(&all.lock);
    g_cond_clear(&all.changed);
}
