/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Aligning two sequences of edges: see diff-align.h
 */

#include <limits.h>
#include <string.h>

#include "analyze/diff-align.h"
#include "util/hash.h"

#define MAX_STACK       4096

/* A return is searched among this many frames. */
#define MAX_SKIPPED     64

/* A call without a known length has at most this many bytes. */
#define CALL_MAX        8

/* This many in a row must be the same. */
#define SAME_OUTLINE    4
#define SAME_NEAR       2
#define SAME_EDGES      32

/*
 * What is this near to the beginning of one side is searched in the other, by a
 * table with room for four times as much.
 */
#define NEAR            1024
#define ROWS            (4 * NEAR)
#define ROWS_SHIFT      52

/* Sides up to here need no table. */
#define SHORT           64

/*
 * How far both sides are searched, first a little, and more if that was in
 * vain: how many edges of one function are compared with how many.
 */
static const struct {
    uint64_t edges;
    unsigned outline;
} efforts[] = {
    { 1u << 8, SHORT - SAME_OUTLINE },
    { 1u << 12, 1u << 10 },
    { 1u << 16, 1u << 12 },
    { 1u << 20, 1u << 14 },
    { 1u << 24, 1u << 16 },
};

/*
 * This many edges may be searched, and this many more for each one that was
 * compared: where nearly nothing is the same, all of it would be searched again
 * and again.
 */
#define SEARCH_FREE     (1u << 25)
#define SEARCH_EACH     8

/* Long loops with up to this many edges are cut down to this many turns. */
#define LONGEST_PERIOD  8
#define REPEATS         3

/* After the end of both sequences */
#define END_OF_ALL      UINT64_MAX

/**
 * struct frames - a stack, of which the lower part is shared
 * @own:   the upper part
 * @below: the lower part, or NULL
 * @gone:  frames of the lower part that have returned; more than it has if
 *         unknown ones have
 */
struct frames {
    GArray *own;
    const GArray *below;
    unsigned gone;
};

/* An edge of the function that differs, or of one of its callers */
struct outline {
    uint64_t what;              /* the edge, and the frames that are gone */
    uint64_t at;
};

struct align_row {
    uint64_t hash;
    unsigned i;
};

/**
 * struct diff_scratch - memory for one search at a time
 * @sides: of struct outline, of each side
 * @own:   a stack
 * @rows:  a table of ROWS
 */
struct diff_scratch {
    GArray *sides[DIFF_SIDES];
    GArray *own;
    struct align_row *rows;
};

static uint32_t call_at(const GArray *calls, unsigned i)
{
    return g_array_index(calls, uint32_t, i);
}

static bool returns_to(const struct diff_edge *call, const struct diff_edge *e)
{
    return call->from_fn == e->to_fn &&
           (call->back ? call->back == e->to :
            e->to > call->from + 1 && e->to <= call->from + CALL_MAX);
}

/* Does an edge end what a frame has begun? */
static bool ends(const struct diff_edge *call, const struct diff_edge *e)
{
    switch (e->kind) {
    case STACK_EDGE_EXIT:
        return call->kind == STACK_EDGE_ENTRY;
    case STACK_EDGE_IRET:
        return call->kind == STACK_EDGE_INTERRUPT;
    default:
        return (call->kind == STACK_EDGE_CALL ||
                call->kind == STACK_EDGE_UNKNOWN) && returns_to(call, e);
    }
}

/* The topmost of the first @n frames that an edge ends, or -1 */
static int find_frame(const struct diff_edges *edges, const GArray *calls,
                      unsigned n, const struct diff_edge *e)
{
    unsigned most = e->kind == STACK_EDGE_EXIT ? MAX_STACK : MAX_SKIPPED;

    for (unsigned i = 0; i < MIN(n, most); i++) {
        uint32_t number = call_at(calls, n - 1 - i);

        if (ends(diff_edges_get(edges, number), e)) {
            return n - 1 - i;
        }
    }
    return -1;
}

