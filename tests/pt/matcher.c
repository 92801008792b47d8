/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Compares what somebody decodes with the truth: see matcher.h
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "matcher.h"

/* After a wrong one, how far to look for where it goes on */
#define AHEAD       256

#define SHOWN       10

void matcher_init(struct matcher *m, struct truth *t, const struct encoded *e)
{
    *m = (struct matcher) {
        .t = t, .e = e, .got = g_new0(uint8_t, t->n + 1),
        .shown = getenv("PT_SHOW") ? SHOWN : 0,
    };
    for (uint64_t i = 0; i < t->n; i++) {
        m->determined += e->known[i] == ENCODE_DETERMINED;
    }
}

void matcher_at_place(struct matcher *m, enum encode_place_kind kind,
                      uint64_t offset)
{
    GArray *places = m->e->places;

    for (unsigned i = m->place; i < places->len; i++) {
        const struct encode_place *p =
            &g_array_index(places, struct encode_place, i);

        if (p->kind == kind && p->offset >= offset) {
            m->at = p->at;
            m->place = i + (kind != ENCODE_PSB);
            return;
        }
    }
}

/* How many places are not behind an offset */
static unsigned places_up_to(const struct matcher *m, uint64_t offset)
{
    GArray *places = m->e->places;
    unsigned low = 0, high = places->len;

    while (low < high) {
        unsigned middle = low + (high - low) / 2;

        if (g_array_index(places, struct encode_place, middle).offset <=
            offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static uint64_t place_at(const struct matcher *m, unsigned i)
{
    return g_array_index(m->e->places, struct encode_place, i).at;
}

void matcher_at_offset(struct matcher *m, uint64_t offset)
{
    unsigned n = places_up_to(m, offset);

    if (n) {
        m->at = MAX(m->at, place_at(m, n - 1));
    }
}

static bool is(const struct matcher *m, uint64_t at, uint64_t from,
               uint64_t to)
{
    const struct truth_record *r = &m->t->r[at];

    return r->from == from && r->to == to;
}

void matcher_search(struct matcher *m, uint64_t offset,
                    const struct btrail_record *r, size_t n)
{
    unsigned next = places_up_to(m, offset);
    uint64_t end = next < m->e->places->len ? place_at(m, next) : m->t->n;

    for (uint64_t at = m->at; at <= end && at + n <= m->t->n; at++) {
        size_t same = 0;

        while (same < n && is(m, at + same, r[same].from, r[same].to)) {
            same++;
        }
        if (same == n) {
            m->at = at;
            return;
        }
    }
}

/* Can one say of this record that it was made?  It goes to what follows it. */
static bool is_quiet(const struct matcher *m, uint64_t at)
{
    const struct truth_record *r = &m->t->r[at];

    return r->to - r->from < 16 && r->to > r->from;
}

void matcher_record(struct matcher *m, uint64_t from, uint64_t to)
{
    uint64_t n = m->t->n, at = m->at;

    /* What cannot be known of, and taken branches that look like none */
    while (at < n && !is(m, at, from, to) &&
           (m->e->known[at] != ENCODE_DETERMINED || is_quiet(m, at))) {
        at++;
    }
    if (at < n && is(m, at, from, to)) {
        m->right++;
        if (m->e->known[at] == ENCODE_LOST && m->extra++ < m->shown) {
            fprintf(stderr, "at %" PRIu64 ": nobody can know of %" PRIx64
                    " -> %" PRIx64 "\n", at, from, to);
        }
        m->got[at] = 1;
        m->at = at + 1;
        return;
    }
    if (m->wrong++ < m->shown) {
        fprintf(stderr, "at %" PRIu64 ": says %" PRIx64 " -> %" PRIx64
                ", but it was %" PRIx64 " -> %" PRIx64 "\n", m->at, from, to,
                at < n ? m->t->r[at].from : 0, at < n ? m->t->r[at].to : 0);
    }
    for (at = m->at; at < n && at < m->at + AHEAD; at++) {
        if (is(m, at, from, to)) {
            m->at = at + 1;
            return;
        }
    }
}

uint64_t matcher_missing(const struct matcher *m)
{
    uint64_t missing = 0;

    for (uint64_t i = 0; i < m->t->n; i++) {
        missing += m->e->known[i] == ENCODE_DETERMINED && !m->got[i] &&
                   !is_quiet(m, i);
    }
    return missing;
}

/* Where something is missing in the stream */
static uint64_t count_holes(const struct matcher *m)
{
    uint64_t holes = 0;

    for (unsigned i = 0; i < m->e->places->len; i++) {
        enum encode_place_kind kind =
            g_array_index(m->e->places, struct encode_place, i).kind;

        holes += kind == ENCODE_OVF || kind == ENCODE_CUT;
    }
    return holes;
}

void matcher_print(const struct matcher *m)
{
    printf("records %" PRIu64 " determined %" PRIu64 " right %" PRIu64
           " missing %" PRIu64 " wrong %" PRIu64 " extra %" PRIu64
           " holes %" PRIu64, m->t->n, m->determined, m->right,
           matcher_missing(m), m->wrong, m->extra, count_holes(m));
}
