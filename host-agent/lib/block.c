/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Blocks: see block.h
 */

#include <zstd.h>

#include "lib/internal/block.h"
#include "lib/internal/crc32c.h"

/*
 * The input of zstd hardly repeats itself: higher levels, which search longer,
 * need more time and even more space, and so do short matches.  Most matches
 * are near: a small table finds them, and leaves the caches to the codec.
 */
#define ZSTD_LEVEL          1
#define ZSTD_MIN_MATCH      7
#define ZSTD_MIN_EVENTS     4   /* they repeat in short sequences */
#define ZSTD_HASH_LOG_NEAR  7
#define ZSTD_HASH_LOG_FAR   0   /* the default of zstd */

/*
 * The time that a reader needs for a block, for each byte and at most.  The
 * unit is a record as predicted, about a nanosecond.
 */
#define BYTE_TIME           20
#define MAX_TIME            7200000

static uint32_t header_crc(const uint8_t *p, uint32_t roots)
{
    /* All but the checksum itself, and the list after it */
    return btrail_crc32c(btrail_crc32c(0, p, 84),
                         p + BTRAIL_BLOCK_HEADER_SIZE,
                         (size_t)roots * BTRAIL_BLOCK_ROOT_SIZE);
}

/* Bytes of the header with its list: where the table of sections is */
static size_t header_size(const struct btrail_block_header *h)
{
    return BTRAIL_BLOCK_HEADER_SIZE +
           btrail_cr3set_listed(h->switches.n) * BTRAIL_BLOCK_ROOT_SIZE;
}

/* What blocks that are written have more, with or without instruction counts */
#define WRITTEN         (BTRAIL_BLOCK_FOOTPRINT + BTRAIL_BLOCK_PREDICTED)
#define NEWEST_CODEC    (WRITTEN + BTRAIL_CODEC_PATH_COUNTS)

/* Does a known codec have this more? */
static bool codec_has(const struct btrail_block_header *h, uint32_t more)
{
    return (h->codec - BTRAIL_CODEC_PATH) & more;
}

static bool has_footprint(const struct btrail_block_header *h)
{
    return codec_has(h, BTRAIL_BLOCK_FOOTPRINT);
}

/* Sections that records have; one more has the events.  0: unknown codec */
static unsigned record_sections(const struct btrail_block_header *h)
{
    if (h->codec < BTRAIL_CODEC_PATH || h->codec > NEWEST_CODEC) {
        return 0;
    }
    return codec_has(h, BTRAIL_CODEC_PATH_COUNTS - BTRAIL_CODEC_PATH) ?
           BTRAIL_CODEC_STREAMS : BTRAIL_CODEC_COUNTS;
}

bool btrail_block_known(const struct btrail_block_header *h)
{
    return record_sections(h);
}

static unsigned all_sections(const struct btrail_block_header *h)
{
    return record_sections(h) + 1 + has_footprint(h);
}

static size_t table_size(const struct btrail_block_header *h)
{
    return all_sections(h) * BTRAIL_BLOCK_ENTRY_SIZE;
}

static void header_put(uint8_t *p, const struct btrail_block_header *h)
{
    uint32_t roots = btrail_cr3set_listed(h->switches.n), i;

    btrail_put32(p, h->vcpu);
    btrail_put32(p + 4, h->codec);
    btrail_put64(p + 8, h->first_index);
    btrail_put64(p + 16, h->end_index);
    btrail_put64(p + 24, h->cr3);
    btrail_put64(p + 32, h->time.host);
    btrail_put64(p + 40, h->time.tsc);
    btrail_put64(p + 48, h->time.icount);
    btrail_put64(p + 56, h->time_first);
    btrail_put64(p + 64, h->time_last);
    btrail_put32(p + 72, h->records);
    btrail_put32(p + 76, h->events);
    btrail_put32(p + 80, h->switches.n);
    for (i = 0; i < roots; i++) {
        btrail_put64(p + BTRAIL_BLOCK_HEADER_SIZE +
                     i * BTRAIL_BLOCK_ROOT_SIZE, h->switches.roots[i]);
    }
    btrail_put32(p + 84, header_crc(p, roots));
}

