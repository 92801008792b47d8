/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Codec "path": see codec.h
 */

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
#define MISS_RETURN     3u      /* new, goes back to behind a branch */
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
/* How many of them, from the latest, are looked at */
#define CALL_DEPTH      16
/* Bytes from the branch to behind it, at most; no instruction is longer. */
#define CALL_LENGTH     15
/* A branch that goes less far forward is no call. */
#define CALL_DISTANCE   128

/* Steps before the first one that take part in a hash */
#define PATH_PAD        2

/*
 * Steps that the encoder passes at once where the path has gone as predicted for
 * so many steps already: of short runs the end comes later that way.
 */
#define WIDE            4
#define NARROW          16

struct edge {
    uint64_t from;
    uint64_t to;
};

/* A miss, as a place to go on from */
struct visit {
    uint32_t edge;              /* that was taken */
    uint32_t step;
};

/*
 * Where on the path it is now.  What runs for long has one of its own, which
 * it writes back: the compiler cannot know that steps are no part of it.
 */
struct place {
    uint32_t n;                 /* steps */
    uint32_t ahead;             /* the step predicted; 0 if none is */
};

/*
 * What encoder and decoder do alike.  Edges are numbered from 1, and so are
 * the steps of the path; 0 is none.
 */
struct model {
    /* What comes in here is set to 0 at the start. */
    struct visit taken[1u << TABLE_BITS];   /* by edges before and predicted */
    struct visit after[1u << TABLE_BITS];   /* by the last 4 edges */
    uint32_t leaving[1u << TABLE_BITS]; /* by address: the last edge */
    uint32_t arriving[1u << TABLE_BITS];    /* by address: the last edge to */
    uint64_t calls[CALLS];
    uint32_t call;                      /* where the next one goes */
    uint32_t n_edges;
    struct place at;
    uint32_t misses;                    /* stream that the next miss is in */

    struct edge *edges;
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

/* So many steps, or an answer for each: all bits or none */
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

static void model_free(struct model *m)
{
    g_free(m->path ? m->path - PATH_PAD : NULL);
    g_free(m->edges);
    g_free(m->last);
    m->path = NULL;
    m->edges = NULL;
    m->last = NULL;
    m->max_steps = 0;
}

static bool model_reserve(struct model *m, uint32_t steps)
{
    if (m->path && steps <= m->max_steps) {
        return true;
    }
    model_free(m);
    m->max_edges = MIN(steps, BTRAIL_CODEC_MAX_EDGES);
    m->path = g_try_new(uint32_t, (size_t)steps + 1 + PATH_PAD);
    m->edges = g_try_new(struct edge, (size_t)m->max_edges + 1);
    m->last = g_try_new(uint32_t, (size_t)m->max_edges + 1);
    if (!m->path || !m->edges || !m->last) {
        g_free(m->path);
        m->path = NULL;
        model_free(m);
        return false;
    }
    m->path += PATH_PAD;
    m->max_steps = steps;
    return true;
}

static void model_begin(struct model *m)
{
    memset(m, 0, offsetof(struct model, edges));
    memset(m->path - PATH_PAD, 0, PATH_PAD * sizeof(*m->path));
    m->edges[0] = (struct edge) { 0, 0 };
    m->last[0] = 0;
    /* Where nothing is predicted, nothing is passed. */
    m->path[0] = STEP_FORK;
}

static inline uint32_t *leaving_slot(struct model *m, uint64_t from)
{
    return &m->leaving[table_slot(from * HASH_0)];
}

static inline uint32_t arriving_place(uint64_t to)
{
    return table_slot(to * HASH_0);
}

static inline struct visit *taken_slot(struct model *m, uint32_t before,
                                       uint32_t predicted)
{
    return &m->taken[table_slot(before * HASH_0 + predicted * HASH_1)];
}

static inline uint32_t new_edge(struct model *m, uint64_t from, uint64_t to)
{
    uint32_t edge = ++m->n_edges;

    m->edges[edge] = (struct edge) { from, to };
    m->last[edge] = 0;
    return edge;
}

static inline void push_call(struct model *m, uint64_t from, uint64_t to)
{
    if (to - from >= CALL_DISTANCE) {
        m->calls[m->call++ % CALLS] = from;
    }
}

/*
 * What was predicted is not what comes: @edge is taken instead, which was taken
 * there the last time, too, if it is @known.  Find out where the path was the
 * same, and predict from there.
 */
static inline void miss_step(struct model *m, struct place *at,
                             uint32_t predicted, struct visit *taken,
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
        struct visit *after = &m->after[table_slot(hash)];

        same = after->edge == edge ? after->step : m->last[edge];
        m->misses = after->edge == edge ? BTRAIL_CODEC_MISSES_EDGES :
                    same ? BTRAIL_CODEC_MISSES_EDGE : BTRAIL_CODEC_MISSES_NONE;
        *after = (struct visit) { edge, n };
    }
    *taken = (struct visit) { edge, n };
    at->ahead = same ? same + 1 : 0;
    at->n = n;
    path[n] = edge | (predicted ? STEP_FORK : 0);
    m->last[edge] = n;
}

