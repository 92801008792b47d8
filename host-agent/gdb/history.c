/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the guest of a replay has been: see history.h
 */

#include <glib.h>

#include "gdb/history.h"
#include "util/search.h"

/* Records that are searched at once: first few, then many */
#define FEW     (1u << 16)
#define MANY    (1u << 22)

/* What TIME events say */
struct mark {
    uint64_t index;
    uint64_t icount;
};

struct history {
    struct btrail_cursor *cursor;
    GArray *marks;
};

static bool read_marks(struct history *h, const struct btrail_trace *trace,
                       unsigned vcpu)
{
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    int ret = btrail_cursor_open(&cursor, trace, vcpu,
                                 BTRAIL_CURSOR_EVENTS_ONLY);

    if (ret) {
        return false;
    }
    while (!(ret = btrail_cursor_next(cursor, &b))) {
        const struct mark mark = { b.index, b.time.icount };

        if (b.event->type == BTRAIL_EVENT_TIME &&
            mark.icount != BTRAIL_NO_ICOUNT &&
            (!h->marks->len || mark.icount >=
             g_array_index(h->marks, struct mark, h->marks->len - 1).icount)) {
            g_array_append_val(h->marks, mark);
        }
    }
    btrail_cursor_close(cursor);
    return ret == -BTRAIL_ERR_END && h->marks->len;
}

/* Does its first record have a count? */
static bool has_counts(struct history *h)
{
    struct btrail_batch b;

    do {
        if (btrail_cursor_next(h->cursor, &b)) {
            return false;
        }
    } while (b.event);
    return btrail_record_icount(b.records, &b.time) != BTRAIL_NO_ICOUNT;
}

struct history *history_new(const struct btrail_trace *trace)
{
    struct history *h = g_new0(struct history, 1);
    struct btrail_stream_info info;

    h->marks = g_array_new(FALSE, FALSE, sizeof(struct mark));
    if (btrail_trace_streams(trace) != 1 ||
        btrail_trace_stream(trace, 0, &info) ||
        btrail_cursor_open(&h->cursor, trace, info.vcpu, 0) ||
        !has_counts(h) || !read_marks(h, trace, info.vcpu)) {
        history_free(h);
        return NULL;
    }
    return h;
}

void history_free(struct history *h)
{
    if (h) {
        btrail_cursor_close(h->cursor);
        g_array_unref(h->marks);
        g_free(h);
    }
}

bool history_at(struct history *h, uint64_t icount,
                struct history_place *place)
{
    unsigned n = BTRAIL_UP_TO(h->marks->data, h->marks->len, struct mark,
                              icount, icount);
    uint64_t from = n < 2 ? 0 :
        g_array_index(h->marks, struct mark, n - 2).index;
    struct btrail_batch b;
    bool any = false;

    if (btrail_cursor_seek(h->cursor, from)) {
        return false;
    }
    while (!btrail_cursor_next(h->cursor, &b)) {
        for (size_t i = 0; !b.event && i < b.count; i++) {
            uint64_t count = btrail_record_icount(&b.records[i], &b.time);

            if (count > icount) {
                return any;
            }
            *place = (struct history_place) {
                b.index + i, count, b.time, b.task, b.cr3,
            };
            any = true;
        }
    }
    return any;
}

/**
 * struct search
 * @last:  the record before
 * @valid: there is one, and nothing is missing behind it
 */
struct search {
    const uint64_t *addresses;
    unsigned n;
    uint64_t icount;
    uint64_t pc;
    struct btrail_record last;
    uint64_t last_count;
    bool valid;
    bool found;
    struct history_visit visit;
};

static void look(struct search *s, const struct btrail_record *r,
                 uint64_t count)
{
    uint64_t to = s->last.to, size = r->from - to;
    /* The guest stands in this block: what is behind it comes later. */
    bool stands = count > s->icount;

    for (unsigned i = 0; i < s->n && r->from >= to; i++) {
        uint64_t at = s->addresses[i];

        if (at - to <= size && !(stands && at >= s->pc) &&
            (!s->found || s->visit.start != s->last_count ||
             s->visit.to != to || at > s->visit.at)) {
            s->visit = (struct history_visit) { s->last_count, to, count,
                                                at };
            s->found = true;
        }
    }
}

/* Searches records [@begin, @end), of which each is the end of a block.  False
 * if some are missing. */
static bool search(struct history *h, struct search *s, uint64_t begin,
                   uint64_t end)
{
    struct btrail_batch b;

    s->valid = false;
    if (btrail_cursor_seek(h->cursor, begin ? begin - 1 : 0)) {
        return false;
    }
    while (!btrail_cursor_next(h->cursor, &b)) {
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
                look(s, &b.records[i], count);
            }
            s->last = b.records[i];
            s->last_count = count;
            s->valid = true;
        }
    }
    return true;
}

enum history_answer history_last_visit(struct history *h,
                                       const uint64_t *addresses, unsigned n,
                                       uint64_t icount, uint64_t pc,
                                       struct history_visit *visit)
{
    struct search s = {
        .addresses = addresses, .n = n, .icount = icount, .pc = pc,
    };
    struct history_place place;
    uint64_t end, many = FEW;

    if (!history_at(h, icount, &place)) {
        return HISTORY_UNKNOWN;
    }
    /* The record that ends the block in which the guest stands, too */
    for (end = place.index + 2; end; end -= MIN(end, many)) {
        many = MIN(many * 4, MANY);
        if (!search(h, &s, end - MIN(end, many), end)) {
            return HISTORY_UNKNOWN;
        }
        if (s.found) {
            *visit = s.visit;
            return HISTORY_FOUND;
        }
    }
    return HISTORY_NONE;
}