bool btrail_block_header_get(const uint8_t *p, size_t len,
                             struct btrail_block_header *h)
{
    uint32_t n, roots, i;

    if (len < BTRAIL_BLOCK_MIN) {
        return false;
    }
    n = btrail_get32(p + 80);
    roots = btrail_cr3set_listed(n);
    if (roots > BTRAIL_CR3SET_MAX ||
        len - BTRAIL_BLOCK_MIN < roots * BTRAIL_BLOCK_ROOT_SIZE) {
        return false;
    }
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    if (btrail_get32(p + 84) != header_crc(p, roots)) {
        return false;
    }
#endif
    h->vcpu = btrail_get32(p);
    h->codec = btrail_get32(p + 4);
    h->first_index = btrail_get64(p + 8);
    h->end_index = btrail_get64(p + 16);
    h->cr3 = btrail_get64(p + 24);
    h->time.host = btrail_get64(p + 32);
    h->time.tsc = btrail_get64(p + 40);
    h->time.icount = btrail_get64(p + 48);
    h->time_first = btrail_get64(p + 56);
    h->time_last = btrail_get64(p + 64);
    h->records = btrail_get32(p + 72);
    h->events = btrail_get32(p + 76);
    h->switches.n = n;
    for (i = 0; i < roots; i++) {
        h->switches.roots[i] =
            btrail_get64(p + BTRAIL_BLOCK_HEADER_SIZE +
                         i * BTRAIL_BLOCK_ROOT_SIZE);
    }

    return h->vcpu < BTRAIL_MAX_VCPUS &&
           h->records <= BTRAIL_BLOCK_MAX_RECORDS &&
           h->events <= BTRAIL_BLOCK_MAX_EVENTS &&
           h->first_index <= h->end_index && h->end_index < UINT64_MAX &&
           h->end_index - h->first_index >= h->records;
}

struct btrail_block *btrail_block_new(void)
{
    struct btrail_block *block = g_new0(struct btrail_block, 1);

    btrail_footprint_begin(&block->footprint);
    return block;
}

void btrail_block_free(struct btrail_block *block)
{
    unsigned i;

    if (block) {
        for (i = 0; i < G_N_ELEMENTS(block->all); i++) {
            btrail_buf_free(&block->all[i]);
        }
        btrail_footprint_free(&block->footprint);
        g_free(block);
    }
}

static size_t total(const struct btrail_buf *bufs, unsigned n)
{
    size_t size = 0;
    unsigned i;

    for (i = 0; i < n; i++) {
        size += bufs[i].len;
    }
    return size;
}

size_t btrail_block_size(const struct btrail_block *block)
{
    return total(block->all, G_N_ELEMENTS(block->all)) +
           btrail_footprint_size(&block->footprint);
}

size_t btrail_block_room(const struct btrail_block *block)
{
    size_t records = block->header.records;
    size_t time = records + BYTE_TIME * total(block->streams,
                                              BTRAIL_CODEC_STREAMS);

    return time >= MAX_TIME ? 0 :
           MIN(MAX_TIME - time, BTRAIL_BLOCK_MAX_RECORDS - records);
}

/* Few blocks need more than this for anything. */
#define USUAL_BYTES (1u << 20)

static void trim(struct btrail_buf *buf)
{
    if (buf->cap > USUAL_BYTES) {
        btrail_buf_free(buf);
    }
}

void btrail_block_trim(struct btrail_block *block)
{
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(block->all); i++) {
        trim(&block->all[i]);
    }
    if (btrail_footprint_size(&block->footprint) > USUAL_BYTES / 4) {
        btrail_footprint_free(&block->footprint);
    }
}

