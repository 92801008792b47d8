/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Does our decoder say each record that a stream determines, and no other?
 *
 * judge-flow trace=FILE [NAME=VALUE]...; for the names see encode.h.  The
 * decoder gets the bytes in pieces of any size, and the code of that time.  The
 * last line says, in words and numbers, what came of it:
 *
 *   wrong     records that are not the next ones, and were not behind a gap
 *   missing   determined records that did not come: each is in a gap
 *   tail      of these, those behind the last record without a gap
 *   labels    records with another CR3
 *   modes     of another mode than 16 or 32 bits, where their label says it
 *   times     TIME events that are not of the time of their record
 *   bytes     that were neither decoded, skipped nor the host's, or were both
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "matcher.h"
#include "pt/flow.h"

#define PAGE        4096u
#define PIECE       5000
/* So many records behind a gap say where it ends. */
#define RUN         64u
/* Of TSC: no packet says the time of each record. */
#define TIME_SLACK  3000000

struct judge {
    struct truth *t;
    struct encoded e;
    struct matcher m;
    uint8_t page[PAGE];
    uint64_t *rank;             /* determined records before each */
    uint64_t *order;            /* the determined ones */
    uint64_t cr3;
    unsigned bits;              /* of the code */
    bool gap;                   /* what comes next is behind one */
    uint64_t gap_offset;
    uint64_t labels, modes, times, gaps;
    uint64_t shift;
};

/* The code at a moment: the decoder's records and ours have the same order. */
static enum pt_code_result read_code(void *opaque, uint64_t cr3,
                                     uint64_t address,
                                     const struct pt_moment *moment,
                                     struct pt_code *code)
{
    struct judge *j = opaque;
    struct matcher at = j->m;
    uint64_t i, label;

    /*
     * Which record comes first where the decoder has begun last?  And then the
     * one that comes after so many
     */
    at.at = 0;
    matcher_at_offset(&at, moment->since);
    i = j->rank[MIN(at.at, j->t->n)] + moment->records -
        moment->since_records;
    i = i < j->rank[j->t->n] ? j->order[i] : j->t->n;
    i = MIN(i, j->t->n - 1);
    /* The record that comes with a VM entry can be one that is not counted. */
    for (unsigned k = 0; k < 2; k++, i = MIN(i + 1, j->t->n - 1)) {
        label = truth_label(j->t, i);
        code->size = truth_code(j->t, i, label, address - j->shift, j->page,
                                PAGE - address % PAGE);
        if (code->size) {
            break;
        }
    }
    code->bytes = j->page;
    code->tsc = UINT64_MAX;
    /* Ask again: only so code is always that of its time. */
    code->records = moment->records + 1;
    if (!code->size && j->m.shown) {
        fprintf(stderr, "no code at %" PRIx64 " for record %" PRIu64
                ", of %" PRIu64 " made\n", address, i, moment->records);
    }
    return code->size ? PT_CODE_READ : PT_CODE_UNREADABLE;
}

static void take_event(struct judge *j, const struct pt_flow_event *e)
{
    uint64_t tsc;

    switch (e->type) {
    case PT_FLOW_CR3:
        j->cr3 = e->value;
        j->bits = e->bits;
        break;
    case PT_FLOW_TIME:
        tsc = truth_tsc(j->t, MIN(j->m.at, j->t->n - 1));
        j->times += !j->gap && (tsc > e->value + TIME_SLACK ||
                                e->value > tsc + TIME_SLACK);
        break;
    case PT_FLOW_GAP:
        j->gap = true;
        j->gap_offset = e->offset;
        j->gaps++;
        if (j->gaps < j->m.shown) {
            fprintf(stderr, "gap at %" PRIu64 ", byte %" PRIu64 ": %s\n",
                    j->m.at, e->offset, pt_gap_name(e->gap));
        }
        break;
    }
}

