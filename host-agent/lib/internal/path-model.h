/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The model of codec "path", which the encoder and the decoder share
 *
 * A program takes the paths that it has taken before.  The model keeps a list
 * of the edges (from and to) that have been taken, and the path through them.
 * The record that came next the last time is predicted to come next again.
 *
 * The functions for each record are inline: encoder and decoder spend their
 * time here.
 */

#ifndef BTRAIL_PATH_MODEL_H
#define BTRAIL_PATH_MODEL_H

#include <glib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "backtrail/trace.h"
#include "lib/internal/codec.h"

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
/* Clearing the tables costs more than all else that a short input does. */
#define TABLE_BITS      8
#else
#define TABLE_BITS      16
#endif

/*
 * A step of the path: the number of its edge, and, if the path was seen to
 * fork off there, how often it must be predicted right until that is forgotten
 */
#define STEP_EDGE       0x0fffffffu
#define STEP_ONCE       0x10000000u
#define STEP_FORK       0xf0000000u

/* What an edge that was not predicted is, in the low bits of a miss */
#define MISS_KNOWN      0u      /* the one taken here the last time */
#define MISS_SEEN       1u      /* the last one from that address */
#define MISS_NEW        2u
#define MISS_RETURN     3u      /* new, goes back to after a branch */
#define MISS_KIND       3u
#define MISS_STRAIGHT   4u      /* a number in the straights follows */
#define MISS_FORKS      3       /* shift of the number of forks passed */

/*
 * The first byte of a target: a distance, whose other bits follow elsewhere if
 * it is 0x80 or more, or this.  A distance of -1, which it would be otherwise,
 * hardly occurs and can be 0x81 and 0.
 */
#define TARGET_KNOWN    1u      /* a place in the table follows */
#define TARGET_MORE     0x80u

/* Branches that something may return to */
#define CALLS           64
/* How many of them, from the latest, are checked */
#define CALL_DEPTH      16
/* The most bytes from a branch to after it: no instruction is longer. */
#define CALL_LENGTH     15
/* A branch that goes less far forward is not a call. */
#define CALL_DISTANCE   128

/* Steps before the first one that take part in a hash */
#define PATH_PAD        2

/*
 * Steps that the encoder compares at once after this many predicted ones:
 * short runs end sooner step by step.
 */
#define WIDE            4
#define NARROW          16

struct path_edge {
    uint64_t from;
    uint64_t to;
};

/* A miss, as a place to predict from */
struct path_visit {
    uint32_t edge;              /* that was taken */
    uint32_t step;
};

/*
 * The current place on the path.  Long loops work on a copy and write it back:
 * the compiler cannot know that it does not alias the steps.
 */
struct path_position {
    uint32_t n;                 /* steps */
    uint32_t ahead;             /* the step predicted; 0 if none is */
};

/*
 * The model.  Edges are numbered from 1, and so are the steps of the path; 0 is
 * none.
 */
struct path_model {
    /* btrail_path_model_begin() clears all up to @used. */
    struct path_visit taken[1u << TABLE_BITS];  /* by edge before, predicted */
    struct path_visit after[1u << TABLE_BITS];  /* by the last 4 edges */
    uint32_t leaving[1u << TABLE_BITS]; /* by address: the last edge */
    uint32_t arriving[1u << TABLE_BITS];    /* by address: the last edge to */
    uint64_t calls[CALLS];
    uint32_t call;                      /* where the next one goes */
    uint32_t n_edges;
    struct path_position at;
    uint32_t misses;                    /* stream that the next miss is in */

    bool used;                          /* else all above is clear */
    struct path_edge *edges;
    uint32_t *last;                     /* by edge: where it was last missed */
    uint32_t *path;                     /* [-PATH_PAD] is the first one */
    uint32_t max_edges;
    uint32_t max_steps;
};

/* Factors of hashes, whose highest bits are the place in a table */
#define HASH_0          0x9e3779b97f4a7c15ull
#define HASH_1          0xff51afd7ed558ccdull
#define HASH_2          0xc4ceb9fe1a85ec53ull
#define HASH_3          0xbf58476d1ce4e5b9ull

static inline uint32_t table_slot(uint64_t hash)
{
    return hash >> (64 - TABLE_BITS);
}

