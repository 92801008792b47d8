/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the guest of a replay has been: see past.h
 */

#include <glib.h>

#include "find/past.h"
#include "lib/agent/trace-files.h"
#include "util/search.h"
#include "util/sort.h"

/* The most visits that are kept until it is asked whether they count */
#define KEPT    1024

/* What TIME events say */
struct past_mark {
    uint64_t index;
    uint64_t icount;
};

/* A vCPU */
struct past_lane {
    unsigned vcpu;
    struct btrail_cursor *cursor;
    GArray *marks;
    /* The answer of past_at() for instructions [last.count, last_until) */
    struct past_place last;
    uint64_t last_until;
};

struct past {
    const struct btrail_trace *trace;
    struct past_lane lanes[BTRAIL_MAX_VCPUS];
    unsigned n;
};

static bool read_marks(struct past_lane *l, const struct btrail_trace *trace)
{
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    int ret = btrail_cursor_open(&cursor, trace, l->vcpu,
                                 BTRAIL_CURSOR_EVENTS_ONLY);

    if (ret) {
        return false;
    }
    while (!(ret = btrail_cursor_next(cursor, &b))) {
        const struct past_mark mark = { b.index, b.time.icount };

        if (b.event->type == BTRAIL_EVENT_TIME &&
            mark.icount != BTRAIL_NO_ICOUNT &&
            (!l->marks->len || mark.icount >=
             g_array_index(l->marks, struct past_mark,
                           l->marks->len - 1).icount)) {
            g_array_append_val(l->marks, mark);
        }
    }
    btrail_cursor_close(cursor);
    return ret == -BTRAIL_ERR_END;
}

/* Does its first record have a count?  A vCPU need not have records. */
static bool has_counts(struct past_lane *l, bool *any)
{
    struct btrail_batch b;
    int ret;

    do {
        ret = btrail_cursor_next(l->cursor, &b);
    } while (!ret && b.event);
    if (ret) {
        return ret == -BTRAIL_ERR_END;
    }
    *any = true;
    return l->marks->len &&
           btrail_record_icount(b.records, &b.time) != BTRAIL_NO_ICOUNT;
}

struct past *past_new(const struct btrail_trace *trace)
{
    struct past *h = g_new0(struct past, 1);
    struct btrail_stream_info info;
    bool any = false, ok = true;

    h->trace = trace;
    for (unsigned i = 0; ok && i < BTRAIL_MAX_VCPUS &&
         !btrail_trace_stream(trace, i, &info); i++) {
        struct past_lane *l = &h->lanes[h->n++];

        l->vcpu = info.vcpu;
        l->marks = g_array_new(FALSE, FALSE, sizeof(struct past_mark));
        ok = !btrail_cursor_open(&l->cursor, trace, info.vcpu, 0) &&
             read_marks(l, trace) && has_counts(l, &any);
    }
    if (!ok || !any) {
        past_free(h);
        return NULL;
    }
    return h;
}

void past_free(struct past *h)
{
    if (h) {
        for (unsigned i = 0; i < h->n; i++) {
            btrail_cursor_close(h->lanes[i].cursor);
            g_array_unref(h->lanes[i].marks);
        }
        g_free(h);
    }
}

static struct past_lane *lane_of(struct past *h, unsigned vcpu)
{
    for (unsigned i = 0; i < h->n; i++) {
        if (h->lanes[i].vcpu == vcpu) {
            return &h->lanes[i];
        }
    }
    return NULL;
}