const uint8_t btrail_codec_record_bytes[BTRAIL_CODEC_STREAMS] = {
    [BTRAIL_CODEC_MISSES_NONE] = BTRAIL_CODEC_MAX_MISS_BYTES,
    [BTRAIL_CODEC_MISSES_EDGE] = BTRAIL_CODEC_MAX_MISS_BYTES,
    [BTRAIL_CODEC_MISSES_EDGES] = BTRAIL_CODEC_MAX_MISS_BYTES,
    [BTRAIL_CODEC_STRAIGHTS] = BTRAIL_CODEC_MAX_STRAIGHT_BYTES,
    [BTRAIL_CODEC_LENGTHS] = BTRAIL_CODEC_MAX_LENGTH_BYTES,
    [BTRAIL_CODEC_OTHER_LENGTHS] = BTRAIL_CODEC_MAX_LENGTH_BYTES,
    [BTRAIL_CODEC_TARGETS] = BTRAIL_CODEC_MAX_TARGET_BYTES,
    [BTRAIL_CODEC_PLACES] = BTRAIL_CODEC_MAX_PLACE_BYTES,
    [BTRAIL_CODEC_DISTANCES] = BTRAIL_CODEC_MAX_DISTANCE_BYTES,
    [BTRAIL_CODEC_RETURNS] = BTRAIL_CODEC_MAX_RETURN_BYTES,
    [BTRAIL_CODEC_FLAGS] = BTRAIL_CODEC_MAX_FLAG_BYTES,
};

struct btrail_encoder {
    struct model m;
    struct btrail_buf *out;
    uint64_t forks;             /* passed since the last miss */
    uint32_t start;             /* the step after it */
    uint64_t flags;             /* of the last record */
    uint64_t same_flags;        /* records since they changed */
};

struct btrail_encoder *btrail_encoder_new(void)
{
    struct btrail_encoder *enc = g_new0(struct btrail_encoder, 1);

    if (!model_reserve(&enc->m, BTRAIL_CODEC_MAX_RECORDS)) {
        g_error("out of memory");
    }
    return enc;
}

void btrail_encoder_free(struct btrail_encoder *enc)
{
    if (enc) {
        model_free(&enc->m);
        g_free(enc);
    }
}

void btrail_encoder_begin(struct btrail_encoder *enc, struct btrail_buf *out)
{
    model_begin(&enc->m);
    enc->out = out;
    enc->forks = 0;
    enc->start = 1;
    enc->flags = 0;
    enc->same_flags = 0;
}

/* The most bytes of a record in all streams together */
#define MAX_RECORD_BYTES \
    (BTRAIL_CODEC_MAX_MISS_BYTES + BTRAIL_CODEC_MAX_STRAIGHT_BYTES + \
     BTRAIL_CODEC_MAX_LENGTH_BYTES + BTRAIL_CODEC_MAX_TARGET_BYTES + \
     BTRAIL_CODEC_MAX_DISTANCE_BYTES + BTRAIL_CODEC_MAX_FLAG_BYTES)

