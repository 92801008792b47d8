/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Is what a trace says of a vCPU what it did?
 *
 * judge-trace trace=FILE given=FILE [NAME=VALUE]...: the truth, and the trace
 * that was decoded of the stream that pt-encode has made with the same names
 * and values; see encode.h.  Records between two GAP events follow each other,
 * so they must all be found together in the truth, after those before.  The
 * last line says, in words and numbers, what came of it:
 *
 *   window    determined records of the part of the stream that there was
 *   right     records that are found so; found: of the window's
 *   wrong     those from the first one on that is not
 *   tail      determined records after the last one, without a GAP event
 *   labels    records with another CR3
 *   times     TIME events that are not of the time of their record
 *   user      of the window, records from the lower half; and those found
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "arguments.h"

/* Of TSC: no packet says the time of each record. */
#define TIME_SLACK  3000000
/* What differs between the address spaces of labels and of PIP */
#define ROOT        UINT64_C(0x000fffffffffffe0)

struct judge {
    const struct arguments *a;
    struct truth *t;
    struct encoded *e;
    uint64_t at;                /* the next record of the truth */
    GArray *records;            /* since the last GAP event */
    GArray *cr3s;               /* of each */
    GArray *times;              /* struct time */
    bool gap;
    uint64_t right, found, wrong, labels, bad_times, times_seen, gaps, user;
    unsigned shown;
};

struct time {
    uint64_t at;
    uint64_t tsc;
};

static bool is(const struct judge *j, uint64_t at, unsigned i)
{
    const struct truth_record *r = &j->t->r[at];
    const struct btrail_record *g = &g_array_index(j->records,
                                                   struct btrail_record, i);

    return r->from == g->from && r->to == g->to;
}

/* Can one say of this record that it was made?  It goes to what follows it. */
static bool is_quiet(const struct judge *j, uint64_t at)
{
    const struct truth_record *r = &j->t->r[at];

    return r->to - r->from < 16 && r->to > r->from;
}

static bool is_known(const struct judge *j, uint64_t at)
{
    return j->e->known[at] == ENCODE_DETERMINED && !is_quiet(j, at);
}

/* Returns how many of the records follow each other from @at on. */
static unsigned follow(const struct judge *j, uint64_t at, uint64_t *places)
{
    unsigned i;

    for (i = 0; i < j->records->len; i++) {
        while (at < j->t->n && !is(j, at, i) && i &&
               !is_known(j, at)) {
            at++;
        }
        if (at == j->t->n || !is(j, at, i)) {
            break;
        }
        places[i] = at++;
    }
    return i;
}

/* How many TIME events are not of the time of their record? */
static unsigned bad_times(const struct judge *j, const uint64_t *places,
                          unsigned n)
{
    unsigned bad = 0;

    for (unsigned k = 0; k < j->times->len; k++) {
        const struct time *time = &g_array_index(j->times, struct time, k);
        uint64_t i = time->at, was, before;

        if (i >= n || !time->tsc) {
            continue;
        }
        was = truth_tsc(j->t, places[i]);
        before = i ? truth_tsc(j->t, places[i - 1]) : 0;
        /* The record after it is not before it, nor the other one after. */
        bad += time->tsc > was + TIME_SLACK || before > time->tsc + TIME_SLACK;
    }
    return bad;
}

static bool has_label(const struct judge *j, uint64_t at, unsigned i)
{
    uint64_t label = truth_pip(truth_label(j->t, at));

    return !label || !((label ^ g_array_index(j->cr3s, uint64_t, i)) & ROOT);
}

static unsigned bad_labels(const struct judge *j, const uint64_t *places,
                           unsigned n)
{
    unsigned bad = 0;

    for (unsigned i = 0; i < n; i++) {
        bad += !has_label(j, places[i], i);
    }
    return bad;
}

/* The records are found, at these places. */
static void take(struct judge *j, const uint64_t *places, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (is_known(j, places[i])) {
            j->found++;
            j->user += !(j->t->r[places[i]].from >> 63);
        }
    }
    j->labels += bad_labels(j, places, n);
    j->bad_times += bad_times(j, places, n);
    j->right += n;
    j->at = n ? places[n - 1] + 1 : j->at;
}

/*
 * A GAP event, or the end: where are the records before it?  A loop has the
 * same ones again and again; they are where their times and labels are, and the
 * @last ones where the truth ends.
 */
