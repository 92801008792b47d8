/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A walker is before one instruction of a lane: see walker.h
 */

#include <string.h>

#include "gdb/lane-stack.h"
#include "gdb/walker.h"
#include "lib/agent/trace-files.h"
#include "symbolize/stack-edge.h"
#include "util/hash.h"
#include "util/search.h"
#include "util/sort.h"

/*
 * Records that are kept on either side of the one where it is; and the most
 * of them, on the side that it goes far to
 */
#define AROUND      4096
#define FAR         (AROUND << 6)
/* How often it asks whether to continue */
#define PATIENCE    65536

/* Edges whose kinds are known: one for each hash */
#define KINDS_BITS  14

/* What an edge of a process does to the stack */
enum effect {
    EFFECT_UNKNOWN,
    EFFECT_NONE,
    EFFECT_CALL,
    EFFECT_RETURN,
    EFFECT_RET,                 /* a return, unless it is of a retpoline */
};

struct kind {
    uint64_t from;
    uint64_t to;
    const struct process *process;
    enum effect effect;
};

/**
 * struct walker
 * @records, @here: as lane_read() has returned them; @here is the record where
 *          it is, or -1
 * @block:  after it, once somebody has asked for it
 * @before: records that are read before it the next time
 * @after: the same after it
 * @kinds:  what edges do that it has met
 * @stack:  along the lane, or NULL; and of struct ended, in order
 */
struct walker {
    const struct btrail_trace *trace;
    struct symbolizer *symbols;
    struct lane *lane;
    GArray *records;
    ssize_t here;
    struct block block;
    struct walker_spot spot;
    size_t before;
    size_t after;
    struct kind *kinds;
    struct lane_stack *stack;
    GArray *ended;
};

struct walker *walker_new(const struct btrail_trace *trace,
                          struct symbolizer *symbols, struct lane *lane)
{
    struct walker *w = g_new0(struct walker, 1);

    w->trace = trace;
    w->symbols = symbols;
    w->lane = lane;
    w->here = -1;
    w->before = w->after = AROUND;
    return w;
}

static void forget(struct walker *w)
{
    if (w->records) {
        lane_release(w->lane, w->records);
        w->records = NULL;
    }
    block_clear(&w->block);
    w->here = -1;
}

void walker_free(struct walker *w)
{
    if (w) {
        forget(w);
        lane_stack_free(w->stack);
        g_clear_pointer(&w->ended, g_array_unref);
        lane_free(w->lane);
        g_free(w->kinds);
        g_free(w);
    }
}

struct lane *walker_lane(const struct walker *w)
{
    return w->lane;
}

static const struct lane_record *record(const struct walker *w, ssize_t i)
{
    return i >= 0 && w->records && i < (ssize_t)w->records->len ?
           &g_array_index(w->records, struct lane_record, i) : NULL;
}

const struct walker_spot *walker_spot(const struct walker *w)
{
    return w->here >= 0 ? &w->spot : NULL;
}

const struct lane_record *walker_record(const struct walker *w)
{
    return record(w, w->here);
}

const struct lane_record *walker_next_record(const struct walker *w)
{
    return record(w, w->here + 1);
}

/* Of a walker that is nowhere, no block has instructions. */
static const struct block *block_of(struct walker *w)
{
    if (!w->block.addresses && !walker_record(w)) {
        w->block.addresses = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    } else if (!w->block.addresses) {
        w->block = block_read(w->symbols, record(w, w->here),
                              record(w, w->here + 1));
    }
    return &w->block;
}

static unsigned size_of(struct walker *w)
{
    return block_of(w)->addresses->len;
}

uint64_t walker_pc(struct walker *w)
{
    return w->spot.number >= size_of(w) ? 0 :
           block_address(block_of(w), w->spot.number);
}

struct symbolizer_where walker_where(const struct walker *w)
{
    return block_where(walker_record(w), walker_next_record(w));
}

const struct process *walker_process(const struct walker *w)
{
    const struct lane_record *next = walker_next_record(w);

    return next ? next->process : walker_record(w)->process;
}

/* After a record that is kept */
static void stand(struct walker *w, ssize_t i)
{
    block_clear(&w->block);
    w->here = i;
    w->spot = (struct walker_spot) { record(w, i)->at, 0 };
}

/* Keeps the records around one; false if there are none. */
static bool load(struct walker *w, const struct lane_at *at)
{
    const struct lane_at to = *at;
    ssize_t here;
    GArray *records;

    /* Its memory may be needed. */
    forget(w);
    records = lane_read(w->lane, &to, w->before, w->after, &here);
    if (!records->len) {
        lane_release(w->lane, records);
        return false;
    }
    w->records = records;
    stand(w, MAX(here, 0));
    return true;
}

/* To the record after or before; false if there is none. */
static bool move(struct walker *w, int by)
{
    struct lane_at at = w->spot.at;
    ssize_t i = w->here + by;

    if (!walker_record(w)) {
        return false;
    }
    /* The block's end is known from the record after it. */
    if (!record(w, i) || (by > 0 && !record(w, i + 1))) {
        /* To seek takes as long as to read many. */
        w->before = by < 0 ? MIN(w->before * 4, FAR) : AROUND;
        w->after = by > 0 ? MIN(w->after * 4, FAR) : AROUND;
        if (!load(w, &at)) {
            return false;
        }
        i = w->here + by;
    }
    if (!record(w, i)) {
        return false;
    }
    stand(w, i);
    return true;
}

