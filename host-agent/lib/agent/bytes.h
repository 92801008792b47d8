/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Little-endian integers, variable-length integers, growing buffers
 */

#ifndef BTRAIL_BYTES_H
#define BTRAIL_BYTES_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t btrail_get16(const uint8_t *p)
{
    uint16_t v;

    memcpy(&v, p, sizeof(v));
    return GUINT16_FROM_LE(v);
}

static inline uint32_t btrail_get32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return GUINT32_FROM_LE(v);
}

static inline uint64_t btrail_get64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return GUINT64_FROM_LE(v);
}

static inline void btrail_put16(uint8_t *p, uint16_t v)
{
    v = GUINT16_TO_LE(v);
    memcpy(p, &v, sizeof(v));
}

static inline void btrail_put32(uint8_t *p, uint32_t v)
{
    v = GUINT32_TO_LE(v);
    memcpy(p, &v, sizeof(v));
}

static inline void btrail_put64(uint8_t *p, uint64_t v)
{
    v = GUINT64_TO_LE(v);
    memcpy(p, &v, sizeof(v));
}

/* A varint has 7 bits a byte, the lowest first, and bit 7 means "more". */
#define BTRAIL_VARINT_MAX   10

static inline uint8_t *btrail_put_varint(uint8_t *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (uint8_t)v | 0x80;
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    return p;
}

/* NULL if the bytes end first or the value does not fit. */
static inline const uint8_t *btrail_get_varint(const uint8_t *p,
                                               const uint8_t *end,
                                               uint64_t *v)
{
    uint64_t r = 0;
    unsigned shift;

    for (shift = 0; shift < 70; shift += 7) {
        uint64_t bits;

        if (p == end) {
            return NULL;
        }
        bits = *p & 0x7f;
        if (shift == 63 && bits > 1) {
            return NULL;
        }
        r |= bits << shift;
        if (!(*p++ & 0x80)) {
            *v = r;
            return p;
        }
    }
    return NULL;
}

/* Small numbers of either sign become small numbers. */
static inline uint64_t btrail_zigzag(uint64_t difference)
{
    return difference << 1 ^ -(difference >> 63);
}

static inline uint64_t btrail_unzigzag(uint64_t z)
{
    return z >> 1 ^ -(z & 1);
}

struct btrail_buf {
    uint8_t *data;
    size_t len;
    size_t cap;
};

/* Room for @extra more bytes after those that are there. */
static inline void btrail_buf_reserve(struct btrail_buf *buf, size_t extra)
{
    if (buf->cap - buf->len < extra) {
        buf->cap = MAX(buf->len + extra, buf->cap * 2);
        buf->data = g_realloc(buf->data, buf->cap);
    }
}

static inline void btrail_buf_append(struct btrail_buf *buf, const void *data,
                                     size_t len)
{
    if (len) {
        btrail_buf_reserve(buf, len);
        memcpy(buf->data + buf->len, data, len);
        buf->len += len;
    }
}

static inline void btrail_buf_append_varint(struct btrail_buf *buf, uint64_t v)
{
    btrail_buf_reserve(buf, BTRAIL_VARINT_MAX);
    buf->len = btrail_put_varint(buf->data + buf->len, v) - buf->data;
}

static inline void btrail_buf_free(struct btrail_buf *buf)
{
    g_free(buf->data);
    memset(buf, 0, sizeof(*buf));
}

#endif /* BTRAIL_BYTES_H */
