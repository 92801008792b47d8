/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Codec "path": records to bytes, see codec.h
 */

#include "lib/internal/count-model.h"

/* Pieces of code that were added to the footprint last, by their hash */
#define PIECES_LOG 10
/* No block has this many records. */
#define NO_GAP UINT32_MAX
/* A visit has room for the number of the edge before, if that is small. */
#define VISIT_BITS 20
#define VISIT_EDGE ((1u << VISIT_BITS) - 1)
G_STATIC_ASSERT(BTRAIL_CODEC_MAX_EDGES <= VISIT_EDGE);

struct btrail_encoder {
    struct path_model m;
    struct btrail_buf *out;
    struct btrail_footprint *footprint;
    uint64_t pieces[1 << PIECES_LOG];
    uint32_t *reach;            /* bytes before each edge that were added */
    uint64_t to; /* of the last record before the first one */
    uint32_t gap; /* records before those that are missing */
    uint64_t forks;             /* passed since the last miss */
    uint32_t start;             /* the step after it */
    uint64_t flags;             /* of the last record */
    uint64_t same_flags;        /* records since they changed */
    bool counting;              /* they have an instruction count, which */
    uint64_t predicted;         /* was right for this many */
    struct count_model counts;
};

struct btrail_encoder *btrail_encoder_new(void)
{
    struct btrail_encoder *enc = g_new0(struct btrail_encoder, 1);

    if (!btrail_path_model_reserve(&enc->m, BTRAIL_CODEC_MAX_RECORDS)) {
        g_error("out of memory");
    }
    enc->reach = g_new(uint32_t, BTRAIL_CODEC_MAX_EDGES + 1);
    return enc;
}

void btrail_encoder_free(struct btrail_encoder *enc)
{
    if (enc) {
        btrail_path_model_free(&enc->m);
        g_free(enc->reach);
        g_free(enc);
    }
}

void btrail_encoder_begin(struct btrail_encoder *enc, struct btrail_buf *out,
                          struct btrail_footprint *footprint)
{
    uint32_t n = enc->m.at.n;

    if (n) {
        enc->to = enc->m.edges[enc->m.path[n] & STEP_EDGE].to;
    }
    enc->gap = enc->gap == n ? 0 : NO_GAP;
    btrail_path_model_begin(&enc->m);
    enc->footprint = footprint;
    /* No piece has these bits. */
    memset(enc->pieces, 0xff, sizeof(enc->pieces));
    enc->out = out;
    enc->forks = 0;
    enc->start = 1;
    enc->flags = 0;
    enc->same_flags = 0;
    enc->counting = false;
    enc->predicted = 0;
    count_model_begin(&enc->counts);
}

/*
 * The most bytes of a record in all streams together.  With a count, flags need
 * less.
 */
#define MAX_RECORD_BYTES \
    (BTRAIL_CODEC_MAX_MISS_BYTES + BTRAIL_CODEC_MAX_STRAIGHT_BYTES + \
     BTRAIL_CODEC_MAX_LENGTH_BYTES + BTRAIL_CODEC_MAX_TARGET_BYTES + \
     BTRAIL_CODEC_MAX_DISTANCE_BYTES + \
     MAX(BTRAIL_CODEC_MAX_FLAG_BYTES, 4 + 3 + BTRAIL_CODEC_MAX_COUNT_BYTES))

