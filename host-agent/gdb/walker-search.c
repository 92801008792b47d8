/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The next instruction of a lane, or the last one before, that has one of some
 * addresses: see walker.h
 */

#include "gdb/walker-parts.h"
#include "lib/agent/trace-files.h"
#include "util/search.h"
#include "util/sort.h"

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
        return walker_has(s->addresses, s->n, to, from);
    }
    return walker_has(s->addresses, s->n, to, to) ||
           walker_has(s->addresses, s->n, from, from);
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

        if (lane_before(&walker_kept(w, middle)->at, at)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low && walker_kept(w, low) &&
        !lane_before(at, &walker_kept(w, low)->at)) {
        walker_stand(w, low);
        return true;
    }
    w->before = s->forward ? WALKER_AROUND : MIN(w->before * 4, WALKER_FAR);
    w->after = s->forward ? MIN(w->after * 4, WALKER_FAR) : WALKER_AROUND;
    return walker_load(w, at);
}

/* Goes to the wanted instruction of the block that ends with a record. */
static bool stand_in(struct walker_search *s, size_t run, uint64_t index)
{
    const struct lane_at end = { run, index };
    const struct lane_record *next;
    struct walker *w = s->w;
    int found;

    if (!go_to_record(s, &end) || !walker_move(w, -1) ||
        !(s->forward ? lane_before(&s->from, &w->spot.at) :
                       lane_before(&w->spot.at, &s->from))) {
        return false;
    }
    next = walker_next_record(w);
    if (!block_search_has(s->blocks, walker_record(w), next)) {
        return false;
    }
    found = walker_find(w, s->addresses, s->n, s->forward,
                        s->forward ? 0 : walker_size(w));
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
    int here = walker_find(w, s.addresses, s.n, forward,
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
        if (forward && walker_find(w, s.addresses, s.n, true, 0) >= 0 &&
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