/* To the first block after here that has instructions, or before */
static bool move_on(struct walker *w, int by)
{
    const struct walker_spot from = w->spot;

    while (move(w, by)) {
        if (size_of(w)) {
            return true;
        }
    }
    if (load(w, &from.at) && from.number < size_of(w)) {
        w->spot.number = from.number;
    }
    return false;
}

bool walker_go(struct walker *w, const struct walker_spot *spot)
{
    const struct walker_spot to = *spot;

    w->before = w->after = AROUND;
    if (!load(w, &to.at)) {
        return false;
    }
    if (size_of(w)) {
        w->spot.number = MIN(to.number, size_of(w) - 1);
        return true;
    }
    if (move_on(w, 1)) {
        return true;
    }
    if (move_on(w, -1)) {
        w->spot.number = size_of(w) - 1;
        return true;
    }
    forget(w);
    return false;
}

bool walker_step(struct walker *w)
{
    if (w->spot.number + 1 < size_of(w)) {
        w->spot.number++;
        return true;
    }
    return move_on(w, 1);
}

bool walker_back(struct walker *w)
{
    if (w->spot.number) {
        w->spot.number--;
        return true;
    }
    if (!move_on(w, -1)) {
        return false;
    }
    w->spot.number = size_of(w) - 1;
    return true;
}

/* Is one of some sorted addresses in [@first, @last]? */
static bool has_address(const uint64_t *addresses, size_t n, uint64_t first,
                        uint64_t last)
{
    size_t i = btrail_up_to(addresses, n, sizeof(*addresses), false, 0, last);

    return i && addresses[i - 1] >= first;
}

/*
 * Which instruction of the block has one of them: the first one from @from on,
 * or the last one before it; -1 if none
 */
static int find_in_block(struct walker *w, const uint64_t *addresses, size_t n,
                         bool forward, unsigned from)
{
    int step = forward ? 1 : -1;

    for (int i = forward ? (int)from : (int)from - 1;
         i >= 0 && i < (int)size_of(w); i += step) {
        uint64_t address = block_address(block_of(w), i);

        if (has_address(addresses, n, address, address)) {
            return i;
        }
    }
    return -1;
}

/* Records that are kept of those which may end a block that is wanted */
#define HITS_MAX    16384

/**
 * struct tried - what is known of the records of a vCPU
 * @any:   the rest is set
 * @none, @begin, @end: what btrail_trace_last_ran() or -next_ran() has said
 *         last, when it was asked for @asked
 * @hits:  of uint64_t, in order: of records [@hits_begin, @hits_end), those
 *         that end a block which may have one of the addresses.  If all of
 *         these are missing, it is the one after them.
 */
struct tried {
    bool any;
    bool none;
    uint64_t asked;
    uint64_t begin;
    uint64_t end;
    GArray *hits;
    uint64_t hits_begin;
    uint64_t hits_end;
};

/**
 * struct walker_search
 * @tried: vCPU -> struct tried
 */
struct walker_search {
    struct walker *w;
    struct lane_at from;
    const uint64_t *addresses;
    size_t n;
    bool forward;
    bool (*go_on)(void *opaque);
    void *opaque;
    GHashTable *tried;
    struct block_search *blocks;
    struct btrail_cursor *cursor;
    unsigned vcpu;
};

static void free_tried(void *opaque)
{
    struct tried *t = opaque;

    g_array_unref(t->hits);
    g_free(t);
}

/*
 * Can a block have one of the addresses, as block_read() makes it?  @whole: no
 * records are missing in it
 */
static bool may_have(const struct walker_search *s, uint64_t to, uint64_t from,
                     bool whole)
{
    if (whole && from >= to && from - to <= BLOCK_MAX) {
        return has_address(s->addresses, s->n, to, from);
    }
    return has_address(s->addresses, s->n, to, to) ||
           has_address(s->addresses, s->n, from, from);
}

static bool seek(struct walker_search *s, unsigned vcpu, uint64_t index)
{
    if (s->cursor && s->vcpu != vcpu) {
        btrail_cursor_close(s->cursor);
        s->cursor = NULL;
    }
    s->vcpu = vcpu;
    return (s->cursor ||
            !btrail_cursor_open(&s->cursor, s->w->trace, vcpu, 0)) &&
           !btrail_cursor_seek(s->cursor, index);
}

/*
 * Finds the hits of records [@begin, @end), in one pass: there can be many of
 * them, and no record is to be read again for each.  Beyond a limit, those at
 * the far end are left out.  What is before the first record is not known, so
 * that record is one.
 */