size_t btrail_encoder_room(const struct btrail_encoder *enc)
{
    /* A miss is still to come at the end. */
    size_t bytes = BTRAIL_CODEC_MAX_MISS_BYTES;
    size_t room = MIN(BTRAIL_CODEC_MAX_RECORDS - enc->m.at.n,
                      BTRAIL_CODEC_MAX_EDGES - enc->m.n_edges);
    unsigned i;

    for (i = 0; i < BTRAIL_CODEC_STREAMS; i++) {
        bytes += enc->out[i].len;
    }
    return MIN(room, (BTRAIL_CODEC_MAX_BYTES - bytes) / MAX_RECORD_BYTES);
}

/* Ends of the buffers, with room for what a step of the encoder adds */
struct output {
    uint8_t *end[BTRAIL_CODEC_FLAGS];
};

static inline void put(struct output *out, enum btrail_codec_stream stream,
                       uint64_t v)
{
    out->end[stream] = btrail_put_varint(out->end[stream], v);
}

/*
 * The same for numbers that are sometimes below 0x80 and sometimes not: how
 * many bytes it takes is no branch that the CPU would have to guess.
 */
static inline void put_any(struct output *out, enum btrail_codec_stream stream,
                           uint64_t v)
{
    uint8_t *p = out->end[stream];
    unsigned more = v >= 0x80;

    if (G_UNLIKELY(v >= 1u << 14)) {
        put(out, stream, v);
        return;
    }
    p[0] = v | more << 7;
    p[1] = v >> 7;
    out->end[stream] = p + 1 + more;
}

/* Does an edge go back to behind one of the latest branches? */
static bool is_return(struct model *m, uint64_t to, struct output *out)
{
    unsigned depth;

    for (depth = 0; depth < CALL_DEPTH; depth++) {
        uint64_t length = to - m->calls[(m->call - depth - 1) % CALLS];

        if (length <= CALL_LENGTH) {
            *out->end[BTRAIL_CODEC_RETURNS]++ = depth << 4 | length;
            m->call -= depth + 1;
            return true;
        }
    }
    return false;
}

/* Where does the edge begin that is taken instead of @predicted? */
static void encode_length(struct model *m, struct output *out,
                          uint32_t before, uint32_t predicted, uint64_t from)
{
    uint64_t length = from - m->edges[before].to;
    uint64_t other;

    if (!predicted) {
        put_any(out, BTRAIL_CODEC_LENGTHS, length);
        return;
    }
    /* 0 is the same branch; no number is needed for it again. */
    other = m->edges[predicted].from - m->edges[before].to;
    put_any(out, BTRAIL_CODEC_OTHER_LENGTHS,
            length == other ? 0 : length + (length < other));
}

/* Where does a new edge go? */
static void encode_target(struct model *m, struct output *out, uint64_t from,
                          uint64_t to)
{
    uint64_t z = btrail_zigzag(to - from);
    uint32_t place = arriving_place(to);
    uint32_t known = m->arriving[place];

    if (z < TARGET_MORE && z != TARGET_KNOWN) {
        *out->end[BTRAIL_CODEC_TARGETS]++ = z;
    } else if (known && m->edges[known].to == to) {
        *out->end[BTRAIL_CODEC_TARGETS]++ = TARGET_KNOWN;
        *out->end[BTRAIL_CODEC_PLACES]++ = place;
        *out->end[BTRAIL_CODEC_PLACES]++ = place >> 8;
    } else {
        *out->end[BTRAIL_CODEC_TARGETS]++ = z | TARGET_MORE;
        put(out, BTRAIL_CODEC_DISTANCES, z >> 7);
    }
    m->arriving[place] = m->n_edges + 1;
}