/* The same step once more */
static inline uint32_t repeat(uint32_t step)
{
    return step < STEP_ONCE ? step : step - STEP_ONCE;
}

/* This many steps, or an answer for each: all bits or none */
typedef uint32_t wide_steps __attribute__((vector_size(WIDE * 4)));

static inline wide_steps wide_load(const uint32_t *steps)
{
    wide_steps w;

    memcpy(&w, steps, sizeof(w));
    return w;
}

static inline void wide_store(uint32_t *steps, wide_steps w)
{
    memcpy(steps, &w, sizeof(w));
}

static inline wide_steps wide_is_fork(wide_steps w)
{
    /* Without the sign, as SSE2 compares */
    return (wide_steps)((w >> 28) != 0);
}

static inline wide_steps wide_repeat(wide_steps w, wide_steps is_fork)
{
    return w - (is_fork & STEP_ONCE);
}

/* Bit i is set if the answer for step i is yes. */
static inline unsigned wide_bits(wide_steps answers)
{
#ifdef __SSE2__
    return _mm_movemask_ps((__m128)answers);
#else
    const wide_steps bits = { 1, 2, 4, 8 };

    answers &= bits;
    return answers[0] | answers[1] | answers[2] | answers[3];
#endif
}

/* How many of WIDE bits are set: not every CPU can count, nor the compiler */
static inline unsigned wide_count(unsigned bits)
{
    return UINT64_C(0x4332322132212110) >> 4 * bits & 0xf;
}

void btrail_path_model_free(struct path_model *m);

/* Gets memory for this many steps; false if there is none. */
bool btrail_path_model_reserve(struct path_model *m, uint32_t steps);

/* Forgets everything, for the first record. */
void btrail_path_model_begin(struct path_model *m);

static inline uint32_t *leaving_slot(struct path_model *m, uint64_t from)
{
    return &m->leaving[table_slot(from * HASH_0)];
}

static inline uint32_t arriving_place(uint64_t to)
{
    return table_slot(to * HASH_0);
}

static inline struct path_visit *
taken_slot(struct path_model *m, uint32_t before, uint32_t predicted)
{
    return &m->taken[table_slot(before * HASH_0 + predicted * HASH_1)];
}

static inline uint32_t new_edge(struct path_model *m, uint64_t from,
                                uint64_t to)
{
    uint32_t edge = ++m->n_edges;

    m->edges[edge] = (struct path_edge) { from, to };
    m->last[edge] = 0;
    return edge;
}

static inline void push_call(struct path_model *m, uint64_t from, uint64_t to)
{
    if (to - from >= CALL_DISTANCE) {
        m->calls[m->call++ % CALLS] = from;
    }
}

/*
 * The path takes @edge, which was not predicted; if it is @known, the path also
 * took it there the last time.  Finds where the path was the same before, to
 * predict from there.
 */
static inline void miss_step(struct path_model *m, struct path_position *at,
                             uint32_t predicted, struct path_visit *taken,
                             uint32_t edge, bool known)
{
    uint32_t *path = m->path;
    uint32_t n = at->n + 1;
    uint32_t same;

    if (known) {
        same = taken->step;
        m->misses = BTRAIL_CODEC_MISSES_EDGES;
    } else {
        const uint32_t *before = path + at->n;
        uint64_t hash = edge * HASH_0 + (before[0] & STEP_EDGE) * HASH_1 +
                        (before[-1] & STEP_EDGE) * HASH_2 +
                        (before[-2] & STEP_EDGE) * HASH_3;
        struct path_visit *after = &m->after[table_slot(hash)];

        same = after->edge == edge ? after->step : m->last[edge];
        m->misses = after->edge == edge ? BTRAIL_CODEC_MISSES_EDGES :
                    same ? BTRAIL_CODEC_MISSES_EDGE : BTRAIL_CODEC_MISSES_NONE;
        *after = (struct path_visit) { edge, n };
    }
    *taken = (struct path_visit) { edge, n };
    at->ahead = same ? same + 1 : 0;
    at->n = n;
    path[n] = edge | (predicted ? STEP_FORK : 0);
    m->last[edge] = n;
}

#endif /* BTRAIL_PATH_MODEL_H */