static void find_hits(struct walker_search *s, struct tried *t, unsigned vcpu,
                      uint64_t begin, uint64_t end)
{
    struct btrail_record last = { 0 };
    bool known = false, whole = false;
    struct btrail_batch b;

    g_array_set_size(t->hits, 0);
    t->hits_begin = begin;
    t->hits_end = end;
    if (!seek(s, vcpu, begin)) {
        return;
    }
    while (!btrail_cursor_next(s->cursor, &b) && (!known || b.index < end)) {
        whole &= !b.event || b.event->type != BTRAIL_EVENT_GAP;
        for (size_t i = 0; !b.event && i < b.count &&
                           (!known || b.index + i < end); i++) {
            uint64_t index = b.index + i;

            if (!known || may_have(s, last.to, b.records[i].from, whole)) {
                g_array_append_val(t->hits, index);
                if (s->forward && t->hits->len == HITS_MAX) {
                    t->hits_end = index + 1;
                    return;
                }
                if (t->hits->len == 2 * HITS_MAX) {
                    g_array_remove_range(t->hits, 0, HITS_MAX);
                    t->hits_begin = g_array_index(t->hits, uint64_t, 0);
                }
            }
            last = b.records[i];
            known = whole = true;
        }
    }
}

/* How many hits are before a record */
static size_t hits_before(const struct tried *t, uint64_t index)
{
    return index ? btrail_up_to(t->hits->data, t->hits->len, sizeof(uint64_t),
                                false, 0, index - 1) : 0;
}

static uint64_t hit(const struct tried *t, size_t i)
{
    return g_array_index(t->hits, uint64_t, i);
}

/* The first hit of records [@begin, @end) */
static bool first_hit(struct walker_search *s, struct tried *t, unsigned vcpu,
                      uint64_t begin, uint64_t end, uint64_t *found)
{
    while (begin < end) {
        size_t i;

        if (begin < t->hits_begin || begin >= t->hits_end) {
            find_hits(s, t, vcpu, begin, t->end);
        }
        i = hits_before(t, begin);
        if (i < t->hits->len) {
            *found = hit(t, i);
            /* The one after what is missing */
            return *found < end || *found >= t->hits_end;
        }
        begin = t->hits_end;
    }
    return false;
}

/* The last one */
static bool last_hit(struct walker_search *s, struct tried *t, unsigned vcpu,
                     uint64_t begin, uint64_t end, uint64_t *found)
{
    while (begin < end) {
        size_t i;

        if (end <= t->hits_begin || end > t->hits_end) {
            find_hits(s, t, vcpu, t->begin, end);
        }
        i = end == t->hits_end ? t->hits->len : hits_before(t, end);
        if (i) {
            *found = hit(t, i - 1);
            return *found >= begin;
        }
        end = t->hits_begin;
    }
    return false;
}

/*
 * The first or last record of a part of a run that may end a wanted block.  The
 * first record of a run ends a block that begins in another run.
 */
static bool next_hit(struct walker_search *s, struct tried *t,
                     const struct lane_run *run, uint64_t begin, uint64_t end,
                     uint64_t *found)
{
    if (s->forward && begin == run->begin) {
        *found = begin;
        return true;
    }
    if ((s->forward ? first_hit : last_hit)(s, t, run->vcpu, begin, end,
                                            found) && *found < run->end) {
        return true;
    }
    *found = begin;
    return !s->forward && begin == run->begin;
}

/*
 * Goes to a record of the lane, or one before it.  Those around it are kept, or
 * are read, more of them each time.
 */
static bool go_to_record(struct walker_search *s, const struct lane_at *at)
{
    struct walker *w = s->w;
    size_t low = 0, high = w->records ? w->records->len : 0;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (lane_before(&record(w, middle)->at, at)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low && record(w, low) && !lane_before(at, &record(w, low)->at)) {
        stand(w, low);
        return true;
    }
    w->before = s->forward ? AROUND : MIN(w->before * 4, FAR);
    w->after = s->forward ? MIN(w->after * 4, FAR) : AROUND;
    return load(w, at);
}

/* Goes to the wanted instruction of the block that ends with a record. */
static bool stand_in(struct walker_search *s, size_t run, uint64_t index)
{
    const struct lane_at end = { run, index };
    const struct lane_record *next;
    struct walker *w = s->w;
    int found;

    if (!go_to_record(s, &end) || !move(w, -1) ||
        !(s->forward ? lane_before(&s->from, &w->spot.at) :
                       lane_before(&w->spot.at, &s->from))) {
        return false;
    }
    next = walker_next_record(w);
    if (!block_search_has(s->blocks, walker_record(w), next)) {
        return false;
    }
    found = find_in_block(w, s->addresses, s->n, s->forward,
                          s->forward ? 0 : size_of(w));
    if (found >= 0) {
        w->spot.number = found;
    }
    return found >= 0;
}

static struct tried *tried_of(struct walker_search *s, unsigned vcpu)
{
    gpointer key = GUINT_TO_POINTER(vcpu);
    struct tried *t = g_hash_table_lookup(s->tried, key);

    if (!t) {
        t = g_new0(struct tried, 1);
        t->hits = g_array_new(FALSE, FALSE, sizeof(uint64_t));
        g_hash_table_insert(s->tried, key, t);
    }
    return t;
}