/* The next record is @from, @to, and not the one that was predicted. */
static void encode_miss(struct btrail_encoder *enc, struct output *out,
                        struct place *at, uint64_t from, uint64_t to)
{
    struct model *m = &enc->m;
    const struct edge *edges = m->edges;
    uint32_t predicted = m->path[at->ahead] & STEP_EDGE;
    uint32_t before = m->path[at->n] & STEP_EDGE;
    struct visit *taken = taken_slot(m, before, predicted);
    uint32_t edge = taken->edge;
    unsigned miss = MISS_KNOWN;

    /* These are far, and needed unless the guess just made is right. */
    __builtin_prefetch(leaving_slot(m, from));
    __builtin_prefetch(&m->arriving[arriving_place(to)]);
    if (!edge || edges[edge].from != from || edges[edge].to != to) {
        uint32_t *leaving = leaving_slot(m, from);

        edge = *leaving;
        encode_length(m, out, before, predicted, from);
        if (edge && edges[edge].from == from && edges[edge].to == to) {
            miss = MISS_SEEN;
        } else {
            if (is_return(m, to, out)) {
                miss = MISS_RETURN;
            } else {
                miss = MISS_NEW;
                encode_target(m, out, from, to);
                push_call(m, from, to);
            }
            edge = new_edge(m, from, to);
        }
        *leaving = edge;
    }

    if (m->path[at->ahead] < STEP_ONCE) {
        uint32_t most = at->n + 1 - enc->start;
        uint32_t straight = 0;

        while (straight < most &&
               m->path[at->ahead - straight - 1] < STEP_ONCE) {
            straight++;
        }
        put(out, BTRAIL_CODEC_STRAIGHTS, straight);
        miss |= MISS_STRAIGHT;
    }
    put_any(out, m->misses, enc->forks << MISS_FORKS | miss);
    m->path[at->ahead] |= STEP_FORK;
    miss_step(m, at, predicted, taken, edge, (miss & MISS_KIND) == MISS_KNOWN);
    enc->forks = 0;
    enc->start = at->n + 1;
}

static inline uint64_t load(const uint64_t *field)
{
    return __atomic_load_n(field, __ATOMIC_RELAXED);
}

/* From and to of a record or an edge */
typedef uint64_t addresses __attribute__((vector_size(16)));

static inline addresses load_addresses(const void *p)
{
    /* Once: records can change meanwhile. */
    typedef addresses unaligned __attribute__((aligned(8), may_alias));

    return *(const volatile unaligned *)p;
}

/* Which bits differ between what step is predicted and the record? */
static inline addresses differ(const struct model *m, uint32_t step,
                               const struct btrail_record *r)
{
    return load_addresses(&m->edges[step & STEP_EDGE]) ^ load_addresses(r);
}

static inline bool any_bit(addresses a)
{
    return a[0] | a[1];
}

/*
 * Pass over records as predicted, up to the first one that is not, or @end.
 * Bits of flags that are not as in enc->flags are added to @different.
 */
