/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which pieces of a stream can have a moment that is searched: see candidates.h
 */

#include "find/candidates.h"
#include "lib/agent/trace-files.h"
#include "util/search.h"

/* Where a stream ends; 0 if there is no such stream */
static uint64_t stream_end(const struct candidates *p)
{
    const struct btrail_trace_stream *s = btrail_trace_find_stream(p->trace,
                                                                   p->vcpu);

    return s && s->chunks->len ?
           btrail_entry(s->chunks, s->chunks->len - 1)->end_index : 0;
}

static const uint64_t *addresses(const struct candidates *p)
{
    return p->addresses ? (const uint64_t *)p->addresses->data : NULL;
}

static size_t n_addresses(const struct candidates *p)
{
    return p->addresses ? p->addresses->len : 0;
}

/* Nothing may be searched at all. */
static bool nothing(const struct candidates *p)
{
    return p->addresses && !p->addresses->len;
}

/* The code of a piece runs after the record before each of its records. */
static bool next_by_footprint(const struct candidates *p, uint64_t from,
                              uint64_t end, struct piece *piece)
{
    if (nothing(p)) {
        return false;
    }
    if (from + 1 < end &&
        btrail_trace_next_ran(p->trace, p->vcpu, addresses(p), n_addresses(p),
                              from + 1, &piece->begin, &piece->end)) {
        piece->begin--;
        piece->end--;
        return true;
    }
    /* What ran after the last record is in no chunk. */
    piece->begin = MAX(from, end - 1);
    piece->end = end;
    return !p->blocks && from < end;
}

static bool previous_by_footprint(const struct candidates *p, uint64_t before,
                                  uint64_t end, struct piece *piece)
{
    if (nothing(p) || !before) {
        return false;
    }
    if (before >= end && !p->blocks) {
        piece->begin = end - 1;
        piece->end = end;
        return true;
    }
    if (!btrail_trace_last_ran(p->trace, p->vcpu, addresses(p),
                               n_addresses(p), MIN(before + 1, end),
                               &piece->begin, &piece->end)) {
        return false;
    }
    /* Nothing is before the first record. */
    piece->begin -= !!piece->begin;
    piece->end--;
    return piece->begin < piece->end;
}

/* The first of the other pieces that ends after @from; or NULL */
static const struct piece *next_other(const struct candidates *p, uint64_t from)
{
    size_t n = p->others ? BTRAIL_UP_TO(p->others->data, p->others->len,
                                        struct piece, end, from) : 0;

    return p->others && n < p->others->len ?
           &g_array_index(p->others, struct piece, n) : NULL;
}

/* The last one that begins before @before */
static const struct piece *previous_other(const struct candidates *p,
                                          uint64_t before)
{
    size_t n = p->others && before ?
               BTRAIL_UP_TO(p->others->data, p->others->len, struct piece,
                            begin, before - 1) : 0;

    return n ? &g_array_index(p->others, struct piece, n - 1) : NULL;
}

bool candidates_next(const struct candidates *p, uint64_t from,
                     struct piece *piece)
{
    uint64_t end = stream_end(p);
    const struct piece *other;
    bool found;

    from = MAX(from, p->begin);
    found = from < MIN(end, p->end) && next_by_footprint(p, from, end, piece);
    other = next_other(p, from);
    if (other && (!found || MAX(other->begin, from) < piece->begin)) {
        /* They can overlap; none is searched twice. */
        piece->end = found ? MIN(other->end, piece->begin) : other->end;
        piece->begin = MAX(other->begin, from);
        found = true;
    }
    if (found) {
        piece->end = MIN(piece->end, p->end);
    }
    return found && piece->begin < piece->end;
}

bool candidates_previous(const struct candidates *p, uint64_t before,
                         struct piece *piece)
{
    uint64_t end = stream_end(p);
    const struct piece *other;
    bool found;

    before = MIN(before, MIN(p->end, end));
    found = p->begin < before &&
            previous_by_footprint(p, before, end, piece);
    other = previous_other(p, before);
    if (other && (!found || MIN(other->end, before) > piece->end)) {
        piece->begin = found ? MAX(other->begin, piece->end) : other->begin;
        piece->end = MIN(other->end, before);
        found = true;
    }
    if (found) {
        piece->begin = MAX(piece->begin, p->begin);
    }
    return found && piece->begin < piece->end;
}
