/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The records that one thread of gdb walks along: see lane.h
 */

#include "gdb/lane.h"

struct lane {
    const struct btrail_trace *trace;
    struct symbolizer *symbols;
    GArray *runs;               /* of struct lane_run */
    struct btrail_cursor *cursor;
    unsigned vcpu;              /* of the cursor */
};

struct lane *lane_new(const struct btrail_trace *trace,
                      struct symbolizer *symbols, GArray *runs)
{
    struct lane *l = g_new0(struct lane, 1);

    l->trace = trace;
    l->symbols = symbols;
    l->runs = runs;
    return l;
}

struct lane *lane_new_vcpu(const struct btrail_trace *trace,
                           struct symbolizer *symbols, unsigned vcpu)
{
    struct btrail_stream_info info;

    for (unsigned i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        const struct lane_run run = {
            .vcpu = vcpu, .begin = info.first_index, .end = info.end_index,
            .time.host = info.first_time,
        };

        if (info.vcpu == vcpu && info.records && run.begin < run.end) {
            GArray *runs = g_array_new(FALSE, FALSE, sizeof(run));

            g_array_append_val(runs, run);
            return lane_new(trace, symbols, runs);
        }
    }
    return NULL;
}

void lane_free(struct lane *l)
{
    if (l) {
        btrail_cursor_close(l->cursor);
        g_array_unref(l->runs);
        g_free(l);
    }
}

const GArray *lane_runs(const struct lane *l)
{
    return l->runs;
}

bool lane_before(const struct lane_at *a, const struct lane_at *b)
{
    return a->run != b->run ? a->run < b->run : a->index < b->index;
}

static const struct lane_run *run_at(const struct lane *l, size_t i)
{
    return &g_array_index(l->runs, struct lane_run, i);
}

/*
 * Goes to a place in a stream before which all is up to a moment.  Counts are
 * finer than TIME events: records between the one before the moment's time and
 * the next one can be later than the moment.
 */
static bool seek_moment(struct btrail_cursor *cursor,
                        const struct lane_run *run, const struct moment *m)
{
    struct btrail_batch b;
    uint64_t index;

    if (btrail_cursor_seek_time(cursor, m->time.host)) {
        return false;
    }
    if (!m->exact) {
        return true;
    }
    index = btrail_cursor_next(cursor, &b) ? run->end : b.index;
    return !btrail_cursor_seek(cursor, index ? index - 1 : 0) &&
           !btrail_cursor_next(cursor, &b) &&
           !btrail_cursor_seek_time(cursor, b.time.host);
}

/* The record before the first one of a batch that is later than a moment */
static bool find_later(unsigned vcpu, const struct btrail_batch *b,
                       const struct moment *m, uint64_t *index)
{
    for (size_t i = 0; !b->event && i < b->count; i++) {
        const struct moment at = moment_behind(vcpu, b, i);

        if (moment_compare(&at, m) > 0) {
            *index = b->index + i ? b->index + i - 1 : 0;
            return true;
        }
    }
    return false;
}

/* The last record of the run's vCPU up to a moment of another one */
static bool find_moment(const struct lane *l, const struct lane_run *run,
                        const struct moment *m, uint64_t *index)
{
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    bool found = false;

    if (btrail_cursor_open(&cursor, l->trace, run->vcpu, 0)) {
        return false;
    }
    if (seek_moment(cursor, run, m)) {
        while (!found && !btrail_cursor_next(cursor, &b)) {
            found = find_later(run->vcpu, &b, m, index);
        }
    }
    btrail_cursor_close(cursor);
    return found;
}

struct lane_at lane_find(const struct lane *l, const struct moment *m)
{
    const struct lane_run *last = run_at(l, 0);
    struct lane_at at = { 0, last->begin };
    uint64_t index;

    for (size_t i = 0; i < l->runs->len; i++) {
        const struct lane_run *run = run_at(l, i);
        bool same = run->vcpu == m->vcpu;
        bool begun = same ? run->begin <= m->index :
                     run->time.host <= m->time.host;

        if (same && begun && m->index < run->end) {
            return (struct lane_at) { i, m->index };
        }
        if (begun) {
            last = run;
            at = (struct lane_at) { i, run->end - 1 };
        }
    }
    if (last->vcpu != m->vcpu && find_moment(l, last, m, &index)) {
        at.index = CLAMP(index, last->begin, last->end - 1);
    }
    return at;
}

/* Goes back by @n indices. */
static struct lane_at back_by(const struct lane *l, struct lane_at at,
                              uint64_t n)
{
    while (n) {
        uint64_t here = at.index - run_at(l, at.run)->begin;
        uint64_t step = MIN(here, n);

        at.index -= step;
        n -= step;
        if (!n || !at.run) {
            break;
        }
        at.run--;
        at.index = run_at(l, at.run)->end - 1;
        n--;
    }
    return at;
}