static const struct btrail_record *
encode_predicted(struct btrail_encoder *enc, struct place *at,
                const struct btrail_record *records,
                const struct btrail_record *end, uint64_t *different)
{
    struct model *m = &enc->m;
    const uint32_t *ahead = m->path + at->ahead;
    uint32_t *path = m->path + at->n;
    uint64_t flags = enc->flags;
    uint64_t changed = 0;
    const struct btrail_record *stop = records + MIN(end - records, NARROW);
    unsigned forks = 0;
    uint32_t same;

    for (;; stop = end) {
        for (; records < stop; records++) {
            uint32_t step = *ahead;
            const struct edge *e = &m->edges[step & STEP_EDGE];

            if ((e->from ^ load(&records->from)) |
                (e->to ^ load(&records->to))) {
                goto out;
            }
            *++path = repeat(step);
            ahead++;
            forks += step >= STEP_ONCE;
            changed |= load(&records->flags) ^ flags;
        }
        if (stop == end) {
            break;
        }
        /* All that is predicted is there, and none of it is written here. */
        while (path - ahead >= WIDE - 1 && end - records >= WIDE) {
            wide_steps steps = wide_load(ahead);
            wide_steps is_fork = wide_is_fork(steps);
            addresses d0 = differ(m, ahead[0], &records[0]);
            addresses d1 = differ(m, ahead[1], &records[1]);
            addresses d2 = differ(m, ahead[2], &records[2]);
            addresses d3 = differ(m, ahead[3], &records[3]);
            unsigned bits = wide_bits(is_fork);

            changed |= (load(&records[0].flags) ^ flags) |
                       (load(&records[1].flags) ^ flags) |
                       (load(&records[2].flags) ^ flags) |
                       (load(&records[3].flags) ^ flags);
            wide_store(path + 1, wide_repeat(steps, is_fork));
            if (any_bit(d0 | d1 | d2 | d3)) {
                /* No branches that the CPU would have to guess */
                unsigned one = !any_bit(d0);
                unsigned two = one & !any_bit(d1);
                unsigned n = one + two + (two & !any_bit(d2));

                forks += wide_count(bits & ((1u << n) - 1));
                path += n;
                ahead += n;
                records += n;
                goto out;
            }
            forks += wide_count(bits);
            path += WIDE;
            ahead += WIDE;
            records += WIDE;
        }
    }
out:
    same = path - (m->path + at->n);
    at->n += same;
    at->ahead += same;
    enc->forks += forks;
    *different |= changed;
    return records;
}

/* Returns which bits of the flags of any record are not as in enc->flags. */
static uint64_t encode_addresses(struct btrail_encoder *enc,
                                 struct output *out,
                                 const struct btrail_record *records,
                                 size_t n)
{
    const struct btrail_record *end = records + n;
    struct place at = enc->m.at;
    uint64_t different = 0;

    while (records < end) {
        if (at.ahead) {
            records = encode_predicted(enc, &at, records, end, &different);
            if (records == end) {
                break;
            }
        }
        different |= load(&records->flags) ^ enc->flags;
        encode_miss(enc, out, &at, load(&records->from), load(&records->to));
        records++;
    }
    enc->m.at = at;
    return different;
}

static void encode_flags(struct btrail_encoder *enc,
                         const struct btrail_record *records, size_t n)
{
    struct btrail_buf *out = &enc->out[BTRAIL_CODEC_FLAGS];
    size_t i;

    for (i = 0; i < n; i++) {
        uint64_t flags = load(&records[i].flags);

        if (flags != enc->flags) {
            btrail_buf_append_varint(out, enc->same_flags);
            btrail_buf_append_varint(out, flags);
            enc->flags = flags;
            enc->same_flags = 0;
        }
        enc->same_flags++;
    }
}

/* Records between two looks at the buffers' sizes. */
#define ENCODE_STEP 4096

static void encode_step(struct btrail_encoder *enc,
                        const struct btrail_record *records, size_t n)
{
    struct output out;
    unsigned i;

    for (i = 0; i < BTRAIL_CODEC_FLAGS; i++) {
        btrail_buf_reserve(&enc->out[i], n * BTRAIL_VARINT_MAX);
        out.end[i] = enc->out[i].data + enc->out[i].len;
    }
    if (encode_addresses(enc, &out, records, n)) {
        encode_flags(enc, records, n);
    } else {
        enc->same_flags += n;
    }
    for (i = 0; i < BTRAIL_CODEC_FLAGS; i++) {
        enc->out[i].len = out.end[i] - enc->out[i].data;
    }
}

void btrail_encoder_records(struct btrail_encoder *enc,
                            const struct btrail_record *records, size_t n)
{
    while (n) {
        size_t step = MIN(n, ENCODE_STEP);

        encode_step(enc, records, step);
        records += step;
        n -= step;
    }
}

void btrail_encoder_end(struct btrail_encoder *enc)
{
    if (enc->m.at.n + 1 > enc->start) {
        btrail_buf_append_varint(&enc->out[enc->m.misses],
                                 enc->forks << MISS_FORKS);
        enc->start = enc->m.at.n + 1;
    }
}

struct input {
    const uint8_t *p;
    const uint8_t *end;
};

