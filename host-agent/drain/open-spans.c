/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Spans that have not ended: see open-spans.h
 */

#include "drain/open-spans.h"

bool open_spans_begin(struct open_spans *s, const struct lasting_call *span)
{
    if (s->n == OPEN_SPANS_MAX) {
        s->deeper++;
        return false;
    }
    s->spans[s->n++] = *span;
    return true;
}

bool open_spans_drop(struct open_spans *s)
{
    if (s->deeper) {
        s->deeper--;
        return true;
    }
    if (!s->n) {
        return false;
    }
    s->n--;
    return true;
}

bool open_spans_end(struct open_spans *s, struct calls_measure *by,
                    uint64_t time, unsigned *found)
{
    if (!s->deeper && s->n) {
        *found += lasting_call_find(&s->spans[s->n - 1], by, time, true);
    }
    return open_spans_drop(s);
}

unsigned open_spans_find(struct open_spans *s, struct calls_measure *by,
                         uint64_t time)
{
    unsigned found = 0;

    for (unsigned i = 0; i < s->n; i++) {
        found += lasting_call_find(&s->spans[i], by, time, false);
    }
    return found;
}

uint64_t open_spans_join(struct open_spans *to, const struct open_spans *from)
{
    uint64_t left_out = 0;

    for (unsigned i = 0; i < from->n; i++) {
        left_out += !open_spans_begin(to, &from->spans[i]);
    }
    to->deeper += from->deeper;
    return left_out;
}

void open_spans_skip(struct open_spans *s, uint64_t ns)
{
    for (unsigned i = 0; i < s->n; i++) {
        lasting_call_skip(&s->spans[i], ns);
    }
}

void open_spans_delay(struct open_spans *s, uint64_t begin, uint64_t time)
{
    for (unsigned i = 0; i < s->n; i++) {
        lasting_call_delay(&s->spans[i], begin, time);
    }
}
