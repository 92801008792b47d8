/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The spans between two marks that a thread has begun and not ended
 *
 * They are those of report --between with --pair=thread, see find/spans.h: a
 * mark B ends the last one that has begun and has not ended, and a mark that is
 * both A and B ends one and begins the next one.
 *
 * The guest decides how deep they nest.  Those in OPEN_SPANS_MAX others are
 * counted and not measured, so that each B still ends its own.
 */

#ifndef BTRAIL_OPEN_SPANS_H
#define BTRAIL_OPEN_SPANS_H

#include "drain/lasting-call.h"

#define OPEN_SPANS_MAX  8

/**
 * struct open_spans
 * @spans:  @n of them, the last one last
 * @deeper: in these, and not measured
 */
struct open_spans {
    struct lasting_call spans[OPEN_SPANS_MAX];
    unsigned n;
    uint64_t deeper;
};

/* False if it is one that is not measured. */
bool open_spans_begin(struct open_spans *s, const struct lasting_call *span);

/*
 * There was a B at @time.  False if none was open.  @found grows if the span
 * was too long, and has not been found before.
 */
bool open_spans_end(struct open_spans *s, struct calls_measure *by,
                    uint64_t time, unsigned *found);

/* There was a B at a time that is not known.  False if none was open. */
bool open_spans_drop(struct open_spans *s);

/* Those that are open at @time, and are too long; each only once */
unsigned open_spans_find(struct open_spans *s, struct calls_measure *by,
                         uint64_t time);

/* @from continues what @to has: its spans are in those.  Returns how many of
 * them are not measured any more. */
uint64_t open_spans_join(struct open_spans *to, const struct open_spans *from);

/* As those of lasting-call.h, of all */
void open_spans_skip(struct open_spans *s, uint64_t ns);
void open_spans_delay(struct open_spans *s, uint64_t begin, uint64_t time);

#endif /* BTRAIL_OPEN_SPANS_H */