struct btrail_decoder {
    struct model m;
    struct input in[BTRAIL_CODEC_STREAMS];
    size_t records;             /* that are left */
    bool have_miss;             /* these are of the next one */
    unsigned miss;
    int64_t forks;
    uint64_t straight;
    uint64_t flags;
    uint64_t same_flags;        /* records until they change */
    uint64_t next_flags;
};

struct btrail_decoder *btrail_decoder_new(void)
{
    return g_new0(struct btrail_decoder, 1);
}

void btrail_decoder_free(struct btrail_decoder *dec)
{
    if (dec) {
        model_free(&dec->m);
        g_free(dec);
    }
}

static inline bool get(struct input *in, uint64_t *v)
{
    const uint8_t *p;

    if (G_LIKELY(in->p < in->end && *in->p < 0x80)) {
        *v = *in->p++;
        return true;
    }
    p = btrail_get_varint(in->p, in->end, v);
    if (!p) {
        return false;
    }
    in->p = p;
    return true;
}

/* Learn when flags change next, if they do. */
static bool next_change(struct btrail_decoder *dec)
{
    struct input *in = &dec->in[BTRAIL_CODEC_FLAGS];

    if (in->p == in->end) {
        dec->same_flags = UINT64_MAX;
        return true;
    }
    return get(in, &dec->same_flags) && get(in, &dec->next_flags) &&
           dec->same_flags < dec->records;
}

int btrail_decoder_begin(struct btrail_decoder *dec,
                         const uint8_t *const *data, const size_t *len,
                         size_t records)
{
    unsigned i;

    if (records > BTRAIL_CODEC_MAX_RECORDS) {
        return -BTRAIL_ERR_CORRUPT;
    }
    if (!model_reserve(&dec->m, records)) {
        return -BTRAIL_ERR_MEMORY;
    }
    model_begin(&dec->m);
    for (i = 0; i < BTRAIL_CODEC_STREAMS; i++) {
        dec->in[i].p = data[i];
        dec->in[i].end = data[i] + len[i];
    }
    dec->records = records;
    dec->have_miss = false;
    dec->flags = 0;
    return next_change(dec) ? 0 : -BTRAIL_ERR_CORRUPT;
}

/* Learn where the path is next not as predicted. */
static inline bool next_miss(struct btrail_decoder *dec, uint32_t ahead)
{
    uint64_t miss;

    if (!get(&dec->in[dec->m.misses], &miss)) {
        return false;
    }
    dec->forks = miss >> MISS_FORKS;
    dec->miss = miss & (MISS_STRAIGHT | MISS_KIND);
    dec->straight = 0;
    if ((miss & MISS_STRAIGHT) &&
        !get(&dec->in[BTRAIL_CODEC_STRAIGHTS], &dec->straight)) {
        return false;
    }
    dec->have_miss = true;
    return ahead || !(dec->forks || (miss & MISS_STRAIGHT));
}

/* Where does the edge begin that is taken instead of @predicted? */
static bool decode_length(struct btrail_decoder *dec, uint32_t before,
                          uint32_t predicted, uint64_t *from)
{
    const struct edge *edges = dec->m.edges;
    uint64_t start = edges[before].to;
    uint64_t length, other;

    if (!predicted) {
        if (!get(&dec->in[BTRAIL_CODEC_LENGTHS], &length)) {
            return false;
        }
    } else {
        if (!get(&dec->in[BTRAIL_CODEC_OTHER_LENGTHS], &length)) {
            return false;
        }
        other = edges[predicted].from - start;
        length = !length ? other : length - (length <= other);
    }
    *from = start + length;
    return true;
}

