/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The columns of events: see event-columns.h
 */

#include "lib/internal/event-columns.h"

/* A kind: these bits, four bits of the type, the reason, the rest of the type */
#define KIND_GAP        1u
#define KIND_REPEATS    2u      /* its data is a place in the list of its type */
#define KIND_OFFSET     4u
#define TYPE_SHIFT      3
#define TYPE_BITS       4
#define REASON_SHIFT    (TYPE_SHIFT + TYPE_BITS)
#define REST_SHIFT      (REASON_SHIFT + 16)
#define KIND_END        (UINT64_C(1) << (REST_SHIFT + 16 - TYPE_BITS))

/* The columns of older traces */
enum { GAP, TYPE, REASON, OFFSET, DATA, SIMPLE_COLUMNS = DATA + 3 };

static uint64_t kind_of(const struct btrail_event *e)
{
    return (uint64_t)(e->type >> TYPE_BITS) << REST_SHIFT |
           (uint64_t)e->reason << REASON_SHIFT |
           (e->type & ((1u << TYPE_BITS) - 1)) << TYPE_SHIFT;
}

static uint16_t type_of(uint64_t kind)
{
    return (kind >> TYPE_SHIFT & ((1u << TYPE_BITS) - 1)) |
           kind >> REST_SHIFT << TYPE_BITS;
}

/* Which list is of this type?  Negative: none is. */
static int list_of(uint16_t type)
{
    switch (type) {
    case BTRAIL_EVENT_CR3:
        return 0;
    case BTRAIL_EVENT_TASK:
        return 1;
    case BTRAIL_EVENT_KERNEL:
        return 2;
    case BTRAIL_EVENT_WAKE:
        return 3;
    default:
        return -1;
    }
}

static bool has_clock(uint16_t type)
{
    return type == BTRAIL_EVENT_PAUSE || type == BTRAIL_EVENT_RESUME ||
           type == BTRAIL_EVENT_END;
}

void btrail_event_model_begin(struct btrail_event_model *m,
                              const struct btrail_time *time)
{
    m->first = *time;
    m->last = *time;
    for (unsigned i = 0; i < BTRAIL_EVENT_LISTS; i++) {
        m->recent[i].n = 0;
    }
}

/* The TSC at that time of the host, if both went on as they did up to now */
static uint64_t guess_tsc(const struct btrail_event_model *m, uint64_t host)
{
    const struct btrail_time *first = &m->first, *last = &m->last;

    if (!first->host || last->host <= first->host || last->tsc < first->tsc ||
        host < last->host) {
        return last->tsc;
    }
    return last->tsc +
           (uint64_t)((unsigned __int128)(host - last->host) *
                      (last->tsc - first->tsc) / (last->host - first->host));
}

static void learn_time(struct btrail_event_model *m,
                       const struct btrail_time *time)
{
    m->last = *time;
    if (!m->first.host) {
        m->first = *time;
    }
}

/* Puts @data in front of a list, where it was at @place or, else, was not. */
static void put_first(struct btrail_event_model *m, int list, unsigned place,
                      const uint64_t data[3])
{
    uint64_t (*known)[3] = m->recent[list].data;

    memmove(known + 1, known, place * sizeof(*known));
    memcpy(known, data, sizeof(*known));
}

/* Where it is in a list; if it is in none, its length */
static unsigned find_place(const struct btrail_event_model *m, int list,
                           const uint64_t data[3])
{
    unsigned n = m->recent[list].n, i = 0;

    while (i < n && memcmp(m->recent[list].data[i], data,
                           sizeof(m->recent[list].data[i]))) {
        i++;
    }
    return i;
}

static void learn_new(struct btrail_event_model *m, int list,
                      const uint64_t data[3])
{
    unsigned *n = &m->recent[list].n;

    *n = MIN(*n + 1, BTRAIL_EVENT_RECENT);
    put_first(m, list, *n - 1, data);
}