/* The piece of a run next to @at that may have one of the addresses */
static bool next_piece(struct walker_search *s, struct tried *t,
                       const struct lane_run *run, uint64_t at,
                       uint64_t *begin, uint64_t *end)
{
    at = s->forward ? MAX(at, run->begin) : MIN(at, run->end);
    /* The answer holds for all that is between it and what was asked. */
    if (!t->any || (s->forward ? at < t->asked || (!t->none && at >= t->end) :
                    at > t->asked || (!t->none && at <= t->begin))) {
        t->any = true;
        t->asked = at;
        t->none = !(s->forward ? btrail_trace_next_ran : btrail_trace_last_ran)
            (s->w->trace, run->vcpu, s->addresses, s->n, at, &t->begin,
             &t->end);
    }
    if (t->none) {
        return false;
    }
    *begin = MAX(t->begin, s->forward ? at : run->begin);
    *end = MIN(t->end, s->forward ? run->end : at);
    return *begin < *end;
}

/* In one run, from @at on or before it */
static enum walker_answer search_run(struct walker_search *s, size_t number,
                                     uint64_t at)
{
    const struct lane_run *run = &g_array_index(lane_runs(s->w->lane),
                                                struct lane_run, number);
    struct tried *t = tried_of(s, run->vcpu);
    uint64_t begin, end, found;

    while (next_piece(s, t, run, at, &begin, &end)) {
        if (!s->go_on(s->opaque)) {
            return WALKER_INTERRUPTED;
        }
        if (!next_hit(s, t, run, begin, end, &found)) {
            at = s->forward ? end : begin;
        } else if (stand_in(s, number, found)) {
            return WALKER_FOUND;
        } else {
            /* It is within an instruction, or was interrupted. */
            at = s->forward ? found + 1 : found < end ? found : begin;
        }
    }
    return WALKER_END;
}

static enum walker_answer search_runs(struct walker_search *s,
                                      const struct walker_spot *from)
{
    size_t n = lane_runs(s->w->lane)->len;
    enum walker_answer answer = WALKER_END;
    uint64_t at = from->at.index + (s->forward ? 2 : 1);

    for (size_t run = from->at.run; run < n && answer == WALKER_END;
         run += s->forward ? 1 : -1) {
        answer = search_run(s, run, at);
        at = s->forward ? 0 : UINT64_MAX;
        if (!(run % 256) && !s->go_on(s->opaque)) {
            answer = WALKER_INTERRUPTED;
        }
    }
    return answer;
}

/* Where the lane begins or ends */
static void go_to_end(struct walker *w, bool forward)
{
    const GArray *runs = lane_runs(w->lane);
    size_t run = forward ? runs->len - 1 : 0;
    const struct lane_run *r = &g_array_index(runs, struct lane_run, run);
    const struct walker_spot spot = {
        { run, forward ? r->end - 1 : r->begin }, 0,
    };

    walker_go(w, &spot);
}

enum walker_answer walker_search(struct walker *w, const uint64_t *addresses,
                                 size_t n, bool forward,
                                 bool (*go_on)(void *opaque), void *opaque)
{
    const struct walker_spot from = w->spot;
    g_autoptr(GArray) sorted = btrail_sorted_u64(addresses, n);
    struct walker_search s = {
        .w = w, .from = from.at, .addresses = (const uint64_t *)sorted->data,
        .n = sorted->len, .forward = forward, .go_on = go_on,
        .opaque = opaque,
    };
    int here = find_in_block(w, s.addresses, s.n, forward,
                             from.number + forward);
    enum walker_answer answer;

    if (!walker_spot(w)) {
        return WALKER_END;
    }
    if (here >= 0) {
        w->spot.number = here;
        return WALKER_FOUND;
    }
    if (!n) {
        go_to_end(w, forward);
        return WALKER_END;
    }
    s.tried = g_hash_table_new_full(NULL, NULL, NULL, free_tried);
    s.blocks = block_search_new(w->symbols, s.addresses, s.n);
    answer = search_runs(&s, &from);
    if (answer == WALKER_END) {
        go_to_end(w, forward);
        /* The last instruction, which nothing follows, is in no block. */
        if (forward && find_in_block(w, s.addresses, s.n, true, 0) >= 0 &&
            lane_before(&from.at, &w->spot.at)) {
            answer = WALKER_FOUND;
        }
    } else if (answer == WALKER_INTERRUPTED) {
        walker_go(w, &from);
    }
    g_hash_table_unref(s.tried);
    block_search_free(s.blocks);
    btrail_cursor_close(s.cursor);
    return answer;
}

static enum effect find_effect(struct walker *w, struct stack_edges *edges)
{
    const struct lane_record *r = walker_record(w);
    const struct symbolizer_where where = lane_where(r);
    const struct stack_edge *e = stack_edges_get(edges, r->process, &where,
                                                 &r->record);

    /* What is interrupted can be a call or return, too. */
    if (block_delivery(w->symbols, r)) {
        return EFFECT_CALL;
    }
    switch (e->kind) {
    case STACK_EDGE_CALL:
    case STACK_EDGE_ENTRY:
    case STACK_EDGE_INTERRUPT:
        return EFFECT_CALL;
    case STACK_EDGE_IRET:
    case STACK_EDGE_EXIT:
        return EFFECT_RETURN;
    case STACK_EDGE_RET:
        return EFFECT_RET;
    default:
        return EFFECT_NONE;
    }
}

