/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The call stack along a lane: see lane-stack.h
 */

#include <string.h>

#include "gdb/lane-stack.h"

/* Records that are read at once */
#define FEW     1024u
#define MANY    65536u

/**
 * struct lane_span - consecutive records of a run
 * @first: number of the first one
 */
struct lane_span {
    struct lane_at at;
    uint32_t first;
};

/**
 * struct lane_stack
 * @vcpu:    that it is followed as, whichever it runs on
 * @records: of the lane; those from @begin on are followed, up to @next
 * @plain:   the same as they are
 * @parts:   of struct stack_part
 * @part:    which has record @next
 * @rest:    what a part has after the record that is followed
 * @spans:   of struct lane_span
 * @first:   number of @begin
 * @many:    how many are read the next time
 * @whole:   records are missing before the first one, or there are none
 */
struct lane_stack {
    struct lane *lane;
    struct symbolizer *symbols;
    struct stack_edges *edges;
    struct stacks *stacks;
    unsigned vcpu;
    GArray *records;
    size_t begin;
    size_t next;
    struct btrail_record *plain;
    const struct stack_edge **found;
    struct stack_run *runs;
    size_t room;
    GArray *parts;
    unsigned part;
    struct stack_part rest;
    GArray *spans;
    uint32_t first;
    size_t many;
    bool whole;
};

static const struct lane_record *record(const struct lane_stack *s, size_t i)
{
    return &g_array_index(s->records, struct lane_record, i);
}

static struct stack_part *part_at(const struct lane_stack *s, unsigned i)
{
    return &g_array_index(s->parts, struct stack_part, i);
}

/* Stacks that several threads have left at one place are told apart by it. */
static const struct stack_part *next_part(void *opaque, unsigned n)
{
    const struct lane_stack *s = opaque;
    const struct stack_part *now = part_at(s, s->part);

    if (s->rest.n && !n--) {
        return &s->rest;
    }
    for (unsigned i = s->part + 1; i < s->parts->len; i++) {
        const struct stack_part *p = part_at(s, i);

        if (p->task.tid == now->task.tid &&
            p->task.nested == now->task.nested && !n--) {
            return p;
        }
    }
    return NULL;
}

static void begin_stacks(struct lane_stack *s)
{
    stacks_free(s->stacks);
    s->stacks = stacks_new(&(struct stacks_options) {
        .next = next_part, .opaque = s,
    });
}

struct lane_stack *lane_stack_new(struct lane *lane, struct symbolizer *symbols,
                                  struct stack_edges *edges)
{
    struct lane_stack *s = g_new0(struct lane_stack, 1);

    s->lane = lane;
    s->symbols = symbols;
    s->edges = edges;
    s->vcpu = g_array_index(lane_runs(lane), struct lane_run, 0).vcpu;
    s->parts = g_array_new(FALSE, FALSE, sizeof(struct stack_part));
    s->spans = g_array_new(FALSE, FALSE, sizeof(struct lane_span));
    begin_stacks(s);
    return s;
}

static void release(struct lane_stack *s)
{
    if (s->records) {
        lane_release(s->lane, s->records);
        s->records = NULL;
    }
}

void lane_stack_free(struct lane_stack *s)
{
    if (s) {
        release(s);
        stacks_free(s->stacks);
        g_free(s->plain);
        g_free(s->found);
        g_free(s->runs);
        g_array_unref(s->parts);
        g_array_unref(s->spans);
        g_free(s);
    }
}

/* Does record @i not continue what the one before it is part of? */
static bool breaks(const struct lane_stack *s, size_t i)
{
    const struct lane_record *a = record(s, i - 1), *b = record(s, i);

    return b->lost || a->leaves || a->at.run != b->at.run ||
           a->at.index + 1 != b->at.index || a->cr3 != b->cr3 ||
           a->time.host != b->time.host || a->process != b->process ||
           a->task.known != b->task.known || a->task.tid != b->task.tid ||
           a->task.pid != b->task.pid || a->task.nested != b->task.nested ||
           strcmp(a->task.name, b->task.name) ||
           a->kernel.known != b->kernel.known ||
           a->kernel.number != b->kernel.number ||
           a->kernel.nested != b->kernel.nested ||
           a->kernel.nested_root != b->kernel.nested_root;
}

/* The parts of records [@begin, @end) */
static void add_parts(struct lane_stack *s, size_t begin, size_t end)
{
    const struct lane_record *r = record(s, begin);
    const struct btrail_batch batch = {
        .records = s->plain + begin, .count = end - begin,
        .index = r->at.index, .cr3 = r->cr3, .time = r->time, .task = r->task,
        .kernel = r->kernel, .leaves = record(s, end - 1)->leaves,
    };
    const struct lane_span span = { r->at, s->first + (begin - s->begin) };
    struct btrail_batch part = { .count = 0 };
    struct stack_part add = { .vcpu = s->vcpu };

    g_array_append_val(s->spans, span);
    while (symbolizer_part(s->symbols, r->vcpu, &batch, &part, &add.task)) {
        size_t i = begin + (part.index - batch.index);

        add.first = span.first + (i - begin) - 1;
        add.n = part.count;
        add.edges = s->found + i;
        add.runs = s->runs + i;
        stack_edges_get_all(s->edges, add.task.process, &add.task.where,
                            part.records, part.count, s->found + i,
                            s->runs + i);
        g_array_append_val(s->parts, add);
    }
}