/* How many records of a batch were there when an instruction was reached */
static size_t records_up_to(const struct btrail_batch *b, uint64_t icount)
{
    size_t low = 0, high = b->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (btrail_record_icount(&b->records[middle], &b->time) <= icount) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool past_at(struct past *h, unsigned vcpu, uint64_t icount,
             struct past_place *place)
{
    struct past_lane *l = lane_of(h, vcpu);
    struct btrail_batch b;
    uint64_t from, until = UINT64_MAX;
    bool any = false;
    unsigned n;

    if (!l) {
        return false;
    }
    if (icount >= l->last.count && icount < l->last_until) {
        *place = l->last;
        return true;
    }
    n = l->marks->len ? BTRAIL_UP_TO(l->marks->data, l->marks->len,
                                     struct past_mark, icount, icount) : 0;
    from = n < 2 ? 0 : g_array_index(l->marks, struct past_mark, n - 2).index;
    if (btrail_cursor_seek(l->cursor, from)) {
        return false;
    }
    while (!btrail_cursor_next(l->cursor, &b)) {
        size_t i = b.event ? 0 : records_up_to(&b, icount);

        if (i) {
            *place = (struct past_place) {
                b.index + i - 1,
                btrail_record_icount(&b.records[i - 1], &b.time),
                btrail_record_icount(b.records, &b.time),
                btrail_record_icount(&b.records[b.count - 1], &b.time),
                b.time, b.task, b.kernel, b.cr3,
            };
            any = true;
        }
        if (!b.event && i < b.count) {
            until = btrail_record_icount(&b.records[i], &b.time);
            break;
        }
    }
    if (any) {
        l->last = *place;
        l->last_until = until;
    }
    return any;
}

/**
 * struct vcpu_search - in the records of one vCPU
 * @last:   the record before
 * @valid:  there is one, and nothing is missing after it
 * @found:  of struct found_visit, in order: all if there is a @filter, but no
 *          more than KEPT and the last one
 */
struct vcpu_search {
    unsigned vcpu;
    const struct past_filter *filter;
    const uint64_t *addresses;
    unsigned n;
    uint64_t icount;
    uint64_t pc;
    struct btrail_record last;
    uint64_t last_count;
    bool valid;
    bool dropped;
    GArray *found;
};

/* @place: of the record that ends it */
struct found_visit {
    struct past_visit visit;
    struct past_place place;
};

static struct found_visit *last_found(const struct vcpu_search *s)
{
    return s->found->len ? &g_array_index(s->found, struct found_visit,
                                          s->found->len - 1) : NULL;
}

static void add_found(struct vcpu_search *s, const struct past_visit *visit,
                      const struct past_place *place)
{
    struct found_visit *last = last_found(s), add = { *visit, *place };

    if (last && last->visit.start == visit->start &&
        last->visit.to == visit->to) {
        last->visit.at = MAX(last->visit.at, visit->at);
        return;
    }
    if (last && !s->filter) {
        g_array_set_size(s->found, 0);
    } else if (s->found->len == 2 * KEPT) {
        g_array_remove_range(s->found, 0, KEPT);
        s->dropped = true;
    }
    g_array_append_val(s->found, add);
}

static void look(struct vcpu_search *s, const struct btrail_record *r,
                 uint64_t count, const struct past_place *place)
{
    uint64_t to = s->last.to, size = r->from - to;
    /* The vCPU is in this block: what is after it comes later. */
    bool open = count > s->icount;

    for (unsigned i = 0; i < s->n && r->from >= to; i++) {
        uint64_t at = s->addresses[i];

        if (at - to > size || (open && at >= s->pc)) {
            continue;
        }
        add_found(s, &(struct past_visit) { s->last_count, to, count, at },
                  place);
    }
}

static bool is_wanted(const struct vcpu_search *s, const struct found_visit *f)
{
    for (unsigned i = 0; s->filter && i < s->n; i++) {
        uint64_t at = s->addresses[i];

        if (at >= f->visit.to && at <= f->visit.at &&
            s->filter->wanted(s->filter->opaque, s->vcpu, &f->place, at)) {
            return true;
        }
    }
    return !s->filter;
}

/* The last one that counts; @first: gets the first one that does not, if any */
static bool take_wanted(struct vcpu_search *s, struct past_visit *visit,
                        struct found_visit *first)
{
    for (struct found_visit *f; (f = last_found(s));
         g_array_set_size(s->found, s->found->len - 1)) {
        if (is_wanted(s, f)) {
            *visit = f->visit;
            return true;
        }
        *first = *f;
    }
    return false;
}

/*
 * Searches the blocks that begin and end with two of the records [@begin,
 * @end). False if some are missing.
 */
static bool search_within(struct past_lane *l, struct vcpu_search *s,
                          uint64_t begin,
                          uint64_t end)
{
    struct btrail_batch b;

    s->valid = false;
    if (btrail_cursor_seek(l->cursor, begin)) {
        return false;
    }
    while (!btrail_cursor_next(l->cursor, &b)) {
        if (b.event && b.event->type == BTRAIL_EVENT_GAP) {
            return false;
        }
        for (size_t i = 0; !b.event && i < b.count; i++) {
            uint64_t count = btrail_record_icount(&b.records[i], &b.time);

            if (b.index + i >= end) {
                return true;
            }
            if (count == BTRAIL_NO_ICOUNT) {
                return false;
            }
            if (s->valid) {
                const struct past_place place = {
                    .index = b.index + i, .count = count, .time = b.time,
                    .task = b.task, .kernel = b.kernel, .cr3 = b.cr3,
                };

                look(s, &b.records[i], count, &place);
            }
            s->last = b.records[i];
            s->last_count = count;
            s->valid = true;
        }
    }
    return true;
}

/*
 * The same of blocks that end with one of them.  What is before the first one
 * is in another chunk, and is read only if it matters.
 */
static enum past_answer search(struct past_lane *l, struct vcpu_search *s,
                               uint64_t begin, uint64_t end,
                               struct past_visit *visit,
                               struct found_visit *first)
{
    do {
        s->dropped = false;
        if (!search_within(l, s, begin, end)) {
            return PAST_UNKNOWN;
        }
        if (take_wanted(s, visit, first)) {
            return PAST_FOUND;
        }
    /* Those before it were too many. */
        end = first->place.index;
    } while (s->dropped);
    return begin && !search_within(l, s, begin - 1, begin + 1) ? PAST_UNKNOWN :
           take_wanted(s, visit, first) ? PAST_FOUND : PAST_NONE;
}

/*
 * The same of the block that begins with the last record, which is the one in
 * which the vCPU is.  False if more is missing.
 */
static bool search_open(struct past_lane *l, struct vcpu_search *s,
                        const struct past_place *place)
{
    const struct btrail_record here = { .from = s->pc };
    struct btrail_batch b;

    s->valid = false;
    if (btrail_cursor_seek(l->cursor, place->index)) {
        return false;
    }
    while (!btrail_cursor_next(l->cursor, &b)) {
        if (b.event && b.event->type == BTRAIL_EVENT_GAP) {
            s->valid = false;
        } else if (!b.event) {
            s->last = b.records[b.count - 1];
            s->last_count = btrail_record_icount(&b.records[b.count - 1],
                                                 &b.time);
            s->valid = s->last_count <= s->icount;
        }
    }
    if (!s->valid || s->pc < s->last.to) {
        return false;
    }
    look(s, &here, s->icount + 1, place);
    return true;
}

static enum past_answer search_all(struct past *h, struct past_lane *l,
                                   struct vcpu_search *s,
                                   struct past_visit *visit,
                                   struct found_visit *first)
{
    enum past_answer answer = PAST_NONE;
    struct past_place place;
    uint64_t before, begin, end;

    if (!past_at(h, s->vcpu, s->icount, &place)) {
        return PAST_UNKNOWN;
    }
    if (l->last_until == UINT64_MAX && !search_open(l, s, &place)) {
        return PAST_UNKNOWN;
    }
    if (take_wanted(s, visit, first)) {
        return PAST_FOUND;
    }
    /* The record that ends the block in which the vCPU is, too */
    before = place.index + 2;
    while (answer == PAST_NONE &&
           btrail_trace_last_ran(h->trace, s->vcpu, s->addresses, s->n, before,
                                 &begin, &end)) {
        answer = search(l, s, begin, end, visit, first);
        before = begin;
    }
    return answer;
}

enum past_answer past_last_visit(struct past *h, unsigned vcpu,
                                 const uint64_t *addresses, unsigned n,
                                 uint64_t icount, uint64_t pc,
                                 const struct past_filter *filter,
                                 struct past_visit *visit)
{
    g_autoptr(GArray) sorted = btrail_sorted_u64(addresses, n);
    g_autoptr(GArray) found = g_array_new(FALSE, FALSE,
                                          sizeof(struct found_visit));
    struct vcpu_search s = {
        .vcpu = vcpu, .filter = filter,
        .addresses = (const uint64_t *)sorted->data, .n = sorted->len,
        .icount = icount, .pc = pc, .found = found,
    };
    struct found_visit first = { .place.index = UINT64_MAX };
    enum past_answer answer = search_all(h, lane_of(h, vcpu), &s, visit,
                                         &first);

    if (answer == PAST_UNKNOWN && first.place.index != UINT64_MAX) {
        *visit = first.visit;
        answer = PAST_FOUND;
    }
    return answer;
}