/* Returns from a frame; false if there is none that fits. */
static bool pop(const struct diff_edges *edges, struct frames *f,
                const struct diff_edge *e)
{
    unsigned left = f->below && f->gone < f->below->len ?
                    f->below->len - f->gone : 0;
    int k;

    if (e->kind == STACK_EDGE_RET && e->start) {
        /* A jump: no call is in front of a function. */
        return false;
    }
    k = find_frame(edges, f->own, f->own->len, e);

    if (k >= 0) {
        g_array_set_size(f->own, k);
        return true;
    }
    k = left ? find_frame(edges, f->below, left, e) : -1;
    if (k >= 0) {
        g_array_set_size(f->own, 0);
        f->gone = f->below->len - k;
        return true;
    }
    if (!f->own->len && !left && e->kind == STACK_EDGE_RET) {
        f->gone++;
    }
    return false;
}

static void push(GArray *calls, uint32_t number)
{
    if (calls->len == MAX_STACK) {
        g_array_remove_range(calls, 0, MAX_STACK / 2);
    }
    g_array_append_val(calls, number);
}

/* Follows an edge that has DIFF_EDGE_STACK set. */
static void step(const struct diff_edges *edges, struct frames *f,
                 uint32_t number)
{
    const struct diff_edge *e = diff_edges_get(edges, number);

    switch (e->kind) {
    case STACK_EDGE_CALL:
    case STACK_EDGE_ENTRY:
    case STACK_EDGE_INTERRUPT:
        push(f->own, number);
        break;
    case STACK_EDGE_UNKNOWN:
        if (!pop(edges, f, e) && e->start && e->to_fn != e->from_fn) {
            push(f->own, number);
        }
        break;
    default:
        pop(edges, f, e);
        break;
    }
}

/* Follows edges as long as both sides have the same.  Returns how many. */
static size_t follow(struct diff_align *a, const uint32_t *x,
                     const uint32_t *y, size_t n)
{
    struct frames f = { .own = a->stack };
    size_t i;

    for (i = 0; i < n && x[i] == y[i]; i++) {
        if (x[i] & DIFF_EDGE_STACK) {
            step(a->edges, &f, x[i]);
        } else if (x[i] == DIFF_EDGE_GAP) {
            break;
        }
    }
    return i;
}

/* Do the last edges of an outline repeat those @period before them? */
static bool repeats(const GArray *outline, unsigned period)
{
    const struct outline *o = (const struct outline *)outline->data;
    unsigned n = outline->len;

    if (n <= REPEATS * period) {
        return false;
    }
    for (unsigned i = n - (REPEATS - 1) * period - 1; i < n; i++) {
        if (o[i].what != o[i - period].what) {
            return false;
        }
    }
    return true;
}

/*
 * Adds an edge to an outline.  Of a loop with many turns only the last ones
 * stay, so that what is after it is near.
 */
static void add_outline(GArray *outline, uint64_t what, uint64_t at)
{
    const struct outline o = { what, at };
    unsigned n = outline->len;

    g_array_append_val(outline, o);
    for (unsigned period = 1; n > SHORT && period <= LONGEST_PERIOD;
         period++) {
        if (g_array_index(outline, struct outline, n - period).what == what &&
            repeats(outline, period)) {
            g_array_remove_range(outline, n - REPEATS * period, period);
            return;
        }
    }
}

/*
 * The edges of one side from the difference on that are of the function that
 * differs, or of its callers after it has returned
 */
static void make_outline(struct diff_align *a, unsigned side)
{
    struct diff_sequence *s = &a->sequence[side];
    GArray *own = a->scratch->own, *outline = a->scratch->sides[side];
    struct frames f = { .own = own, .below = a->stack };
    uint64_t at = a->at[side], end = at + efforts[a->effort].edges;
    const uint32_t *e;
    size_t n;

    g_array_set_size(own, 0);
    g_array_set_size(outline, 0);
    for (; at < end && (e = diff_sequence_at(s, at, &n)); at += n) {
        n = MIN(n, end - at);
        a->searched += n;
        for (size_t i = 0; i < n; i++) {
            if (e[i] == DIFF_EDGE_GAP ||
                outline->len == efforts[a->effort].outline) {
                return;
            }
            if (!own->len) {
                add_outline(outline, ((uint64_t)f.gone << 32) + e[i], at + i);
            }
            if (e[i] & DIFF_EDGE_STACK) {
                step(a->edges, &f, e[i]);
            }
        }
    }
    for (unsigned i = 0; at == s->end && s->whole && i < SAME_OUTLINE; i++) {
        const struct outline o = { END_OF_ALL, at };

        g_array_append_val(outline, o);
    }
}