/* What the record after which it is does */
static enum effect effect_here(struct walker *w, struct stack_edges *edges)
{
    const struct lane_record *r = walker_record(w);
    uint64_t hash = btrail_hash2(r->record.from, r->record.to);
    struct kind *k;

    if (!w->kinds) {
        w->kinds = g_new0(struct kind, 1u << KINDS_BITS);
    }
    k = &w->kinds[hash >> (64 - KINDS_BITS)];
    if (k->effect == EFFECT_UNKNOWN || k->from != r->record.from ||
        k->to != r->record.to || k->process != r->process) {
        *k = (struct kind) { r->record.from, r->record.to, r->process,
                             find_effect(w, edges) };
    }
    if (k->effect != EFFECT_RET) {
        return k->effect;
    }
    /* The record before it need not be kept. */
    if (!w->here) {
        const struct lane_at at = w->spot.at;

        load(w, &at);
    }
    /* The call of a retpoline is a jump to the classifier of edges. */
    return w->here > 0 && block_retpoline(w->symbols, record(w, w->here - 1),
                                          walker_record(w)) ?
           EFFECT_NONE : EFFECT_RETURN;
}

/* Goes to a stop of the block, as find_in_block(); false if it has none. */
static bool stop_in_block(struct walker *w, const struct walker_stops *stops,
                          bool forward, unsigned from)
{
    const struct lane_record *next = walker_next_record(w);
    int found;

    /* Most blocks need not be decoded. */
    if (next && !next->lost &&
        !has_address(stops->addresses, stops->n, walker_record(w)->record.to,
                     next->record.from)) {
        return false;
    }
    found = find_in_block(w, stops->addresses, stops->n, forward,
                          MIN(from, size_of(w)));
    if (found >= 0) {
        w->spot.number = found;
    }
    return found >= 0;
}

bool walker_at_stop(struct walker *w, const struct walker_stops *stops)
{
    uint64_t pc = walker_pc(w);

    return walker_spot(w) && has_address(stops->addresses, stops->n, pc, pc);
}

static bool has_patience(const struct walker_stops *stops, uint64_t left)
{
    return left && (left % PATIENCE || stops->go_on(stops->opaque));
}

/*
 * What is known of the stack depends on how far before it is followed from:
 * these many records, and how many times more the next time.
 */
#define NEAR        8192u
#define FARTHER     16
/*
 * A function whose call is not known within these has been running long, and
 * which stack is the right one need not be known from farther before, either.
 */
#define NEARBY      (2u << 20)

/* Calls that records have ended, within the last ones that were looked at */
struct ended {
    struct lane_at by;
    struct lane_at call;
};

static struct lane_stack *stack_of(struct walker *w, struct stack_edges *edges)
{
    if (!w->stack) {
        w->stack = lane_stack_new(w->lane, w->symbols, edges);
        w->ended = g_array_new(FALSE, FALSE, sizeof(struct ended));
    }
    return w->stack;
}

/* Follows the stack up to a record, from this many before it on. */
static bool follow_from(struct walker *w, struct stack_edges *edges,
                        const struct lane_at *at, uint64_t back)
{
    struct lane_stack *s = stack_of(w, edges);

    lane_stack_begin(s, at, back);
    return lane_stack_follow(s, at);
}

/* The stack after a record, if it is followed to close before that */
static bool is_followed(struct walker *w, const struct lane_at *at)
{
    const struct lane_record *last = w->stack ? lane_stack_last(w->stack) :
                                                NULL;

    if (!last || last->at.run != at->run || last->at.index > at->index ||
        at->index - last->at.index > NEAR) {
        return false;
    }
    return last->at.index == at->index ||
           (lane_stack_follow(w->stack, at) && lane_stack_next(w->stack));
}

/* Does a record return, if no call is known that does? */
static bool returns(const struct stack_edge *e,
                    const struct stack_state *before)
{
    return !before->replaced &&
           (e->kind == STACK_EDGE_RET || e->kind == STACK_EDGE_IRET ||
            e->kind == STACK_EDGE_EXIT);
}

/**
 * enum call_found - what is known of a call
 * @FOUND_NONE:   the record is none that a call ends with
 * @FOUND_CALL:   where it is
 * @FOUND_UNSURE: more would have to be known of the stack
 */
enum call_found {
    FOUND_NONE,
    FOUND_CALL,
    FOUND_UNSURE,
};

/*
 * Which calls have ended with the record that is followed next?  @way: of the
 * record, backwards.  @guess: be content if it may be another stack
 */
static enum call_found find_ended(struct walker *w, bool guess,
                                  enum walker_way *way, struct lane_at *call)
{
    struct lane_stack *s = w->stack;
    const struct stack_state before = lane_stack_state(s);
    const struct lane_record *r = lane_stack_next(s);
    struct stack_state now;
    uint32_t number;

    if (!r) {
        return FOUND_NONE;
    }
    now = lane_stack_state(s);
    number = now.begins ? now.call : now.ended;
    *way = now.begins ? WALKER_CALLER : WALKER_CALLEE;
    if (number) {
        *call = lane_stack_where(s, number);
        return guess || number > now.guessed ? FOUND_CALL : FOUND_UNSURE;
    }
    if (now.begins || now.strays ||
        (!now.depth && returns(lane_stack_edge(s), &before))) {
        if (!now.whole) {
            return FOUND_UNSURE;
        }
        /* The program has begun this stack. */
        *way = WALKER_CALLER;
    }
    return FOUND_NONE;
}

