/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Spans: the records between CR3 events
 */

#include <glib.h>

#include "lib/agent/trace-files.h"
#include "lib/internal/block.h"

struct btrail_spans {
    struct btrail_cursor *cursor;
    bool all;
    uint64_t root;              /* the address space, unless @all */
    bool begun;                 /* @span is valid */
    struct btrail_span span;    /* the current one */
};

int btrail_spans_open(struct btrail_spans **spans,
                      const struct btrail_trace *trace, unsigned vcpu,
                      uint64_t cr3, unsigned flags)
{
    struct btrail_cursor *cursor;
    struct btrail_spans *s;
    int ret;

    if (!spans || (flags & ~BTRAIL_SPANS_OF_SPACE)) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    ret = btrail_cursor_open(&cursor, trace, vcpu, BTRAIL_CURSOR_COUNTS_ONLY);
    if (ret) {
        return ret;
    }
    s = g_new0(struct btrail_spans, 1);
    s->cursor = cursor;
    s->all = !(flags & BTRAIL_SPANS_OF_SPACE);
    s->root = btrail_cr3_root(cr3);
    s->span.vcpu = vcpu;
    *spans = s;
    return 0;
}

void btrail_spans_close(struct btrail_spans *s)
{
    if (s) {
        btrail_cursor_close(s->cursor);
        g_free(s);
    }
}

uint64_t btrail_spans_bad_chunks(const struct btrail_spans *s)
{
    return s ? btrail_cursor_bad_chunks(s->cursor) : 0;
}

static bool matches(const struct btrail_spans *s)
{
    return s->all || btrail_cr3_root(s->span.cr3) == s->root;
}

/* Ends the current span; true if the caller asked for such a span. */
static bool finish(struct btrail_spans *s, struct btrail_span *span)
{
    bool wanted = s->begun && s->span.end_index != s->span.first_index &&
                  matches(s);

    if (wanted) {
        *span = s->span;
    }
    s->begun = false;
    return wanted;
}

/* Begins a span, whose first batch is @b. */
static void begin(struct btrail_spans *s, const struct btrail_batch *b)
{
    s->begun = true;
    s->span = (struct btrail_span) {
        .vcpu = s->span.vcpu, .cr3 = b->cr3, .first_index = b->index,
        .end_index = b->index, .first = b->time, .last = b->time,
    };
}

static void add(struct btrail_spans *s, const struct btrail_batch *b)
{
    if (b->count) {
        if (!s->span.records) {
            s->span.first = b->time;
        }
        s->span.last = b->time;
        s->span.records += b->count;
        s->span.end_index = b->index + b->count;
    } else if (btrail_event_is_known_gap(b->event)) {
        s->span.lost += b->event->data[0];
        s->span.end_index = b->event->index;
    }
}

int btrail_spans_step(struct btrail_spans *s, struct btrail_batch *b,
                      struct btrail_span *span, bool *done)
{
    int ret = btrail_cursor_next(s->cursor, b);

    *done = false;
    if (ret) {
        *done = ret == -BTRAIL_ERR_END && finish(s, span);
        return ret;
    }
    /*
     * What the file lacks belongs to the span before: that is the CR3 that is
     * known to have been in force there.
     */
    if ((b->event && b->event->type == BTRAIL_EVENT_CR3) ||
        (!b->synthetic && b->cr3 != s->span.cr3)) {
        *done = finish(s, span);
    }
    if (!s->begun) {
        begin(s, b);
    }
    add(s, b);
    if (!matches(s)) {
        btrail_cursor_pass_over(s->cursor, s->root);
    }
    return 0;
}

int btrail_spans_next(struct btrail_spans *s, struct btrail_span *span)
{
    struct btrail_batch b;
    bool done;
    int ret;

    if (!s || !span) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    do {
        ret = btrail_spans_step(s, &b, span, &done);
    } while (!ret && !done);
    return done ? 0 : ret;
}
