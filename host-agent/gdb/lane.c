/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The records that one thread of gdb walks along: see lane.h
 */

#include "analyze/pace.h"
#include "gdb/lane.h"

/*
 * At least this many are read on either side: to seek takes longer, because a
 * chunk is decoded from its beginning on.
 */
#define AROUND  4096
/* More are rarely wanted. */
#define MANY    (1u << 19)

/**
 * struct lane
 * @runs:   of struct lane_run
 * @order:  of moments of several vCPUs
 * @vcpu:   of the cursor
 * @kept:   what was read last, which is likely to be wanted again; or NULL
 * @lent:   this many callers have it
 * @first:  it begins with the lane's first record
 * @last:   it ends with the lane's last one
 */
struct lane {
    const struct btrail_trace *trace;
    struct symbolizer *symbols;
    GArray *runs;
    struct clock_order *order;
    struct btrail_cursor *cursor;
    unsigned vcpu;
    GArray *kept;
    unsigned lent;
    bool first;
    bool last;
};

struct lane *lane_new(const struct btrail_trace *trace,
                      struct symbolizer *symbols, GArray *runs)
{
    struct lane *l = g_new0(struct lane, 1);

    l->trace = trace;
    l->symbols = symbols;
    l->runs = runs;
    l->order = clock_order_of(trace);
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
        g_clear_pointer(&l->kept, g_array_unref);
        g_array_unref(l->runs);
        clock_order_free(l->order);
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
 * Goes to a place in a stream before which nothing is later than a moment.
 * Counts are finer than TIME events: records between the one before the
 * moment's time and the next one can be later than the moment.
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
static bool find_later(const struct lane *l, unsigned vcpu,
                       const struct btrail_batch *b, const struct moment *m,
                       uint64_t *index)
{
    for (size_t i = 0; !b->event && i < b->count; i++) {
        struct moment at = moment_after(vcpu, b, i);

        if (m->clock) {
            clock_order_stamp(l->order, &at);
        }
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
            found = find_later(l, run->vcpu, &b, m, index);
        }
    }
    btrail_cursor_close(cursor);
    return found;
}