/* All edges of one side from the difference on */
static void make_piece(struct diff_align *a, unsigned side)
{
    struct diff_sequence *s = &a->sequence[side];
    GArray *piece = a->scratch->sides[side];
    uint64_t at = a->at[side], end = at + efforts[a->effort].edges;
    const uint32_t *e;
    size_t n;

    g_array_set_size(piece, 0);
    for (; at < end && (e = diff_sequence_at(s, at, &n)); at += n) {
        n = MIN(n, end - at);
        a->searched += n;
        for (size_t i = 0; i < n; i++) {
            const struct outline o = { e[i], at + i };

            g_array_append_val(piece, o);
        }
    }
}

static uint64_t what_at(const GArray *outline, unsigned i)
{
    return g_array_index(outline, struct outline, i).what;
}

/* A hash of @k in a row; 0 at the end, or if records are missing there */
static uint64_t hash_row(const GArray *outline, unsigned i, unsigned k)
{
    uint64_t hash = what_at(outline, i) != END_OF_ALL;

    for (unsigned j = i; j < i + k; j++) {
        if (!hash || what_at(outline, j) == DIFF_EDGE_GAP) {
            return 0;
        }
        hash = btrail_hash2(hash ^ hash >> 32, what_at(outline, j));
    }
    return hash | 1;
}

static bool same_rows(const GArray *x, unsigned i, const GArray *y, unsigned j,
                      unsigned k)
{
    for (unsigned n = 0; n < k; n++) {
        if (what_at(x, i + n) != what_at(y, j + n)) {
            return false;
        }
    }
    return true;
}

/*
 * The nearest @k in a row that are the same in both, of which the one in @x is
 * near its beginning.  Improves on @best, the sum of both distances.
 */
static void find_near(struct align_row *rows, const GArray *x, const GArray *y,
                      unsigned k, unsigned *best, unsigned *i, unsigned *j)
{
    unsigned nx = x->len < k ? 0 : MIN(x->len - k + 1, NEAR);
    unsigned ny = y->len < k ? 0 : y->len - k + 1;
    struct align_row *r;

    memset(rows, 0, ROWS * sizeof(*rows));
    for (unsigned n = 0; n < nx; n++) {
        uint64_t hash = hash_row(x, n, k);

        for (r = &rows[hash >> ROWS_SHIFT]; r->hash && r->hash != hash;) {
            r = r + 1 < rows + ROWS ? r + 1 : rows;
        }
        if (hash && !r->hash) {
            *r = (struct align_row) { hash, n };
        }
    }
    for (unsigned n = 0; n < ny && n < *best; n++) {
        uint64_t hash = hash_row(y, n, k);

        for (r = &rows[hash >> ROWS_SHIFT]; r->hash && r->hash != hash;) {
            r = r + 1 < rows + ROWS ? r + 1 : rows;
        }
        if (hash && r->hash && r->i + n < *best &&
            same_rows(x, r->i, y, n, k)) {
            *best = r->i + n;
            *i = r->i;
            *j = n;
        }
    }
}

/* The same where both are short */
static void find_in_short(const GArray *x, const GArray *y, unsigned k,
                          unsigned *best, unsigned *i, unsigned *j)
{
    for (unsigned sum = 0; sum + 2 <= x->len + y->len; sum++) {
        /* What is very near need not be as long. */
        unsigned row = sum <= k * 2 ? MIN(k, SAME_NEAR) : k;

        for (unsigned n = 0; n <= sum; n++) {
            if (n + row <= x->len && sum - n + row <= y->len &&
                what_at(x, n) == what_at(y, sum - n) &&
                hash_row(x, n, row) && same_rows(x, n, y, sum - n, row)) {
                *best = sum;
                *i = n;
                *j = sum - n;
                return;
            }
        }
    }
}