size_t btrail_encoder_room(const struct btrail_encoder *enc)
{
    /* A miss still follows at the end. */
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
struct encoding {
    uint8_t *end[BTRAIL_CODEC_FLAGS];
};

static inline void put(struct encoding *out, enum btrail_codec_stream stream,
                       uint64_t v)
{
    out->end[stream] = btrail_put_varint(out->end[stream], v);
}

/*
 * The same for numbers that are sometimes below 0x80 and sometimes not: without
 * a branch on their size, which the CPU could not predict.
 */
static inline void put_any(struct encoding *out,
                           enum btrail_codec_stream stream,
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

/* Does an edge go back to after one of the latest branches? */
static bool is_return(struct path_model *m, uint64_t to, struct encoding *out)
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
static void encode_length(struct path_model *m, struct encoding *out,
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
static void encode_target(struct path_model *m, struct encoding *out,
                          uint64_t from, uint64_t to)
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

static void add_piece(struct btrail_encoder *enc, uint64_t line, unsigned more)
{
    uint64_t piece = line << BTRAIL_FOOTPRINT_SHIFT | more;
    uint64_t *last = &enc->pieces[piece * HASH_0 >> (64 - PIECES_LOG)];

    if (*last != piece) {
        *last = piece;
        btrail_footprint_add(enc->footprint, piece);
    }
}

static void add_code(struct btrail_encoder *enc, uint64_t begin, uint64_t end)
{
    uint64_t line = begin >> BTRAIL_FOOTPRINT_SHIFT;
    uint64_t more = (end >> BTRAIL_FOOTPRINT_SHIFT) - line;

    for (; more >= BTRAIL_FOOTPRINT_PIECE; more -= BTRAIL_FOOTPRINT_PIECE) {
        add_piece(enc, line, BTRAIL_FOOTPRINT_PIECE - 1);
        line += BTRAIL_FOOTPRINT_PIECE;
    }
    add_piece(enc, line, more);
}

/* Adds what ran before each edge. */
static void add_footprint(struct btrail_encoder *enc)
{
    for (uint32_t i = 1; i <= enc->m.n_edges; i++) {
        uint64_t from = enc->m.edges[i].from;

        if (enc->reach[i]) {
            add_code(enc, from - (enc->reach[i] - 1), from);
        }
    }
}

/*
 * Code ran from @to, where the last record went, up to @from, where @edge
 * begins.  What follows as predicted has followed before, so only misses need
 * this.  There are many of them, so it only notes how far before the edge code
 * ran.  If @from is below, what was between is not part of the session: the two
 * ends ran.
 */
static inline void ran(struct btrail_encoder *enc, uint32_t n, uint32_t edge,
                       uint64_t to, uint64_t from)
{
    uint64_t length = from - to;

    if (from < to) {
        add_code(enc, to, to);
        add_code(enc, from, from);
    } else if (length >> BTRAIL_FOOTPRINT_SHIFT < BTRAIL_FOOTPRINT_MOST) {
        enc->reach[edge] = MAX(enc->reach[edge], length + 1);
    } else {
        /* What is missing can be anywhere; else it is very long code. */
        enc->footprint->any |= n != enc->gap;
    }
}

/* The next record is @from, @to, and not the one that was predicted. */
static void encode_miss(struct btrail_encoder *enc, struct encoding *out,
                        struct path_position *at, uint64_t from, uint64_t to)
{
    struct path_model *m = &enc->m;
    const struct path_edge *edges = m->edges;
    uint32_t predicted = m->path[at->ahead] & STEP_EDGE;
    uint32_t before = m->path[at->n] & STEP_EDGE;
    struct path_visit *taken = taken_slot(m, before, predicted);
    uint32_t came = before <= UINT32_MAX >> VISIT_BITS ? before << VISIT_BITS :
                                                         0;
    uint32_t visit = taken->edge;
    uint32_t edge = visit & VISIT_EDGE;
    unsigned miss = MISS_KNOWN;

    /* These are far, and needed unless the prediction is right. */
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
            enc->reach[edge] = 0;
        }
        *leaving = edge;
    }
    /* What has followed the same edge before is noted already. */
    if (enc->footprint && (!came || visit != (came | edge))) {
        ran(enc, at->n, edge, at->n ? edges[before].to : enc->to, from);
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
    taken->edge = came | edge;
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

/* Which bits differ between the predicted step and the record? */
static inline addresses differ(const struct path_model *m, uint32_t step,
                               const struct btrail_record *r)
{
    return load_addresses(&m->edges[step & STEP_EDGE]) ^ load_addresses(r);
}

static inline bool any_bit(addresses a)
{
    return a[0] | a[1];
}

/*
 * Skips records as predicted, up to the first one that is not, or @end.  Adds
 * bits of flags that differ from enc->flags to @different.
 */
static const struct btrail_record *
encode_predicted(struct btrail_encoder *enc, struct path_position *at,
                const struct btrail_record *records,
                const struct btrail_record *end, uint64_t *different)
{
    struct path_model *m = &enc->m;
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
            const struct path_edge *e = &m->edges[step & STEP_EDGE];

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
                /* No branches: the CPU could not predict them. */
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
                                 struct encoding *out,
                                 const struct btrail_record *records,
                                 size_t n)
{
    const struct btrail_record *end = records + n;
    struct path_position at = enc->m.at;
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

static inline void encode_flag(struct btrail_encoder *enc, uint64_t flags)
{
    struct btrail_buf *out = &enc->out[BTRAIL_CODEC_FLAGS];

    if (G_UNLIKELY(flags != enc->flags)) {
        btrail_buf_append_varint(out, enc->same_flags);
        btrail_buf_append_varint(out, flags);
        enc->flags = flags;
        enc->same_flags = 0;
    }
    enc->same_flags++;
}

static void encode_flags(struct btrail_encoder *enc,
                         const struct btrail_record *records, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        encode_flag(enc, load(&records[i].flags));
    }
}

/* The same for flags with counts.  The path has the addresses. */
static void encode_counts(struct btrail_encoder *enc,
                          const struct btrail_record *records, size_t n)
{
    struct btrail_buf *out = &enc->out[BTRAIL_CODEC_COUNTS];
    struct count_model *c = &enc->counts;
    size_t i;

    c->used = true;
    for (i = 0; i < n; i++) {
        uint64_t flags = load(&records[i].flags);
        uint64_t count = flags >> BTRAIL_RECORD_ICOUNT_SHIFT;
        uint64_t more = (count - c->count) & COUNT_MASK;
        uint32_t *between = count_slot(c, &enc->m);

        encode_flag(enc, flags & ~(COUNT_MASK << BTRAIL_RECORD_ICOUNT_SHIFT));
        if (more != *between) {
            btrail_buf_append_varint(out, enc->predicted);
            btrail_buf_append_varint(out, more);
            *between = more;
            enc->predicted = 0;
        } else {
            enc->predicted++;
        }
        c->count = count;
        c->steps++;
    }
}

/* Records between two checks of the buffers' sizes */
#define ENCODE_STEP 4096

static void encode_step(struct btrail_encoder *enc,
                        const struct btrail_record *records, size_t n)
{
    struct encoding out;
    uint64_t different;
    unsigned i;

    if (!enc->m.at.n) {
        enc->counting = load(&records->flags) >> BTRAIL_RECORD_ICOUNT_SHIFT;
    }
    for (i = 0; i < BTRAIL_CODEC_FLAGS; i++) {
        btrail_buf_reserve(&enc->out[i], n * BTRAIL_VARINT_MAX);
        out.end[i] = enc->out[i].data + enc->out[i].len;
    }
    different = encode_addresses(enc, &out, records, n);
    if (enc->counting) {
        encode_counts(enc, records, n);
    } else if (different) {
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

void btrail_encoder_gap(struct btrail_encoder *enc)
{
    enc->gap = enc->m.at.n;
    if (enc->footprint) {
        enc->footprint->gap = true;
    }
}

void btrail_encoder_end(struct btrail_encoder *enc)
{
    if (enc->footprint) {
        add_footprint(enc);
    }
    if (enc->m.at.n + 1 > enc->start) {
        btrail_buf_append_varint(&enc->out[enc->m.misses],
                                 enc->forks << MISS_FORKS);
        enc->start = enc->m.at.n + 1;
    }
}