/* What was found for a record when a later one was looked at */
static bool is_noted(const struct walker *w, const struct lane_at *by,
                     struct lane_at *call)
{
    size_t low = 0, high = w->ended ? w->ended->len : 0;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct ended *e = &g_array_index(w->ended, struct ended, middle);

        if (lane_before(&e->by, by)) {
            low = middle + 1;
        } else if (lane_before(by, &e->by)) {
            high = middle;
        } else {
            *call = e->call;
            return true;
        }
    }
    return false;
}

/* Is what may be another stack taken for the right one? */
static bool is_content(const struct walker *w, uint64_t back, uint64_t limit)
{
    return back >= MIN(limit, NEARBY) || lane_stack_whole(w->stack);
}

/* The same as find_ended(), of record @at, and notes what is found before it */
static enum call_found look_near(struct walker *w, struct stack_edges *edges,
                                 const struct lane_at *at, uint64_t limit,
                                 enum walker_way *way, struct lane_at *call)
{
    const struct lane_record *last;
    enum call_found found;

    lane_stack_begin(stack_of(w, edges), at, NEAR);
    g_array_set_size(w->ended, 0);
    do {
        found = find_ended(w, is_content(w, NEAR, limit), way, call);
        last = lane_stack_last(w->stack);
        if (last && found == FOUND_CALL && *way == WALKER_CALLEE) {
            const struct ended e = { last->at, *call };

            g_array_append_val(w->ended, e);
        }
    } while (last && lane_before(&last->at, at));
    return last ? found : FOUND_UNSURE;
}

/*
 * Goes back to a stop, in blocks after records from @until on; @before: this
 * instruction of the block where it is
 */
static bool back_to_stop(struct walker *w, const struct walker_stops *stops,
                         const struct lane_at *until, unsigned before)
{
    for (uint64_t n = 1; stops->n && !lane_before(&w->spot.at, until); n++) {
        if (stop_in_block(w, stops, false, before)) {
            return true;
        }
        if (walker_record(w)->lost || !has_patience(stops, n) ||
            !move(w, -1)) {
            break;
        }
        before = UINT_MAX;
    }
    return false;
}

/*
 * Goes to before a call; false if that is not known.  @at_once: also where what
 * was called, or where it returned to, was interrupted before it did anything
 */
static bool go_to_call(struct walker *w, const struct lane_at *call,
                       bool at_once)
{
    if (!load(w, call) || walker_record(w)->lost ||
        !(at_once ? move(w, -1) : move_on(w, -1))) {
        return false;
    }
    w->spot.number = MAX(size_of(w), 1) - 1;
    return true;
}

/* Is nothing more known of the stack if it is followed from farther before? */
static bool is_farthest(const struct walker *w, uint64_t back, uint64_t limit,
                        const struct walker_stops *stops)
{
    return back >= limit || lane_stack_whole(w->stack) ||
           !stops->go_on(stops->opaque);
}

/* To a call from @from on, unless there is a stop in between */
static enum walker_way back_to_call(struct walker *w,
                                    const struct walker_stops *stops,
                                    const struct walker_spot *from,
                                    const struct lane_at *call, bool at_once)
{
    return back_to_stop(w, stops, call, from->number) ? WALKER_STOP :
           go_to_call(w, call, at_once) ? WALKER_CALLER : WALKER_NOWHERE;
}

enum walker_way walker_caller(struct walker *w, struct stack_edges *edges,
                              uint64_t limit, const struct walker_stops *stops)
{
    const struct walker_spot from = w->spot;
    enum walker_way way = WALKER_NOWHERE;

    if (!walker_record(w)) {
        return WALKER_NOWHERE;
    }
    for (uint64_t back = MIN(NEAR, limit);;
         back = MIN(back * FARTHER, limit)) {
        struct lane_at call = lane_back(w->lane, from.at, back);
        struct stack_state s = { 0 };

        if (follow_from(w, edges, &from.at, back) &&
            lane_stack_next(w->stack)) {
            s = lane_stack_state(w->stack);
        }
        if (s.call && (s.call > s.guessed || is_content(w, back, limit))) {
            call = lane_stack_where(w->stack, s.call);
            way = back_to_call(w, stops, &from, &call, false);
            break;
        }
        if (back_to_stop(w, stops, &call, w->spot.number)) {
            way = WALKER_STOP;
            break;
        }
        if ((s.whole && !s.depth) || is_farthest(w, back, limit, stops)) {
            break;
        }
    }
    if (way == WALKER_NOWHERE) {
        walker_go(w, &from);
    }
    return way;
}

/* A stop in the block between two records, which may be known */
static bool stop_between(struct walker *w, const struct walker_stops *stops,
                         const struct lane_at *begin,
                         const struct lane_record *next, uint64_t pc)
{
    return stops->n &&
           (!next || next->lost ||
            has_address(stops->addresses, stops->n, pc, next->record.from)) &&
           load(w, begin) && stop_in_block(w, stops, true, 0);
}