static void put_data(struct btrail_buf *columns, const uint64_t v[3])
{
    for (unsigned i = 0; i < 3; i++) {
        btrail_buf_append_varint(&columns[i], v[i]);
    }
}

void btrail_event_columns_add(struct btrail_buf *columns,
                              struct btrail_event_model *m, uint32_t gap,
                              uint64_t position, const struct btrail_event *e)
{
    uint64_t kind = kind_of(e);
    uint64_t v[3] = { e->data[0], e->data[1], e->data[2] };
    int list = list_of(e->type);

    if (gap) {
        kind |= KIND_GAP;
        btrail_buf_append_varint(&columns[BTRAIL_EVENT_GAPS], gap);
    }
    if (e->index != position) {
        kind |= KIND_OFFSET;
        btrail_buf_append_varint(&columns[BTRAIL_EVENT_OFFSETS],
                                 btrail_zigzag(e->index - position));
    }
    if (e->type == BTRAIL_EVENT_TIME) {
        const struct btrail_time time = { v[0], v[1], v[2] };

        v[0] = btrail_zigzag(time.host - m->last.host);
        v[1] = btrail_zigzag(time.tsc - guess_tsc(m, time.host));
        v[2] = btrail_zigzag(time.icount - m->last.icount);
        put_data(&columns[BTRAIL_EVENT_CLOCKS], v);
        learn_time(m, &time);
    } else if (list >= 0) {
        unsigned place = find_place(m, list, v);

        if (place < m->recent[list].n) {
            kind |= KIND_REPEATS;
            btrail_buf_append_varint(&columns[BTRAIL_EVENT_DATA], place);
            put_first(m, list, place, v);
        } else {
            put_data(&columns[BTRAIL_EVENT_DATA], v);
            learn_new(m, list, v);
        }
    } else {
        if (has_clock(e->type)) {
            v[0] = btrail_zigzag(v[0] - m->last.host);
        }
        put_data(&columns[BTRAIL_EVENT_DATA], v);
    }
    btrail_buf_append_varint(&columns[BTRAIL_EVENT_KINDS], kind);
}

/* A column of @n numbers begins at *@p: it becomes where it ends. */
static bool find_column(struct btrail_event_reader *r, unsigned column,
                        uint32_t n, const uint8_t **p)
{
    uint64_t v;

    r->columns[column] = *p;
    while (n-- && *p) {
        *p = btrail_get_varint(*p, r->end, &v);
    }
    return *p;
}

static bool find_simple(struct btrail_event_reader *r, uint32_t n,
                        const uint8_t **p)
{
    for (unsigned i = 0; i < SIMPLE_COLUMNS; i++) {
        if (!find_column(r, i, n, p)) {
            return false;
        }
    }
    return true;
}

static bool find_columns(struct btrail_event_reader *r, uint32_t n,
                         const uint8_t **p)
{
    uint32_t size[BTRAIL_EVENT_COLUMNS] = { n };

    r->columns[BTRAIL_EVENT_KINDS] = *p;
    for (uint32_t k = 0; k < n; k++) {
        uint64_t kind;
        bool repeats, time;

        *p = btrail_get_varint(*p, r->end, &kind);
        if (!*p || kind >= KIND_END) {
            return false;
        }
        repeats = kind & KIND_REPEATS;
        time = type_of(kind) == BTRAIL_EVENT_TIME;
        size[BTRAIL_EVENT_GAPS] += !!(kind & KIND_GAP);
        size[BTRAIL_EVENT_OFFSETS] += !!(kind & KIND_OFFSET);
        size[BTRAIL_EVENT_DATA] += !time;
        for (unsigned i = 0; i < 3; i++) {
            size[BTRAIL_EVENT_DATA + i] += i && !time && !repeats;
            size[BTRAIL_EVENT_CLOCKS + i] += time;
        }
    }
    for (unsigned i = BTRAIL_EVENT_KINDS + 1; i < BTRAIL_EVENT_COLUMNS; i++) {
        if (!find_column(r, i, size[i], p)) {
            return false;
        }
    }
    return true;
}