/* Finds where both sides do the same; @to gets their places. */
static bool find_same(struct diff_align *a, unsigned k,
                      struct outline to[DIFF_SIDES])
{
    const GArray *x = a->scratch->sides[0], *y = a->scratch->sides[1];
    unsigned i = 0, j = 0, best = UINT_MAX;

    if (MAX(x->len, y->len) <= SHORT) {
        find_in_short(x, y, k, &best, &i, &j);
    } else {
        find_near(a->scratch->rows, x, y, k, &best, &i, &j);
        find_near(a->scratch->rows, y, x, k, &best, &j, &i);
    }
    if (best == UINT_MAX) {
        return false;
    }
    to[0] = g_array_index(x, struct outline, i);
    to[1] = g_array_index(y, struct outline, j);
    return true;
}

/* The edge of a side at a position; DIFF_EDGE_GAP if there is none */
static uint32_t edge_at(struct diff_align *a, unsigned side, uint64_t at)
{
    size_t n;
    const uint32_t *e = diff_sequence_at(&a->sequence[side], at, &n);

    return e ? *e : DIFF_EDGE_GAP;
}

/* The edge at which a side differs */
static uint32_t edge_here(struct diff_align *a, unsigned side)
{
    return edge_at(a, side, a->at[side]);
}

/* Reports a difference, and goes to its end. */
static void part(struct diff_align *a, const struct outline to[DIFF_SIDES],
                 unsigned levels, bool forget, enum diff_end end)
{
    struct diff_difference d = { .levels = levels, .end = end };

    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        d.at[side] = a->at[side];
        d.n[side] = to[side].at - a->at[side];
        d.edge[side] = edge_here(a, side);
        d.gap |= d.edge[side] == DIFF_EDGE_GAP &&
                 a->at[side] < a->sequence[side].end;
    }
    a->differs(a->opaque, a, &d);
    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        a->at[side] = a->since[side] = to[side].at;
    }
    g_array_set_size(a->stack, forget || levels > a->stack->len ? 0 :
                     a->stack->len - levels);
    a->effort = 0;
    a->done = end != DIFF_TOGETHER;
}

/* Is enough known of a side for the effort? */
static bool has_enough(const struct diff_align *a, unsigned side)
{
    return a->sequence[side].whole ||
           a->sequence[side].end - a->at[side] >= efforts[a->effort].edges;
}

/* Both sides may do the same a little earlier: not all turns of loops count. */
static void extend(struct diff_align *a, struct outline to[DIFF_SIDES])
{
    while (to[0].at > a->at[0] && to[1].at > a->at[1]) {
        uint32_t e = edge_at(a, 0, to[0].at - 1);

        if ((e & DIFF_EDGE_STACK) || e == DIFF_EDGE_GAP ||
            e != edge_at(a, 1, to[1].at - 1)) {
            break;
        }
        to[0].at--;
        to[1].at--;
    }
}

/* Searches the functions of the stack. */
static bool find_in_functions(struct diff_align *a)
{
    struct outline to[DIFF_SIDES];

    make_outline(a, 0);
    make_outline(a, 1);
    if (!find_same(a, SAME_OUTLINE, to)) {
        return false;
    }
    extend(a, to);
    part(a, to, to[0].what >> 32, false, DIFF_TOGETHER);
    return true;
}

static bool find_anywhere(struct diff_align *a)
{
    struct outline to[DIFF_SIDES];

    make_piece(a, 0);
    make_piece(a, 1);
    if (!find_same(a, SAME_EDGES, to)) {
        return false;
    }
    part(a, to, 0, true, DIFF_TOGETHER);
    return true;
}

static bool is_at_end(const struct diff_align *a, unsigned side)
{
    return a->sequence[side].whole && a->at[side] == a->sequence[side].end;
}