static void finish_stretch(struct judge *j, bool last)
{
    unsigned n = j->records->len, most = 0, bad = 0;
    g_autofree uint64_t *places = g_new(uint64_t, n + 1);
    uint64_t best = j->at;

    for (uint64_t at = j->t->n; last && n && most < n && at-- > j->at; ) {
        if (is(j, at, 0) && follow(j, at, places) == n) {
            most = n;
            best = at;
        }
    }
    for (uint64_t at = j->at; (most < n || bad) && at < j->t->n; at++) {
        unsigned found = is(j, at, 0) ? follow(j, at, places) : 0;
        unsigned late = found < n ? 0 : bad_times(j, places, n) +
                                        bad_labels(j, places, n);

        if (found > most || (found == n && most == n && late < bad)) {
            most = found;
            best = at;
            bad = late;
        }
    }
    follow(j, best, places);
    if (most < n) {
        const struct btrail_record *r = &g_array_index(
            j->records, struct btrail_record, most);

        j->wrong += n - most;
        if (j->shown++ < 10) {
            fprintf(stderr, "at %" PRIu64 ", record %u of %u: %" PRIx64 " -> %"
                    PRIx64 " (%" PRIx64 ")\n", best, most, n, r->from, r->to,
                    g_array_index(j->cr3s, uint64_t, most));
        }
    }
    take(j, places, most);
    g_array_set_size(j->records, 0);
    g_array_set_size(j->cr3s, 0);
    g_array_set_size(j->times, 0);
}

static void read_given(struct judge *j)
{
    struct btrail_trace *trace;
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    int ret = btrail_trace_open(&trace, j->a->given);

    ret = ret ? ret : btrail_cursor_open(&cursor, trace, j->a->vcpu, 0);
    if (ret) {
        fprintf(stderr, "%s: %s\n", j->a->given, btrail_strerror(ret));
        exit(1);
    }
    while (!btrail_cursor_next(cursor, &b)) {
        if (b.event && b.event->type == BTRAIL_EVENT_GAP) {
            finish_stretch(j, false);
            j->gap = true;
            j->gaps++;
        } else if (b.event && b.event->type == BTRAIL_EVENT_TIME) {
            struct time time = { j->records->len, b.event->data[1] };

            g_array_append_val(j->times, time);
            j->times_seen++;
        }
        for (size_t i = 0; i < b.count; i++) {
            g_array_append_val(j->records, b.records[i]);
            g_array_append_val(j->cr3s, b.cr3);
            j->gap = false;
        }
    }
    finish_stretch(j, !j->gap);
    btrail_cursor_close(cursor);
    btrail_trace_close(trace);
}

/* The first record that the part of the stream can say */
static uint64_t window_at(const struct judge *j)
{
    uint64_t skipped = j->e->bytes->len - MIN(j->a->tail, j->e->bytes->len);

    for (unsigned i = 0; i < j->e->places->len; i++) {
        const struct encode_place *p = &g_array_index(
            j->e->places, struct encode_place, i);

        if (p->offset >= skipped) {
            return p->at;
        }
    }
    return j->t->n;
}

int main(int argc, char **argv)
{
    struct arguments a;
    struct encoded e;
    struct truth t;
    struct judge j = { .a = &a, .t = &t, .e = &e };
    uint64_t window = 0, tail = 0, user = 0;

    arguments_encode(&a, argc, argv, &t, &e);
    if (!a.given) {
        fprintf(stderr, "given=FILE is missing\n");
        return 2;
    }
    j.records = g_array_new(FALSE, FALSE, sizeof(struct btrail_record));
    j.cr3s = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    j.times = g_array_new(FALSE, FALSE, sizeof(struct time));
    j.at = window_at(&j);
    for (uint64_t i = j.at; i < t.n; i++) {
        window += is_known(&j, i);
        user += is_known(&j, i) && !(t.r[i].from >> 63);
    }
    read_given(&j);
    for (uint64_t i = j.at; i < t.n && !j.gap; i++) {
        tail += is_known(&j, i);
    }
    printf("window %" PRIu64 " right %" PRIu64 " found %"
           PRIu64 " wrong %" PRIu64 " tail %"
           PRIu64 " labels %" PRIu64 " times %" PRIu64 " seen %" PRIu64
           " gaps %" PRIu64 " user-window %" PRIu64 " user %" PRIu64 "\n",
           window, j.right, j.found, j.wrong, tail, j.labels, j.bad_times,
           j.times_seen, j.gaps, user, j.user);
    return 0;
}