/* Does a run of another vCPU than the moment's begin up to it? */
static bool has_begun(const struct lane *l, const struct lane_run *run,
                      const struct moment *m)
{
    struct moment first = {
        .vcpu = run->vcpu, .index = run->begin, .time = run->time,
        .icount = BTRAIL_NO_ICOUNT,
    };

    if (!m->clock || run->time.host > m->clock) {
        return run->time.host <= (m->clock ?: m->time.host);
    }
    /* Far from the moment, the clock before the run is enough. */
    return m->clock - run->time.host > PACE_NEAR ||
           clock_order_begun(l->order, &first) <= m->clock;
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
                     has_begun(l, run, m);

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

struct lane_at lane_back(const struct lane *l, struct lane_at at, uint64_t n)
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
 * struct lane_reading
 * @at:     the record around which is read
 * @before, @after: this many are wanted before it, and after it
 * @next:   index that the next record has if none is missing
 * @lost:   records are missing before it in its run
 * @cut:    the last ones of a run before are missing
 */
struct lane_reading {
    GArray *records;
    const struct lane_at *at;
    size_t before;
    size_t after;
    ssize_t here;
    uint64_t next;
    bool lost;
    bool cut;
};

static void add(struct lane *l, struct lane_reading *r, size_t run,
                const struct btrail_batch *b, size_t i,
                const struct process *process)
{
    const struct lane_record record = {
        .record = b->records[i],
        .at = { run, b->index + i },
        .vcpu = l->vcpu,
        /* A seek into a hole goes after it. */
        .lost = r->lost || r->cut || b->index + i > r->next,
        .cr3 = b->cr3,
        .process = process,
        .time = b->time,
        .task = b->task,
        .kernel = b->kernel,
        .leaves = btrail_batch_leaves(b, i),
    };

    r->lost = r->cut = false;
    r->next = b->index + i + 1;
    if (!lane_before(r->at, &record.at)) {
        /* It can be far beyond where a hole made us begin. */
        if (r->records->len > 2 * r->before + 1) {
            g_array_remove_range(r->records, 0, r->before);
        }
        r->here = r->records->len;
    }
    g_array_append_val(r->records, record);
}

/* One more than needed shows that no other one is up to the place. */
static bool is_full(const struct lane_reading *r)
{
    return r->records->len > (size_t)(r->here + 1) + r->after;
}

/* The records of a batch from @begin on, up to the end of the run */
static void add_batch(struct lane *l, struct lane_reading *r, size_t run,
                      uint64_t begin, const struct btrail_batch *b)
{
    const struct symbolizer_where where = symbolizer_at(l->vcpu, b, 0);
    uint64_t end = run_at(l, run)->end;
    size_t skip = b->index < begin ? MIN(begin - b->index, b->count) : 0;
    enum btrail_certainty certainty;
    const struct process *process =
        symbolizer_process(l->symbols, &where, &certainty);

    if (skip) {
        r->lost = false;
        r->next = b->index + skip;
    }
    for (size_t i = skip; i < b->count && b->index + i < end && !is_full(r);
         i++) {
        add(l, r, run, b, i, process);
    }
}

static void read_run(struct lane *l, struct lane_reading *r, size_t run,
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

/* Reads after a place, or from the lane's begin on, until it is full. */
static void read_runs(struct lane *l, struct lane_reading *r,
                      struct lane_at from,
                      bool all)
{
    read_run(l, r, from.run, from.index + !all);
    for (size_t run = from.run + 1; run < l->runs->len && !is_full(r); run++) {
        read_run(l, r, run, run_at(l, run)->begin);
    }
}

/*
 * For what is read next.  Memory that nobody uses any more is used again:
 * getting it from the host's kernel takes longer than reading.
 */
static GArray *new_records(struct lane *l, size_t n)
{
    GArray *records = l->kept;

    if (!records || l->lent) {
        g_clear_pointer(&records, g_array_unref);
        records = g_array_sized_new(FALSE, FALSE, sizeof(struct lane_record),
                                    MIN(n, MANY));
    }
    g_array_set_size(records, 0);
    l->kept = NULL;
    l->lent = 0;
    return records;
}

/* Reads this many records around a place, or more, and keeps them. */
static void read_around(struct lane *l, const struct lane_at *at, size_t before,
                        size_t after)
{
    struct lane_reading r = {
        .records = new_records(l, before + after), .at = at, .before = before,
        .after = after,
    };
    size_t back = before;
    bool all;

    do {
        struct lane_at from = lane_back(l, *at, back + 1);

        g_array_set_size(r.records, 0);
        r.here = -1;
        r.cut = false;
        all = !from.run && from.index == run_at(l, 0)->begin;
        read_runs(l, &r, from, all);
        /* Nothing but a hole: what is before it? */
        back *= 16;
    } while (r.here < 1 && back < G_MAXINT64 / 16 && !all);
    l->kept = r.records;
    l->last = !is_full(&r);
    if (!l->last) {
        g_array_set_size(l->kept, r.here + 1 + after);
    }
    l->first = all && r.here <= (ssize_t)before;
}

/*
 * Which of the records that are kept is the last one up to a place; -1 if none
 * is
 */
static ssize_t find_kept(const struct lane *l, const struct lane_at *at)
{
    size_t low = 0, high = l->kept ? l->kept->len : 0;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (lane_before(at, &g_array_index(l->kept, struct lane_record,
                                           middle).at)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return (ssize_t)low - 1;
}

/* Are the records wanted around a place among those kept? */
static bool are_kept(const struct lane *l, const struct lane_at *at,
                     size_t before, size_t after)
{
    ssize_t here = find_kept(l, at);
    size_t left;

    if (here < 0) {
        return false;
    }
    left = l->kept->len - 1 - here;
    return (l->first || here >= (ssize_t)before) &&
           /* Without one after it, it need not be the last one up to there. */
           (l->last || (left >= after &&
                        (left || !lane_before(&g_array_index(
                            l->kept, struct lane_record, here).at, at))));
}

GArray *lane_read(struct lane *l, const struct lane_at *at, size_t before,
                  size_t after, ssize_t *here)
{
    size_t begin, n;
    GArray *part;

    before = MAX(before, 1);
    if (!are_kept(l, at, before, after)) {
        read_around(l, at, MAX(before, AROUND), MAX(after, AROUND));
    }
    *here = find_kept(l, at);
    begin = *here > (ssize_t)before ? *here - before : 0;
    n = MIN(*here + 1 + after, l->kept->len) - begin;
    if (n == l->kept->len) {
        l->lent++;
        return g_array_ref(l->kept);
    }
    *here -= begin;
    part = g_array_sized_new(FALSE, FALSE, sizeof(struct lane_record), n);
    return g_array_append_vals(part, &g_array_index(
        l->kept, struct lane_record, begin), n);
}

void lane_release(struct lane *l, GArray *records)
{
    l->lent -= records == l->kept;
    g_array_unref(records);
}

struct symbolizer_where lane_where(const struct lane_record *r)
{
    return (struct symbolizer_where) {
        .vcpu = r->vcpu, .index = r->at.index, .cr3 = r->cr3,
        .time = r->time.host, .kernel = symbolizer_kernel(&r->kernel),
        .leaves = r->leaves,
    };
}