void btrail_block_begin(struct btrail_block *block, unsigned vcpu,
                        uint64_t index, uint64_t cr3,
                        const struct btrail_time *time)
{
    unsigned i;

    block->header = (struct btrail_block_header) {
        .vcpu = vcpu,
        .codec = WRITTEN + BTRAIL_CODEC_PATH,
        .first_index = index,
        .end_index = index,
        .cr3 = cr3,
        .time = *time,
        .time_first = time->host,
        .time_last = time->host,
    };
    block->cr3_now = cr3;
    btrail_event_model_begin(&block->model, time);
    block->event_gap = 0;
    for (i = 0; i < G_N_ELEMENTS(block->all); i++) {
        block->all[i].len = 0;
    }
    btrail_footprint_begin(&block->footprint);
}

void btrail_block_add_records(struct btrail_block *block, size_t n)
{
    if (block->streams[BTRAIL_CODEC_COUNTS].len) {
        block->header.codec = WRITTEN + BTRAIL_CODEC_PATH_COUNTS;
    }
    block->header.records += n;
    block->header.end_index += n;
    block->event_gap += n;
}

void btrail_block_add_event(struct btrail_block *block,
                            const struct btrail_event *e)
{
    struct btrail_block_header *h = &block->header;

    if (btrail_event_is_known_gap(e)) {
        h->end_index += e->data[0];
    }
    btrail_event_columns_add(block->events, &block->model, block->event_gap,
                             h->end_index, e);
    if (e->type == BTRAIL_EVENT_TIME) {
        h->time_first = h->time_first ?: e->data[0];
        h->time_last = e->data[0];
    } else if (e->type == BTRAIL_EVENT_CR3) {
        btrail_cr3set_switch(&h->switches, block->cr3_now, e->data[0]);
        block->cr3_now = e->data[0];
    }
    block->event_gap = 0;
    h->events++;
}

bool btrail_block_find_footprint(const uint8_t *payload, size_t len,
                                 const struct btrail_block_header *h,
                                 struct btrail_block_section *section)
{
    const uint8_t *entry = payload + header_size(h);
    unsigned i;

    if (!record_sections(h) || !has_footprint(h) ||
        len < header_size(h) + table_size(h)) {
        return false;
    }
    section->offset = header_size(h) + table_size(h);
    for (i = 1; i < all_sections(h); i++, entry += BTRAIL_BLOCK_ENTRY_SIZE) {
        section->offset += btrail_get32(entry + 4);
    }
    section->len = btrail_get32(entry);
    section->stored = btrail_get32(entry + 4);
    return section->len <= BTRAIL_FOOTPRINT_MAX_SIZE &&
           section->stored <= section->len;
}

struct btrail_packer {
    ZSTD_CCtx *zstd;
    struct btrail_buf events;       /* all columns of a block */
    struct btrail_buf footprint;
};

struct btrail_packer *btrail_packer_new(void)
{
    struct btrail_packer *packer = g_new0(struct btrail_packer, 1);

    packer->zstd = ZSTD_createCCtx();
    if (!packer->zstd) {
        g_error("out of memory");
    }
    ZSTD_CCtx_setParameter(packer->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
    return packer;
}

void btrail_packer_free(struct btrail_packer *packer)
{
    if (packer) {
        ZSTD_freeCCtx(packer->zstd);
        btrail_buf_free(&packer->events);
        btrail_buf_free(&packer->footprint);
        g_free(packer);
    }
}

/* A section of equal raw and stored size is stored as it is. */
static void pack_section(struct btrail_packer *packer,
                         const struct btrail_buf *section, int min_match,
                         int hash_log, size_t table_entry,
                         struct btrail_buf *payload)
{
    uint8_t *table;
    size_t stored;