/* Both sides have nothing in common any more, as far as was searched. */
static void give_up(struct diff_align *a)
{
    bool ended = is_at_end(a, 0) || is_at_end(a, 1);
    struct outline to[DIFF_SIDES];
    bool all = true;

    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        const struct diff_sequence *s = &a->sequence[side];

        to[side].at = s->end;
        all &= s->whole && s->end - a->at[side] <=
               efforts[G_N_ELEMENTS(efforts) - 1].edges;
    }
    ended |= all;
    part(a, to, 0, true, ended ? DIFF_ENDED : DIFF_LOST);
}

/*
 * Searches for where both sides do the same again.  Returns false if more of
 * them is needed for that.
 */
static bool find_together(struct diff_align *a)
{
    /* A trace may begin anywhere, and continue anywhere after a gap. */
    bool gap = !a->same || edge_here(a, 0) == DIFF_EDGE_GAP ||
               edge_here(a, 1) == DIFF_EDGE_GAP;
    bool last;

    if (is_at_end(a, 0) || is_at_end(a, 1) ||
        a->searched > SEARCH_FREE + SEARCH_EACH * (a->at[0] + a->at[1])) {
        give_up(a);
        return true;
    }
    for (; a->effort < G_N_ELEMENTS(efforts); a->effort++) {
        if (!has_enough(a, 0) || !has_enough(a, 1)) {
            return false;
        }
        if (!gap && find_in_functions(a)) {
            return true;
        }
        last = a->effort == G_N_ELEMENTS(efforts) - 1;
        if (((gap || last) && find_anywhere(a)) ||
            (gap && last && find_in_functions(a))) {
            return true;
        }
    }
    a->effort = 0;
    give_up(a);
    return true;
}

void diff_align_run(struct diff_align *a, uint64_t dropped[DIFF_SIDES])
{
    while (!a->done) {
        const uint32_t *e[DIFF_SIDES];
        size_t n[DIFF_SIDES], same = 0;

        for (unsigned side = 0; side < DIFF_SIDES; side++) {
            e[side] = diff_sequence_at(&a->sequence[side], a->at[side],
                                       &n[side]);
        }
        if (n[0] && n[1]) {
            size_t most = MIN(n[0], n[1]);

            same = follow(a, e[0], e[1], most);
            a->same += same;
            a->at[0] += same;
            a->at[1] += same;
            if (same == most) {
                continue;
            }
        } else if ((!n[0] && !a->sequence[0].whole) ||
                   (!n[1] && !a->sequence[1].whole)) {
            break;
        } else if (!n[0] && !n[1]) {
            a->done = true;
            break;
        }
        if (!find_together(a)) {
            break;
        }
    }
    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        uint64_t at = a->at[side];

        dropped[side] = diff_sequence_drop(
            &a->sequence[side],
            a->done ? UINT64_MAX : at - MIN(at, DIFF_HISTORY));
    }
}

struct diff_scratch *diff_scratch_new(void)
{
    struct diff_scratch *s = g_new0(struct diff_scratch, 1);

    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        s->sides[side] = g_array_new(FALSE, FALSE, sizeof(struct outline));
    }
    s->own = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    s->rows = g_new(struct align_row, ROWS);
    return s;
}

void diff_scratch_free(struct diff_scratch *s)
{
    if (s) {
        g_array_unref(s->sides[0]);
        g_array_unref(s->sides[1]);
        g_array_unref(s->own);
        g_free(s->rows);
        g_free(s);
    }
}

void diff_align_init(struct diff_align *a, const struct diff_edges *edges,
                     struct diff_scratch *scratch, diff_differs_fn *differs,
                     void *opaque)
{
    *a = (struct diff_align) {
        .edges = edges, .scratch = scratch, .differs = differs,
        .opaque = opaque,
        .stack = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
    };
    diff_sequence_init(&a->sequence[0]);
    diff_sequence_init(&a->sequence[1]);
}

void diff_align_clear(struct diff_align *a)
{
    diff_sequence_clear(&a->sequence[0]);
    diff_sequence_clear(&a->sequence[1]);
    g_clear_pointer(&a->stack, g_array_unref);
}