static bool open_cursor(struct lane *l, unsigned vcpu)
{
    if (l->cursor && l->vcpu == vcpu) {
        return true;
    }
    btrail_cursor_close(l->cursor);
    l->cursor = NULL;
    l->vcpu = vcpu;
    return !btrail_cursor_open(&l->cursor, l->trace, vcpu, 0);
}

/**
 * struct reading
 * @at:     the record around which is read
 * @before, @after: so many are wanted before it, and behind it
 * @next:   index that the next record has if none is missing
 * @lost:   records are missing before it in its run
 * @cut:    the last ones of a run before are missing
 */
struct reading {
    GArray *records;
    const struct lane_at *at;
    size_t before;
    size_t after;
    ssize_t here;
    uint64_t next;
    bool lost;
    bool cut;
};

static void add(struct lane *l, struct reading *r, size_t run,
                const struct btrail_batch *b, size_t i,
                const struct process *process)
{
    const struct lane_record record = {
        .record = b->records[i],
        .at = { run, b->index + i },
        .vcpu = l->vcpu,
        /* A seek into a hole goes behind it. */
        .lost = r->lost || r->cut || b->index + i > r->next,
        .cr3 = b->cr3,
        .process = process,
        .time = b->time,
        .task = b->task,
    };

    r->lost = r->cut = false;
    r->next = b->index + i + 1;
    if (!lane_before(r->at, &record.at)) {
        /* It can be far behind what a hole made us begin with. */
        if (r->records->len > 2 * r->before + 1) {
            g_array_remove_range(r->records, 0, r->before);
        }
        r->here = r->records->len;
    }
    g_array_append_val(r->records, record);
}

/* One too many shows that no other one is up to the place. */
static bool is_full(const struct reading *r)
{
    return r->records->len > (size_t)(r->here + 1) + r->after;
}

/* The records of a batch from @begin on, up to the end of the run */
static void add_batch(struct lane *l, struct reading *r, size_t run,
                      uint64_t begin, const struct btrail_batch *b)
{
    const struct symbolizer_where where = { l->vcpu, b->index, b->cr3 };
    uint64_t end = run_at(l, run)->end;
    size_t skip = b->index < begin ? MIN(begin - b->index, b->count) : 0;
    enum btrail_certainty certainty;
    const struct process *process =
        symbolizer_process(l->symbols, &where, b->time.host, &certainty);

    if (skip) {
        r->lost = false;
        r->next = b->index + skip;
    }
    for (size_t i = skip; i < b->count && b->index + i < end && !is_full(r);
         i++) {
        add(l, r, run, b, i, process);
    }
}

static void read_run(struct lane *l, struct reading *r, size_t run,
                     uint64_t begin)
{
    uint64_t end = run_at(l, run)->end;
    struct btrail_batch b;

    /* If the record before is missing, it may be the lane's. */
    r->next = begin ? begin - 1 : 0;
    r->lost = false;
    if (!open_cursor(l, run_at(l, run)->vcpu) ||
        btrail_cursor_seek(l->cursor, r->next)) {
        r->cut = true;
        return;
    }
    while (!is_full(r) && !btrail_cursor_next(l->cursor, &b) &&
           b.index < end) {
        if (!b.event) {
            add_batch(l, r, run, begin, &b);
        } else if (b.event->type == BTRAIL_EVENT_GAP) {
            r->lost = true;
        }
    }
    r->cut |= r->next < end;
}

/* Leaves what is wanted. */
static void trim(struct reading *r)
{
    if (is_full(r)) {
        g_array_set_size(r->records, r->here + 1 + r->after);
    }
    if (r->here > (ssize_t)r->before) {
        g_array_remove_range(r->records, 0, r->here - r->before);
        r->here = r->before;
    }
}

/* Reads behind a place, or from the lane's begin on, until it is full. */
static void read_runs(struct lane *l, struct reading *r, struct lane_at from,
                      bool all)
{
    read_run(l, r, from.run, from.index + !all);
    for (size_t run = from.run + 1; run < l->runs->len && !is_full(r); run++) {
        read_run(l, r, run, run_at(l, run)->begin);
    }
}

GArray *lane_read(struct lane *l, const struct lane_at *at, size_t before,
                  size_t after, ssize_t *here)
{
    struct reading r = {
        .at = at, .before = MAX(before, 1), .after = after,
    };
    bool all;

    do {
        struct lane_at from = back_by(l, *at, before + 1);

        g_clear_pointer(&r.records, g_array_unref);
        r.records = g_array_new(FALSE, FALSE, sizeof(struct lane_record));
        r.here = -1;
        r.cut = false;
        all = !from.run && from.index == run_at(l, 0)->begin;
        read_runs(l, &r, from, all);
        /* Nothing but a hole: what is before it? */
        before = MAX(before, 1) * 16;
    } while (r.here < 1 && before < G_MAXINT64 / 16 && !all);
    trim(&r);
    *here = r.here;
    return r.records;
}

struct symbolizer_where lane_where(const struct lane_record *r)
{
    return (struct symbolizer_where) { r->vcpu, r->at.index, r->cr3 };
}