    ZSTD_CCtx_setParameter(packer->zstd, ZSTD_c_minMatch, min_match);
    ZSTD_CCtx_setParameter(packer->zstd, ZSTD_c_hashLog, hash_log);
    btrail_buf_reserve(payload, section->len);
    stored = section->len < 64 ? 0 :
             ZSTD_compress2(packer->zstd, payload->data + payload->len,
                            section->len - 1, section->data, section->len);
    if (!stored || ZSTD_isError(stored)) {
        /* It did not become shorter. */
        stored = section->len;
        if (stored) {
            memcpy(payload->data + payload->len, section->data, stored);
        }
    }
    payload->len += stored;

    table = payload->data + table_entry;
    btrail_put32(table, section->len);
    btrail_put32(table + 4, stored);
}

void btrail_packer_pack(struct btrail_packer *packer,
                        const struct btrail_block *block,
                        struct btrail_buf *payload)
{
    unsigned sections = record_sections(&block->header);
    size_t table = header_size(&block->header);
    unsigned i;

    payload->len = 0;
    /* At once: it can be large, and this is its limit. */
    btrail_buf_reserve(payload, table + table_size(&block->header) +
                       btrail_block_size(block));
    header_put(payload->data, &block->header);
    payload->len = table + table_size(&block->header);
    for (i = 0; i < sections; i++) {
        /* Programs that do the same again miss in the same places. */
        pack_section(packer, &block->streams[i], ZSTD_MIN_MATCH,
                     i == BTRAIL_CODEC_MISSES_EDGES ? ZSTD_HASH_LOG_FAR :
                     ZSTD_HASH_LOG_NEAR, table + i * BTRAIL_BLOCK_ENTRY_SIZE,
                     payload);
    }
    trim(&packer->events);
    packer->events.len = 0;
    for (i = 0; i < BTRAIL_EVENT_COLUMNS; i++) {
        btrail_buf_append(&packer->events, block->events[i].data,
                          block->events[i].len);
    }
    pack_section(packer, &packer->events, ZSTD_MIN_EVENTS, ZSTD_HASH_LOG_FAR,
                 table + sections * BTRAIL_BLOCK_ENTRY_SIZE, payload);
    btrail_footprint_pack(&block->footprint, &packer->footprint);
    pack_section(packer, &packer->footprint, ZSTD_MIN_MATCH, ZSTD_HASH_LOG_FAR,
                 table + (sections + 1) * BTRAIL_BLOCK_ENTRY_SIZE, payload);
}

/* A section, decompressed */
struct section {
    const uint8_t *data;
    size_t len;
};

struct btrail_unpacker {
    ZSTD_DCtx *zstd;
    struct btrail_decoder *decoder;
    struct section streams[BTRAIL_CODEC_STREAMS];
    struct section columns;         /* the events */
    /* Of all of them: each by itself can be as large as they are together. */
    uint8_t *bytes;
    size_t bytes_cap;
    struct btrail_placed_event *events;
    size_t events_cap;
};

struct btrail_unpacker *btrail_unpacker_new(void)
{
    struct btrail_unpacker *u = g_new0(struct btrail_unpacker, 1);