static void make_parts(struct lane_stack *s)
{
    size_t n = s->records->len;

    if (stack_edges_many(s->edges)) {
        stack_edges_reset(s->edges);
    }
    if (n > s->room) {
        s->room = n;
        s->plain = g_renew(struct btrail_record, s->plain, n);
        s->found = g_renew(const struct stack_edge *, s->found, n);
        s->runs = g_renew(struct stack_run, s->runs, n);
    }
    for (size_t i = s->begin; i < n; i++) {
        s->plain[i] = record(s, i)->record;
    }
    g_array_set_size(s->parts, 0);
    s->part = 0;
    for (size_t i = s->begin, end; i < n; i = end) {
        for (end = i + 1; end < n && !breaks(s, end); end++) {
        }
        add_parts(s, i, end);
    }
}

/* Reads after a record, or with it; false if there is nothing. */
static bool read_after(struct lane_stack *s, const struct lane_at *after,
                       bool with)
{
    const struct lane_at at = *after;
    ssize_t here;

    release(s);
    g_array_set_size(s->parts, 0);
    s->records = lane_read(s->lane, &at, 1, s->many, &here);
    s->begin = s->next = MAX(here + !with, 0);
    s->many = MIN(s->many * 4, MANY);
    if (s->begin >= s->records->len) {
        return false;
    }
    make_parts(s);
    return true;
}

void lane_stack_begin(struct lane_stack *s, const struct lane_at *at,
                      uint64_t back)
{
    const struct lane_run *first = &g_array_index(lane_runs(s->lane),
                                                  struct lane_run, 0);
    const struct lane_at from = lane_back(s->lane, *at, back);

    begin_stacks(s);
    g_array_set_size(s->spans, 0);
    s->first = 1;
    s->many = MIN(MAX(back, FEW), MANY);
    s->whole = !from.run && from.index <= first->begin;
    read_after(s, &from, true);
}

const struct lane_record *lane_stack_last(const struct lane_stack *s)
{
    return s->records && s->next > s->begin ? record(s, s->next - 1) : NULL;
}

/* Makes sure that there is a next record. */
static bool has_next(struct lane_stack *s)
{
    if (!s->records || s->begin >= s->records->len) {
        return false;
    }
    if (s->next == s->records->len) {
        s->first += s->next - s->begin;
        return read_after(s, &record(s, s->next - 1)->at, false);
    }
    return true;
}

/* It is followed from the next record on, if some are missing before that. */
static void skip_lost(struct lane_stack *s)
{
    if (record(s, s->next)->lost) {
        begin_stacks(s);
        s->whole = true;
    }
}

/* The part that has the next record, and which one of it that is */
static const struct stack_part *find_part(struct lane_stack *s, size_t *i)
{
    const struct stack_part *p = part_at(s, s->part);
    size_t number = s->first + (s->next - s->begin) - 1;

    if (number == p->first + p->n) {
        s->part++;
        p++;
    }
    *i = number - p->first;
    return p;
}

/* Follows one record of a part. */
static void follow_one(struct lane_stack *s, const struct stack_part *p,
                       size_t i)
{
    static const struct stack_run none;
    struct stack_part one = *p;

    one.first += i;
    one.edges += i;
    one.n = 1;
    one.runs = &none;
    s->rest = *p;
    s->rest.edges += i + 1;
    s->rest.n -= i + 1;
    stacks_begin(s->stacks);
    stacks_add(s->stacks, &one);
    s->next++;
}

const struct lane_record *lane_stack_next(struct lane_stack *s)
{
    const struct stack_part *p;
    size_t i;

    if (!has_next(s)) {
        return NULL;
    }
    skip_lost(s);
    p = find_part(s, &i);
    follow_one(s, p, i);
    return record(s, s->next - 1);
}

bool lane_stack_follow(struct lane_stack *s, const struct lane_at *at)
{
    while (has_next(s) && lane_before(&record(s, s->next)->at, at)) {
        const struct stack_part *p;
        size_t i;

        skip_lost(s);
        p = find_part(s, &i);
        if (!i && s->next + p->n <= s->records->len &&
            lane_before(&record(s, s->next + p->n - 1)->at, at)) {
            s->rest.n = 0;
            stacks_begin(s->stacks);
            stacks_add(s->stacks, p);
            s->next += p->n;
        } else {
            follow_one(s, p, i);
        }
    }
    return s->records && s->next < s->records->len &&
           !lane_before(at, &record(s, s->next)->at);
}

struct stack_state lane_stack_state(const struct lane_stack *s)
{
    return stacks_state(s->stacks, s->vcpu);
}

const struct stack_edge *lane_stack_edge(const struct lane_stack *s)
{
    return s->found[s->next - 1];
}

bool lane_stack_whole(const struct lane_stack *s)
{
    return s->whole;
}

struct lane_at lane_stack_where(const struct lane_stack *s, uint32_t number)
{
    size_t i = s->spans->len;
    const struct lane_span *span;

    do {
        span = &g_array_index(s->spans, struct lane_span, --i);
    } while (i && span->first > number);
    return (struct lane_at) {
        span->at.run, span->at.index + (number - span->first),
    };
}
