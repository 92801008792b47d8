/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * GDB's remote serial protocol: see rsp.h
 *
 * "Overview" of the appendix "Remote Protocol" of GDB's manual has the rules.
 */

#include <string.h>

#include "gdb/rsp.h"

#define INTERRUPT   0x03
/* What a run length is above the number of repetitions */
#define RUN_BASE    29

enum state {
    BETWEEN,
    PAYLOAD,
    RUN,            /* after "*" */
    CHECKSUM_1,
    CHECKSUM_2,
};

struct rsp_parser {
    GString *payload;
    size_t limit;
    enum state state;
    bool notification;
    bool bad;
    bool too_long;
    unsigned char sum;
    unsigned char given;
};

struct rsp_parser *rsp_parser_new(size_t limit)
{
    struct rsp_parser *p = g_new0(struct rsp_parser, 1);

    p->payload = g_string_new(NULL);
    p->limit = limit;
    return p;
}

void rsp_parser_free(struct rsp_parser *p)
{
    if (p) {
        g_string_free(p->payload, TRUE);
        g_free(p);
    }
}

static enum rsp_kind begin(struct rsp_parser *p, unsigned char c)
{
    switch (c) {
    case '$':
    case '%':
        g_string_truncate(p->payload, 0);
        p->notification = c == '%';
        p->bad = p->too_long = false;
        p->sum = 0;
        p->state = PAYLOAD;
        return RSP_MORE;
    case '+':
        return RSP_ACK;
    case '-':
        return RSP_NACK;
    case INTERRUPT:
        return RSP_INTERRUPT;
    default:
        return RSP_MORE;
    }
}

static void add(struct rsp_parser *p, unsigned char c, size_t times)
{
    if (times > p->limit - p->payload->len) {
        p->too_long = true;
        return;
    }
    while (times--) {
        g_string_append_c(p->payload, c);
    }
}

static void take_payload(struct rsp_parser *p, unsigned char c)
{
    if (c == '#') {
        p->state = CHECKSUM_1;
        return;
    }
    p->sum += c;
    if (c == '*') {
        p->state = RUN;
    } else {
        add(p, c, 1);
    }
}

static void take_run(struct rsp_parser *p, unsigned char c)
{
    if (c == '#') {
        p->bad = true;
        p->state = CHECKSUM_1;
        return;
    }
    p->sum += c;
    p->state = PAYLOAD;
    if (c < ' ' || c > '~' || !p->payload->len) {
        p->bad = true;
    } else {
        add(p, p->payload->str[p->payload->len - 1], c - RUN_BASE);
    }
}

static enum rsp_kind end(struct rsp_parser *p)
{
    p->state = BETWEEN;
    if (p->too_long) {
        return RSP_LONG;
    }
    if (p->bad || p->given != p->sum) {
        return RSP_BAD;
    }
    return p->notification ? RSP_NOTIFICATION : RSP_PACKET;
}

static enum rsp_kind take(struct rsp_parser *p, unsigned char c)
{
    int digit = g_ascii_xdigit_value(c);

    /* Within a packet there is none: this one was cut off. */
    if (p->state == BETWEEN || c == '$') {
        return begin(p, c);
    }
    switch (p->state) {
    case PAYLOAD:
        take_payload(p, c);
        return RSP_MORE;
    case RUN:
        take_run(p, c);
        return RSP_MORE;
    case CHECKSUM_1:
        p->bad |= digit < 0;
        p->given = digit * 16;
        p->state = CHECKSUM_2;
        return RSP_MORE;
    default:
        p->bad |= digit < 0;
        p->given += digit;
        return end(p);
    }
}

size_t rsp_parse(struct rsp_parser *p, const void *bytes, size_t n,
                 enum rsp_kind *kind)
{
    const unsigned char *c = bytes;

    *kind = RSP_MORE;
    for (size_t i = 0; i < n; i++) {
        *kind = take(p, c[i]);
        if (*kind != RSP_MORE) {
            return i + 1;
        }
    }
    return n;
}

const char *rsp_payload(const struct rsp_parser *p, size_t *n)
{
    *n = p->payload->len;
    return p->payload->str;
}

void rsp_append(GByteArray *out, const char *payload, size_t n)
{
    unsigned char sum = 0;
    char end[4];

    for (size_t i = 0; i < n; i++) {
        sum += payload[i];
    }
    g_snprintf(end, sizeof(end), "#%02x", sum);
    g_byte_array_append(out, (const guint8 *)"$", 1);
    g_byte_array_append(out, (const guint8 *)payload, n);
    g_byte_array_append(out, (const guint8 *)end, 3);
}

void rsp_append_hex(GString *out, const void *bytes, size_t n)
{
    const unsigned char *c = bytes;

    for (size_t i = 0; i < n; i++) {
        g_string_append_printf(out, "%02x", c[i]);
    }
}

char *rsp_unhex(const char *digits, size_t *n)
{
    size_t length = strlen(digits);
    g_autofree char *bytes = g_malloc(length / 2 + 1);

    if (length % 2) {
        return NULL;
    }
    for (size_t i = 0; i < length / 2; i++) {
        int high = g_ascii_xdigit_value(digits[2 * i]);
        int low = g_ascii_xdigit_value(digits[2 * i + 1]);

        if (high < 0 || low < 0) {
            return NULL;
        }
        bytes[i] = high * 16 + low;
    }
    bytes[length / 2] = '\0';
    if (n) {
        *n = length / 2;
    }
    return g_steal_pointer(&bytes);
}