    u->zstd = ZSTD_createDCtx();
    if (!u->zstd) {
        g_error("out of memory");
    }
    return u;
}

void btrail_unpacker_free(struct btrail_unpacker *u)
{
    if (u) {
        g_free(u->bytes);
        btrail_decoder_free(u->decoder);
        ZSTD_freeDCtx(u->zstd);
        g_free(u->events);
        g_free(u);
    }
}

/* The most bytes that a sound block can have of a stream, and of events */
static uint64_t max_stream(uint32_t records, unsigned stream)
{
    return MIN((uint64_t)records * btrail_codec_record_bytes[stream],
               BTRAIL_CODEC_MAX_BYTES);
}

static uint64_t max_events(uint32_t events)
{
    return (uint64_t)events * BTRAIL_EVENT_MAX_BYTES;
}

/* The same of any section */
static uint64_t max_section(const struct btrail_block_header *h, unsigned i)
{
    unsigned events = record_sections(h);

    return i < events  ? max_stream(h->records, i) :
           i == events ? max_events(h->events) :
                         BTRAIL_FOOTPRINT_MAX_SIZE;
}

uint64_t btrail_block_max(uint32_t records, uint32_t events)
{
    uint64_t codec_bytes = 0;
    unsigned i;

    for (i = 0; i < BTRAIL_CODEC_STREAMS; i++) {
        codec_bytes += max_stream(records, i);
    }
    return BTRAIL_BLOCK_START + BTRAIL_BLOCK_ENTRY_SIZE +
           MIN(codec_bytes, BTRAIL_CODEC_MAX_BYTES) + max_events(events) +
           BTRAIL_FOOTPRINT_MAX_SIZE;
}

/* Decompress a section to @bytes. */
static int unpack_section(struct btrail_unpacker *u, struct section *section,
                          const uint8_t *stored, size_t stored_len,
                          uint8_t *bytes, size_t raw_len)
{
    *section = (struct section) { bytes, raw_len };
    if (stored_len != raw_len) {
        if (ZSTD_decompressDCtx(u->zstd, bytes, raw_len, stored,
                                stored_len) != raw_len) {
            return -BTRAIL_ERR_CORRUPT;
        }
    } else if (raw_len) {
        memcpy(bytes, stored, raw_len);
    }
    return 0;
}

/* Reserves bytes for all sections.  Errors: MEMORY. */
static int reserve_bytes(struct btrail_unpacker *u, size_t len)
{
    /* Never NULL: even adding 0 to that is undefined. */
    if (!u->bytes || u->bytes_cap < len) {
        size_t cap = MAX(len, 64);

        /* The content is no longer needed. */
        g_free(u->bytes);
        u->bytes_cap = 0;
        u->bytes = g_try_malloc(cap);
        if (!u->bytes) {
            return -BTRAIL_ERR_MEMORY;
        }
        u->bytes_cap = cap;
    }
    return 0;
}

/* Takes another of the events that there are. */
static bool unpack_event(struct btrail_event_reader *r, uint64_t *position,
                         uint64_t *index, struct btrail_event *e)
{
    uint64_t gap, offset;

    if (!btrail_event_reader_next(r, &gap, &offset, e) ||
        gap > BTRAIL_BLOCK_MAX_RECORDS || gap > UINT64_MAX - *index) {
        return false;
    }
    *position += gap;
    *index += gap;
    if (btrail_event_is_known_gap(e)) {
        if (e->data[0] > UINT64_MAX - *index || offset) {
            return false;
        }
        *index += e->data[0];
    }
    e->index = *index + offset;
    return true;
}

/* Unpacks the events, and checks them against the header. */
static int unpack_events(struct btrail_unpacker *u,
                         const struct btrail_block_header *h)
{
    struct btrail_event_reader r;
    const struct btrail_time *time = &r.model.last;
    struct btrail_cr3set switches = { 0 };
    uint64_t time_first = h->time.host;
    uint64_t cr3 = h->cr3;
    uint64_t index = h->first_index;
    uint64_t position = 0;
    uint32_t i;

    if (!btrail_event_reader_begin(&r, u->columns.data, u->columns.len,
                                   h->events, &h->time,
                                   !codec_has(h, BTRAIL_BLOCK_PREDICTED))) {
        return -BTRAIL_ERR_CORRUPT;
    }
    if (u->events_cap < h->events) {
        g_free(u->events);
        u->events_cap = 0;
        u->events = g_try_new(struct btrail_placed_event, h->events);
        if (!u->events) {
            return -BTRAIL_ERR_MEMORY;
        }
        u->events_cap = h->events;
    }
    for (i = 0; i < h->events; i++) {
        struct btrail_placed_event *placed = &u->events[i];

        if (!unpack_event(&r, &position, &index, &placed->event) ||
            position > h->records) {
            return -BTRAIL_ERR_CORRUPT;
        }
        placed->position = position;
        time_first = time_first ?: time->host;
        if (placed->event.type == BTRAIL_EVENT_CR3) {
            btrail_cr3set_switch(&switches, cr3, placed->event.data[0]);
            cr3 = placed->event.data[0];
        }
    }
    if (time_first != h->time_first || time->host != h->time_last ||
        !btrail_cr3set_equal(&switches, &h->switches) ||
        h->records - position > UINT64_MAX - index) {
        return -BTRAIL_ERR_CORRUPT;
    }
    index += h->records - position;
    return index == h->end_index ? 0 : -BTRAIL_ERR_CORRUPT;
}

int btrail_unpacker_load(struct btrail_unpacker *u,
                         const uint8_t *payload, size_t len,
                         const struct btrail_block_header *h,
                         bool events_only)
{
    const uint8_t *table = payload + header_size(h);
    unsigned events = record_sections(h), all = all_sections(h), i;
    const uint8_t *stored;
    const uint8_t *streams[BTRAIL_CODEC_STREAMS];
    size_t lens[BTRAIL_CODEC_STREAMS];
    uint64_t codec_bytes = 0, bytes = 0, at = 0;
    uint64_t stored_bytes = 0;
    int ret;

    if (!events) {
        return -BTRAIL_ERR_VERSION;
    }
    if (len < header_size(h) + table_size(h)) {
        return -BTRAIL_ERR_CORRUPT;
    }
    for (i = 0; i < all; i++) {
        const uint8_t *entry = table + i * BTRAIL_BLOCK_ENTRY_SIZE;
        uint32_t raw_len = btrail_get32(entry);
        uint32_t stored_len = btrail_get32(entry + 4);

        if (raw_len > max_section(h, i) || stored_len > raw_len) {
            return -BTRAIL_ERR_CORRUPT;
        }
        codec_bytes += i < events ? raw_len : 0;
        bytes += i == events || (i < events && !events_only) ? raw_len : 0;
        stored_bytes += stored_len;
    }
    if (codec_bytes > BTRAIL_CODEC_MAX_BYTES ||
        stored_bytes != len - header_size(h) - table_size(h)) {
        return -BTRAIL_ERR_CORRUPT;
    }
    stored = table + table_size(h);
    ret = reserve_bytes(u, bytes);
    for (i = 0; !ret && i <= events; i++) {
        const uint8_t *entry = table + i * BTRAIL_BLOCK_ENTRY_SIZE;
        uint32_t raw_len = btrail_get32(entry);
        uint32_t stored_len = btrail_get32(entry + 4);

        if (i == events || !events_only) {
            ret = unpack_section(u, i == events ? &u->columns : &u->streams[i],
                                 stored, stored_len, u->bytes + at, raw_len);
            at += raw_len;
        }
        stored += stored_len;
    }
    if (ret) {
        return ret;
    }

    ret = unpack_events(u, h);
    if (ret || events_only) {
        return ret;
    }
    for (i = 0; i < BTRAIL_CODEC_STREAMS; i++) {
        streams[i] = i < events ? u->streams[i].data : u->bytes;
        lens[i] = i < events ? u->streams[i].len : 0;
    }
    if (!u->decoder) {
        /* Cursors that only return events do without. */
        u->decoder = btrail_decoder_new();
    }
    return btrail_decoder_begin(u->decoder, streams, lens, h->records);
}

const struct btrail_placed_event *
btrail_unpacker_events(const struct btrail_unpacker *u)
{
    return u->events;
}

void btrail_unpacker_ahead(struct btrail_unpacker *u)
{
    btrail_decoder_ahead(u->decoder);
}

bool btrail_unpacker_records(struct btrail_unpacker *u,
                             struct btrail_record *records, size_t n)
{
    return btrail_decoder_records(u->decoder, records, n);
}

uint64_t btrail_unpacker_memory(const struct btrail_unpacker *u,
                                uint32_t records)
{
    uint64_t memory = u->bytes_cap + (uint64_t)u->events_cap *
                      sizeof(struct btrail_placed_event);

    return u->decoder ? memory + btrail_decoder_memory(records, u->bytes_cap) :
           memory;
}