/**
 * struct way_out - of a function
 * @own:      the stack in it
 * @landing:  where it has led to, if it is @out
 * @farthest: nothing more would be known from farther before
 * @content:  it is enough to guess which stack continues
 */
struct way_out {
    struct stack_state own;
    struct stack_state landing;
    bool out;
    bool farthest;
    bool content;
};

/* Follows the way with one record; false if its end cannot be known. */
static bool follow_out(struct way_out *o, const struct stack_state *before,
                       const struct stack_state *now,
                       const struct stack_edge *e)
{
    bool mine = before->stack == o->own.stack;

    if (o->out) {
        return true;
    }
    if (mine && now->strays &&
        (!o->farthest || now->stack == o->own.stack)) {
        return false;
    }
    if (!o->own.depth) {
        o->out = mine && !before->depth && returns(e, before);
    } else if (now->stack == o->own.stack) {
        o->out = now->depth < o->own.depth ||
                 (o->own.handler && now->depth == o->own.depth &&
                  !now->handler);
    }
    if (o->out) {
        o->landing = *now;
        return o->content || now->guessed == o->own.guessed;
    }
    return true;
}

/* Is it where the way has led to, if that was interrupted at once? */
static bool has_landed(const struct way_out *o, const struct stack_state *now)
{
    return o->out && now->stack == o->landing.stack &&
           now->depth <= o->landing.depth;
}

/* As walker_return(), with what is known; WALKER_SAME: that is not enough. */
static enum walker_way go_out(struct walker *w, struct way_out *o,
                              uint64_t limit, const struct walker_stops *stops)
{
    struct stack_state before = o->own;
    struct lane_at at = w->spot.at;
    uint64_t pc = walker_record(w)->record.to;
    bool first = true;

    for (; has_patience(stops, limit); limit--) {
        const struct lane_record *r = lane_stack_next(w->stack);
        struct stack_state now;

        if (!first && stop_between(w, stops, &at, r, pc)) {
            return WALKER_STOP;
        }
        first = false;
        if (!r || r->lost) {
            break;
        }
        at = r->at;
        pc = r->record.to;
        now = lane_stack_state(w->stack);
        if (!follow_out(o, &before, &now, lane_stack_edge(w->stack))) {
            return o->farthest ? WALKER_NOWHERE : WALKER_SAME;
        }
        if (has_landed(o, &now) && load(w, &at) && size_of(w)) {
            return WALKER_CALLER;
        }
        before = now;
    }
    return WALKER_NOWHERE;
}

enum walker_way walker_return(struct walker *w, struct stack_edges *edges,
                              uint64_t limit, const struct walker_stops *stops)
{
    const struct walker_spot from = w->spot;
    enum walker_way way = WALKER_SAME;
    uint64_t back = 0;
    bool known;

    if (!walker_record(w)) {
        return WALKER_NOWHERE;
    }
    if (stop_in_block(w, stops, true, from.number + 1)) {
        return WALKER_STOP;
    }
    for (known = is_followed(w, &from.at); way == WALKER_SAME; known = false) {
        struct way_out out = { .out = false };

        if (!known) {
            back = MIN(back ? back * FARTHER : NEAR, limit);
            known = follow_from(w, edges, &from.at, back) &&
                    lane_stack_next(w->stack);
        }
        if (!known) {
            way = WALKER_NOWHERE;
            break;
        }
        out.own = lane_stack_state(w->stack);
        out.farthest = is_farthest(w, back, limit, stops);
        out.content = is_content(w, back, limit);
        if (out.own.call || out.farthest || back >= NEARBY) {
            load(w, &from.at);
            way = go_out(w, &out, limit, stops);
        }
    }
    if (way == WALKER_NOWHERE) {
        walker_go(w, &from);
    }
    return way;
}

/* Can a record end calls? */
static bool can_end(struct walker *w, struct stack_edges *edges)
{
    const struct lane_record *r = walker_record(w);
    const struct symbolizer_where where = lane_where(r);
    const struct stack_edge *e;

    if (effect_here(w, edges) == EFFECT_RETURN) {
        return true;
    }
    e = stack_edges_get(edges, r->process, &where, &r->record);
    return e->kind == STACK_EDGE_JUMP_FAR && !e->start &&
           e->from_fn != e->to_fn && e->to < ADDRESS_SHARED;
}

/* Where the call is that has ended here, as find_ended() */
static enum call_found look_back(struct walker *w, struct stack_edges *edges,
                                 uint64_t limit,
                                 const struct walker_stops *stops,
                                 enum walker_way *way, struct lane_at *call)
{
    const struct lane_at at = w->spot.at;
    enum call_found found;

    *way = WALKER_CALLEE;
    if (is_noted(w, &at, call)) {
        return FOUND_CALL;
    }
    found = look_near(w, edges, &at, limit, way, call);
    for (uint64_t back = NEAR; found == FOUND_UNSURE &&
                               !is_farthest(w, back, limit, stops);) {
        back = MIN(back * FARTHER, limit);
        found = !follow_from(w, edges, &at, back) ? FOUND_UNSURE :
                find_ended(w, is_content(w, back, limit), way, call);
    }
    return found;
}