/* Where does a new edge go? */
static bool decode_target(struct btrail_decoder *dec, uint64_t from,
                          uint64_t *to)
{
    struct model *m = &dec->m;
    struct input *in = &dec->in[BTRAIL_CODEC_TARGETS];
    struct input *places = &dec->in[BTRAIL_CODEC_PLACES];
    uint64_t z, more = 0;

    if (in->p == in->end) {
        return false;
    }
    z = *in->p++;
    if (z == TARGET_KNOWN) {
        uint32_t known;

        if (places->end - places->p < 2) {
            return false;
        }
        known = m->arriving[btrail_get16(places->p) % (1u << TABLE_BITS)];
        places->p += 2;
        *to = m->edges[known].to;
        if (!known) {
            return false;
        }
    } else {
        if ((z & TARGET_MORE) &&
            !get(&dec->in[BTRAIL_CODEC_DISTANCES], &more)) {
            return false;
        }
        *to = from + btrail_unzigzag((z & ~(uint64_t)TARGET_MORE) | more << 7);
    }
    m->arriving[arriving_place(*to)] = m->n_edges + 1;
    return true;
}

/* Which edge is taken that is not known?  0 if the streams are damaged. */
static uint32_t decode_edge(struct btrail_decoder *dec, uint32_t predicted,
                            uint32_t before)
{
    struct model *m = &dec->m;
    uint32_t *leaving;
    uint64_t from, to;
    uint32_t edge;

    if (!decode_length(dec, before, predicted, &from)) {
        return 0;
    }
    leaving = leaving_slot(m, from);
    edge = *leaving;
    if ((dec->miss & MISS_KIND) == MISS_SEEN) {
        if (!edge || m->edges[edge].from != from) {
            return 0;
        }
    } else {
        if ((dec->miss & MISS_KIND) == MISS_NEW) {
            if (!decode_target(dec, from, &to)) {
                return 0;
            }
            push_call(m, from, to);
        } else {
            struct input *in = &dec->in[BTRAIL_CODEC_RETURNS];

            if (in->p == in->end) {
                return 0;
            }
            m->call -= (*in->p >> 4) + 1;
            to = m->calls[m->call % CALLS] + (*in->p & CALL_LENGTH);
            in->p++;
        }
        if (m->n_edges == m->max_edges) {
            return 0;
        }
        edge = new_edge(m, from, to);
    }
    *leaving = edge;
    return edge;
}

/* Go on with the edge that is taken instead of the one predicted. */
static inline uint32_t decode_miss(struct btrail_decoder *dec,
                                   struct place *at)
{
    struct model *m = &dec->m;
    uint32_t predicted = m->path[at->ahead] & STEP_EDGE;
    uint32_t before = m->path[at->n] & STEP_EDGE;
    struct visit *taken = taken_slot(m, before, predicted);
    bool known = (dec->miss & MISS_KIND) == MISS_KNOWN;
    uint32_t edge = known ? taken->edge : decode_edge(dec, predicted, before);

    if (edge) {
        m->path[at->ahead] |= STEP_FORK;
        miss_step(m, at, predicted, taken, edge, known);
    }
    return edge;
}

/*
 * Functions that store records only if there is a place for them: always
 * inlined, so that the compiler makes two of the whole.
 */
#define MAYBE_STORING static inline __attribute__((always_inline))

MAYBE_STORING void store(const struct model *m, uint32_t step,
                         struct btrail_record *r)
{
    if (r) {
        const struct edge *e = &m->edges[step & STEP_EDGE];

        r->from = e->from;
        r->to = e->to;
        r->flags = 0;
    }
}

/* Where to store after @n more records, if anywhere */
static inline struct btrail_record *behind(struct btrail_record *r, size_t n)
{
    return r ? r + n : NULL;
}

/*
 * Go on as predicted until the next miss, but no further than @left records.
 * Returns how many there are.
 */
MAYBE_STORING size_t decode_predicted(struct btrail_decoder *dec,
                                     struct place *at,
                                     struct btrail_record *r, size_t left)
{
    struct model *m = &dec->m;
    const uint32_t *ahead = m->path + at->ahead;
    uint32_t *path = m->path + at->n;
    uint32_t *end = path + left;
    int64_t forks = dec->forks;
    size_t done;

