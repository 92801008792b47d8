/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Codec "path": bytes to records, see codec.h
 */

#include "lib/internal/count-model.h"

struct input {
    const uint8_t *p;
    const uint8_t *end;
};

struct btrail_decoder {
    struct path_model m;
    struct input in[BTRAIL_CODEC_STREAMS];
    size_t records;             /* that are left */
    bool ahead;                 /* their path is decoded, if it is sound */
    uint32_t done;              /* steps of it that were returned */
    bool have_miss;             /* these are of the next one */
    unsigned miss;
    int64_t forks;
    uint64_t straight;
    uint64_t flags;
    uint64_t same_flags;        /* records until they change */
    uint64_t next_flags;
    bool counting;              /* records have an instruction count, which */
    uint64_t predicted;         /* is right for this many, and then */
    uint64_t next_count;        /* that much more than the last one */
    struct count_model counts;
};

/*
 * The last one that was freed, or NULL: to map and unmap the tables takes
 * longer than to decode a short chunk.
 */
static struct btrail_decoder *spare;

struct btrail_decoder *btrail_decoder_new(void)
{
    struct btrail_decoder *dec =
        __atomic_exchange_n(&spare, NULL, __ATOMIC_ACQUIRE);

    return dec ? dec : g_new0(struct btrail_decoder, 1);
}

void btrail_decoder_free(struct btrail_decoder *dec)
{
    if (dec) {
        btrail_path_model_free(&dec->m);
        g_free(__atomic_exchange_n(&spare, dec, __ATOMIC_ACQ_REL));
    }
}