bool btrail_event_reader_begin(struct btrail_event_reader *r,
                               const uint8_t *data, size_t len, uint32_t n,
                               const struct btrail_time *time, bool simple)
{
    const uint8_t *p = data;

    r->simple = simple;
    r->end = data + len;
    btrail_event_model_begin(&r->model, time);
    return (simple ? find_simple(r, n, &p) : find_columns(r, n, &p)) &&
           p == r->end;
}

/* The next number of a column, which has one */
static uint64_t take(struct btrail_event_reader *r, unsigned column)
{
    uint64_t v = 0;

    r->columns[column] = btrail_get_varint(r->columns[column], r->end, &v);
    return v;
}

static void take_data(struct btrail_event_reader *r, unsigned column,
                      uint64_t v[3])
{
    for (unsigned i = 0; i < 3; i++) {
        v[i] = take(r, column + i);
    }
}

/* Makes a TIME event of what is written for one; @tsc is what was predicted. */
static void take_time(struct btrail_event_model *m, uint64_t host,
                      uint64_t tsc, uint64_t v[3])
{
    const struct btrail_time time = {
        host,
        tsc + btrail_unzigzag(v[1]),
        m->last.icount + btrail_unzigzag(v[2]),
    };

    learn_time(m, &time);
    v[0] = time.host;
    v[1] = time.tsc;
    v[2] = time.icount;
}

static bool next_simple(struct btrail_event_reader *r, uint64_t *gap,
                        uint64_t *offset, struct btrail_event *e)
{
    uint64_t type = take(r, TYPE), reason = take(r, REASON);

    *gap = take(r, GAP);
    *offset = btrail_unzigzag(take(r, OFFSET));
    *e = (struct btrail_event) { .type = type, .reason = reason };
    take_data(r, DATA, e->data);
    if (type == BTRAIL_EVENT_TIME) {
        take_time(&r->model, r->model.last.host + btrail_unzigzag(e->data[0]),
                  r->model.last.tsc, e->data);
    }
    return type <= UINT16_MAX && reason <= UINT16_MAX;
}

bool btrail_event_reader_next(struct btrail_event_reader *r, uint64_t *gap,
                              uint64_t *offset, struct btrail_event *e)
{
    struct btrail_event_model *m = &r->model;
    uint64_t kind;
    int list;

    if (r->simple) {
        return next_simple(r, gap, offset, e);
    }
    kind = take(r, BTRAIL_EVENT_KINDS);
    *e = (struct btrail_event) {
        .type = type_of(kind),
        .reason = kind >> REASON_SHIFT,
    };
    list = list_of(e->type);
    *gap = kind & KIND_GAP ? take(r, BTRAIL_EVENT_GAPS) : 0;
    *offset = kind & KIND_OFFSET ?
              btrail_unzigzag(take(r, BTRAIL_EVENT_OFFSETS)) : 0;
    if (kind & KIND_REPEATS) {
        uint64_t place;

        if (list < 0) {
            return false;
        }
        place = take(r, BTRAIL_EVENT_DATA);
        if (place >= m->recent[list].n) {
            return false;
        }
        memcpy(e->data, m->recent[list].data[place], sizeof(e->data));
        put_first(m, list, place, e->data);
    } else if (e->type == BTRAIL_EVENT_TIME) {
        uint64_t host;

        take_data(r, BTRAIL_EVENT_CLOCKS, e->data);
        host = m->last.host + btrail_unzigzag(e->data[0]);
        take_time(m, host, guess_tsc(m, host), e->data);
    } else {
        take_data(r, BTRAIL_EVENT_DATA, e->data);
        if (list >= 0) {
            learn_new(m, list, e->data);
        } else if (has_clock(e->type)) {
            e->data[0] = m->last.host + btrail_unzigzag(e->data[0]);
        }
    }
    return true;
}