/* The instruction before, also if that is none: see go_to_call() */
static bool back_at_once(struct walker *w)
{
    if (w->spot.number) {
        w->spot.number--;
        return true;
    }
    if (!move(w, -1)) {
        return false;
    }
    w->spot.number = MAX(size_of(w), 1) - 1;
    return true;
}

/* As walker_way_back(), over one record */
static enum walker_way back_one(struct walker *w, struct stack_edges *edges,
                                bool over, uint64_t limit,
                                const struct walker_stops *stops)
{
    const struct walker_spot from = w->spot;
    enum walker_way way = WALKER_SAME;
    enum call_found found = FOUND_NONE;
    struct lane_at call;
    bool lost = walker_record(w)->lost;

    if (!from.number && can_end(w, edges)) {
        found = look_back(w, edges, limit, stops, &way, &call);
        if (found == FOUND_NONE && way == WALKER_CALLEE) {
            way = WALKER_SAME;
        }
    } else if (!from.number && effect_here(w, edges) == EFFECT_CALL) {
        way = WALKER_CALLER;
    }
    if (found == FOUND_CALL && (over || way == WALKER_CALLER)) {
        enum walker_way gone = back_to_call(w, stops, &from, &call, over);

        if (gone != WALKER_NOWHERE) {
            return gone == WALKER_STOP ? gone :
                   way == WALKER_CALLEE ? WALKER_SAME : way;
        }
        load(w, &from.at);
        w->spot.number = from.number;
    }
    /* Not into what somebody wants to go over, if it is not known to where */
    if (over && way == WALKER_CALLEE) {
        return WALKER_NOWHERE;
    }
    if (!(over ? back_at_once(w) : walker_back(w)) ||
        (way != WALKER_SAME && lost)) {
        return WALKER_NOWHERE;
    }
    return way;
}

enum walker_way walker_way_back(struct walker *w, struct stack_edges *edges,
                                bool over, uint64_t limit,
                                const struct walker_stops *stops)
{
    const struct walker_spot from = w->spot;
    enum walker_way way, result = WALKER_SAME;

    if (!walker_record(w)) {
        return WALKER_NOWHERE;
    }
    do {
        way = back_one(w, edges, over, limit, stops);
        result = way == WALKER_SAME ? result : way;
        /* What was called, or returned, was interrupted at once. */
    } while (way != WALKER_NOWHERE && !size_of(w));
    if (way == WALKER_NOWHERE && !size_of(w)) {
        walker_go(w, &from);
    }
    return result;
}

/* The most calls that one instruction leads into: it calls a function that is
 * interrupted at once, and what is called then, too */
#define ENTERED_MAX     4

/**
 * struct way_in
 * @entered: how many calls the way leads into
 * @begins:  of each of them, where it begins
 * @left:    the function where the way begins has ended
 * @lost:    records are missing
 */
struct way_in {
    unsigned entered;
    uint64_t begins[ENTERED_MAX];
    bool left;
    bool lost;
};

static bool add_way_in(struct way_in *in, enum effect effect,
                       const struct lane_record *r)
{
    in->lost |= r->lost;
    if (effect == EFFECT_CALL) {
        if (in->entered == ENTERED_MAX) {
            return false;
        }
        in->begins[in->entered++] = r->record.to;
    } else if (effect == EFFECT_RETURN && in->entered) {
        in->entered--;
    } else {
        in->left |= effect == EFFECT_RETURN;
    }
    return true;
}

/* Out of the calls that a way has led into, of which only the last one ran */
static enum walker_way out_of_all(struct walker *w, struct stack_edges *edges,
                                  uint64_t limit,
                                  const struct walker_stops *stops,
                                  const struct way_in *in)
{
    for (unsigned n = in->entered; n; n--) {
        enum walker_way way;

        /* What was interrupted need not continue: there are signals. */
        if (n < in->entered && walker_pc(w) != in->begins[n - 1]) {
            return WALKER_SAME;
        }
        way = walker_at_stop(w, stops) ? WALKER_STOP :
              walker_return(w, edges, limit, stops);
        if (way != WALKER_CALLER) {
            return way == WALKER_STOP ? way : WALKER_CALLEE;
        }
    }
    return in->left ? WALKER_CALLER : WALKER_SAME;
}

enum walker_way walker_way_on(struct walker *w, struct stack_edges *edges,
                              bool over, uint64_t limit,
                              const struct walker_stops *stops)
{
    const struct walker_spot from = w->spot;
    struct way_in in = { .entered = 0 };

    if (!walker_record(w)) {
        return WALKER_NOWHERE;
    }
    if (from.number + 1 < size_of(w)) {
        w->spot.number++;
        return WALKER_SAME;
    }
    do {
        if (!move(w, 1) ||
            !add_way_in(&in, effect_here(w, edges), walker_record(w))) {
            walker_go(w, &from);
            return WALKER_NOWHERE;
        }
    } while (!size_of(w));
    if (in.lost && (in.entered || in.left)) {
        return WALKER_NOWHERE;
    }
    return !in.entered ? (in.left ? WALKER_CALLER : WALKER_SAME) :
           over ? out_of_all(w, edges, limit, stops, &in) : WALKER_CALLEE;
}