    if (!(dec->miss & MISS_STRAIGHT)) {
        uint32_t *stop = path + MIN(left, NARROW);

        /* Up to the fork behind the last one that was passed */
        for (;; stop = end) {
            while (path < stop) {
                uint32_t step = *ahead;

                forks -= step >= STEP_ONCE;
                if (forks < 0) {
                    goto out;
                }
                *++path = repeat(step);
                ahead++;
                store(m, step, r);
                r = behind(r, 1);
            }
            if (stop == end) {
                break;
            }
            while (path - ahead >= WIDE - 1 && end - path >= WIDE) {
                wide_steps steps = wide_load(ahead);
                wide_steps is_fork = wide_is_fork(steps);
                unsigned n = wide_count(wide_bits(is_fork)), i;

                if (n > forks) {
                    break;
                }
                for (i = 0; i < WIDE; i++) {
                    store(m, ahead[i], behind(r, i));
                }
                wide_store(path + 1, wide_repeat(steps, is_fork));
                forks -= n;
                path += WIDE;
                ahead += WIDE;
                r = behind(r, WIDE);
            }
        }
out:
        forks = MAX(forks, 0);
    } else {
        while (forks && path < end) {
            uint32_t step = *ahead++;

            forks -= step >= STEP_ONCE;
            *++path = repeat(step);
            store(m, step, r);
            r = behind(r, 1);
        }
        while (!forks && dec->straight && path < end) {
            uint32_t step = *ahead++;

            dec->straight--;
            *++path = repeat(step);
            store(m, step, r);
            r = behind(r, 1);
        }
    }
    dec->forks = forks;
    done = path - (m->path + at->n);
    at->n += done;
    at->ahead += done;
    return done;
}

MAYBE_STORING bool decode_addresses(struct btrail_decoder *dec,
                                    struct btrail_record *r, size_t n)
{
    struct model *m = &dec->m;
    struct place at = m->at;
    bool ok = true;

    while (n) {
        size_t done;
        uint32_t edge;

        if (!dec->have_miss && !next_miss(dec, at.ahead)) {
            ok = false;
            break;
        }
        done = decode_predicted(dec, &at, r, n);
        n -= done;
        if (!n) {
            break;
        }
        r = behind(r, done);

        edge = decode_miss(dec, &at);
        if (!edge) {
            ok = false;
            break;
        }
        store(m, edge, r);
        r = behind(r, 1);
        dec->have_miss = false;
        n--;
    }
    m->at = at;
    return ok;
}

static bool decode_flags(struct btrail_decoder *dec, struct btrail_record *r,
                         size_t n)
{
    size_t i = 0;

    while (i < n) {
        size_t stop = i + MIN(dec->same_flags, n - i);

        if (dec->same_flags != UINT64_MAX) {
            dec->same_flags -= stop - i;
        }
        if (r && dec->flags) {
            for (; i < stop; i++) {
                r[i].flags = dec->flags;
            }
        }
        i = stop;
        if (i < n) {
            size_t records = dec->records;
            bool ok;

            dec->flags = dec->next_flags;
            /* The next change is for one of the records behind this one. */
            dec->records -= i;
            ok = next_change(dec) && dec->same_flags;
            dec->records = records;
            if (!ok) {
                return false;
            }
        }
    }
    return true;
}

/* Have all streams come to their end? */
static bool decoder_is_done(const struct btrail_decoder *dec)
{
    unsigned i;

    for (i = 0; i < BTRAIL_CODEC_STREAMS; i++) {
        if (dec->in[i].p != dec->in[i].end) {
            return false;
        }
    }
    return !dec->have_miss || (!dec->miss && !dec->forks);
}

bool btrail_decoder_records(struct btrail_decoder *dec,
                            struct btrail_record *records, size_t n)
{
    bool ok;

    if (n > dec->records) {
        return false;
    }
    if (records) {
        ok = decode_addresses(dec, records, n);
    } else {
        ok = decode_addresses(dec, NULL, n);
    }
    if (!ok || !decode_flags(dec, records, n)) {
        return false;
    }
    dec->records -= n;
    return dec->records || decoder_is_done(dec);
}