static void take(void *opaque, const struct btrail_record *records, size_t n,
                 const struct pt_flow_event *events, size_t n_events)
{
    struct judge *j = opaque;

    for (size_t i = 0; i <= n; i++) {
        while (n_events && events->at <= i) {
            take_event(j, events++);
            n_events--;
        }
        if (i == n) {
            break;
        }
        if (j->gap) {
            uint64_t end = n_events ? events->at : n;

            matcher_at_offset(&j->m, j->gap_offset);
            if (!j->shift) {
                matcher_search(&j->m, j->gap_offset, records + i,
                               MIN(end - i, RUN));
            }
            j->gap = false;
        }
        matcher_record(&j->m, records[i].from - j->shift,
                       records[i].to - j->shift);
        if (j->m.at) {
            uint64_t label = truth_label(j->t, j->m.at - 1);

            j->labels += truth_pip(label) && truth_pip(label) != j->cr3;
            j->modes += btrail_cr3_code_bits(label) &&
                        btrail_cr3_code_bits(label) != j->bits;
        }
    }
}

static void feed(struct judge *j, struct pt_flow *f, GRand *rand)
{
    uint64_t at = 0, size = j->e.bytes->len;
    unsigned place = 0;

    while (at < size) {
        uint64_t n = g_rand_int_range(rand, 1, PIECE);

        n = MIN(n, size - at);
        while (place < j->e.places->len) {
            const struct encode_place *p =
                &g_array_index(j->e.places, struct encode_place, place);

            if (p->kind == ENCODE_CUT && p->offset == at && at) {
                pt_flow_missing(f);
            } else if (p->kind == ENCODE_CUT && p->offset > at) {
                n = MIN(n, p->offset - at);
                break;
            }
            place++;
        }
        pt_flow_feed(f, j->e.bytes->data + at, n);
        at += n;
    }
    pt_flow_finish(f);
}

int main(int argc, char **argv)
{
    struct truth t;
    struct judge j = { .t = &t };
    struct arguments a;
    struct pt_flow_options o = { .linear = true, .modes = true };
    const struct pt_flow_count *count;
    struct pt_flow *f;
    uint64_t tail = 0;

    arguments_encode(&a, argc, argv, &t, &j.e);
    matcher_init(&j.m, &t, &j.e);
    j.rank = g_new(uint64_t, t.n + 1);
    j.order = g_new(uint64_t, j.m.determined + 1);
    j.rank[0] = 0;
    for (uint64_t i = 0; i < t.n; i++) {
        bool is = j.e.known[i] == ENCODE_DETERMINED;

        j.order[j.rank[i]] = i;
        j.rank[i + 1] = j.rank[i] + is;
    }
    j.order[j.m.determined] = t.n;
    j.shift = a.o.shift;
    o.returns = a.o.ret != ENCODE_RET_ALL_TIP;
    o.keep_returns = a.o.ret == ENCODE_RET_POP_COMPRESSED;
    o.trust_overflow = getenv("PT_TRUST");
    o.tsc_per_ctc[0] = a.o.mtc >= 0 ? 125 : 0;
    o.tsc_per_ctc[1] = 1;
    o.mtc_shift = MAX(a.o.mtc, 0);
    f = pt_flow_new(&o, read_code, &j, take, &j);
    feed(&j, f, g_rand_new_with_seed(a.o.seed));
    count = pt_flow_counted(f);
    for (uint64_t i = j.m.at; i < t.n && !j.gap; i++) {
        tail += j.e.known[i] == ENCODE_DETERMINED;
    }
    matcher_print(&j.m);
    printf(" tail %" PRIu64 " gaps %" PRIu64 " labels %" PRIu64
           " modes %" PRIu64 " times %" PRIu64 " bytes %" PRId64 "\n", tail,
           j.gaps, j.labels, j.modes, j.times,
           (int64_t)(count->decoded + count->skipped + count->host) -
           (int64_t)j.e.bytes->len);
    pt_flow_free(f);
    return 0;
}