uint64_t btrail_decoder_memory(uint32_t records, uint64_t bytes)
{
    /* A new edge has a byte at least. */
    uint64_t edges = MIN(bytes, BTRAIL_CODEC_MAX_EDGES);

    return records * (uint64_t)sizeof(uint32_t) +
           edges * (sizeof(struct path_edge) + sizeof(uint32_t));
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

/* Reads when flags change next, if they do. */
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

/*
 * Reads which count is next not as predicted, if one is.  @left: records that
 * have none yet
 */
static bool next_count(struct btrail_decoder *dec, size_t left)
{
    struct input *in = &dec->in[BTRAIL_CODEC_COUNTS];

    if (in->p == in->end) {
        dec->predicted = UINT64_MAX;
        return true;
    }
    return get(in, &dec->predicted) && get(in, &dec->next_count) &&
           dec->predicted < left;
}

int btrail_decoder_begin(struct btrail_decoder *dec,
                         const uint8_t *const *data, const size_t *len,
                         size_t records)
{
    unsigned i;

    if (records > BTRAIL_CODEC_MAX_RECORDS) {
        return -BTRAIL_ERR_CORRUPT;
    }
    if (!btrail_path_model_reserve(&dec->m, records)) {
        return -BTRAIL_ERR_MEMORY;
    }
    btrail_path_model_begin(&dec->m);
    for (i = 0; i < BTRAIL_CODEC_STREAMS; i++) {
        dec->in[i].p = data[i];
        dec->in[i].end = data[i] + len[i];
    }
    dec->records = records;
    dec->ahead = false;
    dec->have_miss = false;
    dec->flags = 0;
    dec->counting = len[BTRAIL_CODEC_COUNTS];
    count_model_begin(&dec->counts);
    return next_change(dec) && next_count(dec, records) ? 0 :
           -BTRAIL_ERR_CORRUPT;
}

/* Reads where the path is next not as predicted. */
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
    const struct path_edge *edges = dec->m.edges;
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
    struct path_model *m = &dec->m;
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
    struct path_model *m = &dec->m;
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

/* Continues with the edge that is taken instead of the one predicted. */
static inline uint32_t decode_miss(struct btrail_decoder *dec,
                                   struct path_position *at)
{
    struct path_model *m = &dec->m;
    uint32_t predicted = m->path[at->ahead] & STEP_EDGE;
    uint32_t before = m->path[at->n] & STEP_EDGE;
    struct path_visit *taken = taken_slot(m, before, predicted);
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

MAYBE_STORING void store(const struct path_model *m, uint32_t step,
                         struct btrail_record *r)
{
    if (r) {
        const struct path_edge *e = &m->edges[step & STEP_EDGE];

        r->from = e->from;
        r->to = e->to;
        r->flags = 0;
    }
}

/* Where to store after @n more records, if anywhere */
static inline struct btrail_record *after(struct btrail_record *r, size_t n)
{
    return r ? r + n : NULL;
}

/*
 * Continues as predicted until the next miss, for at most @left records.
 * Returns their number.
 */
MAYBE_STORING size_t decode_predicted(struct btrail_decoder *dec,
                                     struct path_position *at,
                                     struct btrail_record *r, size_t left)
{
    struct path_model *m = &dec->m;
    const uint32_t *ahead = m->path + at->ahead;
    uint32_t *path = m->path + at->n;
    uint32_t *end = path + left;
    int64_t forks = dec->forks;
    size_t done;

    if (!(dec->miss & MISS_STRAIGHT)) {
        uint32_t *stop = path + MIN(left, NARROW);

        /* Up to the fork after the last one that was passed */
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
                r = after(r, 1);
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
                    store(m, ahead[i], after(r, i));
                }
                wide_store(path + 1, wide_repeat(steps, is_fork));
                forks -= n;
                path += WIDE;
                ahead += WIDE;
                r = after(r, WIDE);
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
            r = after(r, 1);
        }
        while (!forks && dec->straight && path < end) {
            uint32_t step = *ahead++;

            dec->straight--;
            *++path = repeat(step);
            store(m, step, r);
            r = after(r, 1);
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
    struct path_model *m = &dec->m;
    struct path_position at = m->at;
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
        r = after(r, done);

        edge = decode_miss(dec, &at);
        if (!edge) {
            ok = false;
            break;
        }
        store(m, edge, r);
        r = after(r, 1);
        dec->have_miss = false;
        n--;
    }
    m->at = at;
    return ok;
}

void btrail_decoder_ahead(struct btrail_decoder *dec)
{
    /* If it is damaged, the records up to there are right. */
    decode_addresses(dec, NULL, dec->records);
    dec->ahead = true;
    dec->done = 0;
}

/* Returns the next @n records of a path that was decoded before. */
static bool copy_addresses(struct btrail_decoder *dec, struct btrail_record *r,
                           size_t n)
{
    const uint32_t *path = dec->m.path + dec->done + 1;
    size_t i;

    if (n > dec->m.at.n - dec->done) {
        return false;
    }
    for (i = 0; r && i < n; i++) {
        store(&dec->m, path[i], &r[i]);
    }
    dec->done += n;
    return true;
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
            /* The next change is for one of the records after this one. */
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

static bool decode_counts(struct btrail_decoder *dec, struct btrail_record *r,
                          size_t n)
{
    struct count_model *c = &dec->counts;
    size_t i;

    c->used = true;
    for (i = 0; i < n; i++) {
        uint32_t *between = count_slot(c, &dec->m);
        uint64_t more = *between;

        if (G_UNLIKELY(!dec->predicted)) {
            more = dec->next_count;
            *between = more;
            if (!next_count(dec, dec->records - i - 1)) {
                return false;
            }
        } else {
            dec->predicted--;
        }
        c->count += more;
        c->steps++;
        if (r) {
            r[i].flags += c->count << BTRAIL_RECORD_ICOUNT_SHIFT;
        }
    }
    return true;
}

/* Are all streams at their end? */
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
    if (dec->ahead) {
        ok = copy_addresses(dec, records, n);
    } else if (records) {
        ok = decode_addresses(dec, records, n);
    } else {
        ok = decode_addresses(dec, NULL, n);
    }
    if (!ok || !decode_flags(dec, records, n) ||
        (dec->counting && !decode_counts(dec, records, n))) {
        return false;
    }
    dec->records -= n;
    return dec->records || decoder_is_done(dec);
}
