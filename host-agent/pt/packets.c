/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Packets of Intel PT: see packets.h
 */

#include <string.h>

#include <glib.h>

#include "pt/packets.h"

/* The first byte of packets with a second byte of opcode */
#define EXTENDED    0x02
#define MODE        0x99

/* What the size depends on, beside the form */
enum {
    BY_IP = 0x80,               /* bits 5 to 7 of the first byte */
    BY_CYCLES,                  /* bits that say that another byte follows */
    BY_ITEM,                    /* the packet that begins the block */
    BY_COUNT,                   /* bit 6 of the second byte */
};

/*
 * The forms of packets.  @value and @more are bytes of the packet: the first
 * one's offset, and how many.
 */
static const struct packet_form {
    uint8_t type;
    uint8_t size;
    uint8_t first, first_mask;
    uint8_t second, second_mask;
    struct {
        uint8_t at, n;
    } value, more;
    uint8_t ip_mask;            /* in the second byte: FUP follows */
} forms[] = {
    { PT_PACKET_UNKNOWN },
    { PT_PACKET_PAD, 1, 0x00, 0xff },
    { PT_PACKET_TNT, 1, 0x00, 0x01 },
    { PT_PACKET_CYC, BY_CYCLES, 0x03, 0x03 },
    { PT_PACKET_TIP, BY_IP, 0x0d, 0x1f },
    { PT_PACKET_TIP_PGE, BY_IP, 0x11, 0x1f },
    { PT_PACKET_TIP_PGD, BY_IP, 0x01, 0x1f },
    { PT_PACKET_FUP, BY_IP, 0x1d, 0x1f },
    { PT_PACKET_TSC, 8, 0x19, 0xff, .value = { 1, 7 } },
    { PT_PACKET_MTC, 2, 0x59, 0xff, .value = { 1, 1 } },
    { PT_PACKET_TRIG, BY_COUNT, 0xd9, 0xff, .value = { 2, 1 }, .more = { 3, 2 },
      .ip_mask = 0x80 },
    { PT_PACKET_MODE_EXEC, 2, MODE, 0xff, 0x00, 0xe0, { 1, 1 } },
    { PT_PACKET_MODE_TSX, 2, MODE, 0xff, 0x20, 0xe0, { 1, 1 } },
    { PT_PACKET_TNT, 8, EXTENDED, 0xff, 0xa3, 0xff, { 2, 6 } },
    { PT_PACKET_PIP, 8, EXTENDED, 0xff, 0x43, 0xff, { 2, 6 } },
    { PT_PACKET_PSB, 16, EXTENDED, 0xff, 0x82, 0xff },
    { PT_PACKET_PSBEND, 2, EXTENDED, 0xff, 0x23, 0xff },
    { PT_PACKET_TMA, 7, EXTENDED, 0xff, 0x73, 0xff, { 2, 2 }, { 5, 2 } },
    { PT_PACKET_CBR, 4, EXTENDED, 0xff, 0x03, 0xff, { 2, 1 } },
    { PT_PACKET_VMCS, 7, EXTENDED, 0xff, 0xc8, 0xff, { 2, 5 } },
    { PT_PACKET_OVF, 2, EXTENDED, 0xff, 0xf3, 0xff },
    { PT_PACKET_TRACESTOP, 2, EXTENDED, 0xff, 0x83, 0xff },
    { PT_PACKET_MNT, 11, EXTENDED, 0xff, 0xc3, 0xff, { 3, 8 } },
    { PT_PACKET_PTW, 6, EXTENDED, 0xff, 0x12, 0x7f, { 2, 4 }, .ip_mask = 0x80 },
    { PT_PACKET_PTW, 10, EXTENDED, 0xff, 0x32, 0x7f, { 2, 8 },
      .ip_mask = 0x80 },
    { PT_PACKET_EXSTOP, 2, EXTENDED, 0xff, 0x62, 0x7f, .ip_mask = 0x80 },
    { PT_PACKET_MWAIT, 10, EXTENDED, 0xff, 0xc2, 0xff, { 2, 8 } },
    { PT_PACKET_PWRE, 4, EXTENDED, 0xff, 0x22, 0xff, { 2, 2 } },
    { PT_PACKET_PWRX, 7, EXTENDED, 0xff, 0xa2, 0xff, { 2, 5 } },
    { PT_PACKET_BBP, 3, EXTENDED, 0xff, 0x63, 0xff, { 2, 1 } },
    { PT_PACKET_BEP, 2, EXTENDED, 0xff, 0x33, 0x7f, .ip_mask = 0x80 },
    { PT_PACKET_CFE, 4, EXTENDED, 0xff, 0x13, 0xff, { 2, 2 } },
    { PT_PACKET_EVD, 11, EXTENDED, 0xff, 0x53, 0xff, { 3, 8 } },
    /* Only in a block: see form_of() */
    { PT_PACKET_BIP, BY_ITEM, 0x00, 0x00 },
};
#define BIP     (G_N_ELEMENTS(forms) - 1)

/* The form by the first byte, or by the second of those that have two */
static uint8_t by_first[256], by_extended[256], by_mode[256];

/* Of the address, by bits 5 to 7; the others are reserved. */
#define RESERVED    0xff
static const uint8_t ip_bytes[8] = { 0, 2, 4, 6, 6, RESERVED, 8, RESERVED };

static void __attribute__((constructor)) make_tables(void)
{
    for (unsigned i = 1; i < BIP; i++) {
        const struct packet_form *f = &forms[i];
        bool two = f->second_mask;
        uint8_t *table = !two ? by_first :
                         f->first == MODE ? by_mode : by_extended;

        for (unsigned byte = 0; byte < 256; byte++) {
            unsigned mask = two ? f->second_mask : f->first_mask;

            /* What is more special comes first: PAD is no TNT. */
            if ((byte & mask) == (two ? f->second : f->first) &&
                !table[byte]) {
                table[byte] = i;
            }
        }
    }
    by_first[EXTENDED] = 0;
}

static const struct packet_form *form_of(const uint8_t *p, size_t n,
                                         unsigned items)
{
    if (items && (*p & 7) == 4) {
        return &forms[BIP];
    }
    if (*p == EXTENDED || *p == MODE) {
        return n < 2 ? NULL :
               &forms[(*p == MODE ? by_mode : by_extended)[p[1]]];
    }
    return &forms[by_first[*p]];
}

/* Returns 0 if there are more than @n bytes, -1 if they are too many. */
static int read_cycles(const uint8_t *p, size_t n, uint64_t *cycles)
{
    unsigned shift = 5, size = 1;
    bool more = *p & 4;

    *cycles = *p >> 3;
    while (more) {
        if (size == n) {
            return 0;
        }
        if (shift > 63) {
            return -1;
        }
        more = p[size] & 1;
        *cycles |= (uint64_t)(p[size] >> 1) << shift;
        shift += 7;
        size++;
    }
    return size;
}

static uint64_t bytes_at(const uint8_t *p, unsigned n)
{
    uint64_t v = 0;

    memcpy(&v, p, n);
    return GUINT64_FROM_LE(v);
}

static bool is_psb(const uint8_t *p)
{
    uint64_t word = bytes_at(p, 8);

    return word == UINT64_C(0x8202820282028202) && word == bytes_at(p + 8, 8);
}

/* Returns false if it has no bit that says where they begin. */
static bool read_branches(struct pt_packet *packet)
{
    if (!packet->value) {
        return false;
    }
    packet->form = 63 - __builtin_clzll(packet->value);
    packet->value &= ~(UINT64_C(1) << packet->form);
    return true;
}

/* What is not as it lies in the packet; returns false if it is none. */
static bool interpret(const uint8_t *p, unsigned items,
                      struct pt_packet *packet)
{
    switch (packet->type) {
    case PT_PACKET_TNT:
        if (packet->size == 1) {
            packet->value = *p >> 1;
        }
        return read_branches(packet);
    case PT_PACKET_TIP:
    case PT_PACKET_TIP_PGE:
    case PT_PACKET_TIP_PGD:
    case PT_PACKET_FUP:
        packet->form = *p >> 5;
        packet->value = bytes_at(p + 1, packet->size - 1);
        return true;
    case PT_PACKET_PIP:
        packet->form = packet->value & 1;
        packet->value = packet->value >> 1 << 5;
        return true;
    case PT_PACKET_MODE_EXEC:
        packet->form = packet->value & 1 ? 64 : packet->value & 2 ? 32 : 16;
        /* CS.L and CS.D are never both set. */
        return (packet->value & 3) != 3;
    case PT_PACKET_MODE_TSX:
        packet->value &= 3;
        return true;
    case PT_PACKET_PSB:
        return is_psb(p);
    case PT_PACKET_TMA:
        packet->more &= 0x1ff;
        return true;
    case PT_PACKET_VMCS:
        packet->value <<= 12;
        return true;
    case PT_PACKET_MNT:
        return p[2] == 0x88;
    case PT_PACKET_BBP:
        packet->form = packet->value & 0x80 ? 4 : 8;
        packet->value &= 0x1f;
        return true;
    case PT_PACKET_BIP:
        packet->form = *p >> 3;
        packet->value = bytes_at(p + 1, items);
        return true;
    case PT_PACKET_CFE:
        packet->ip = packet->value & 0x80;
        packet->value &= 0xff1f;
        return true;
    case PT_PACKET_EVD:
        packet->form = p[2] & 0x3f;
        return true;
    default:
        return true;
    }
}

int pt_packet_read(const uint8_t *p, size_t n, unsigned items,
                   struct pt_packet *packet)
{
    const struct packet_form *f;
    uint64_t cycles = 0;
    int size;

    if (!n) {
        return 0;
    }
    f = form_of(p, n, items);
    if (!f) {
        return 0;
    }
    *packet = (struct pt_packet){ .type = f->type };
    size = f->size;
    switch (f->size) {
    case BY_IP:
        size = ip_bytes[*p >> 5] == RESERVED ? -1 : 1 + ip_bytes[*p >> 5];
        break;
    case BY_CYCLES:
        size = read_cycles(p, n, &cycles);
        break;
    case BY_ITEM:
        size = 1 + items;
        break;
    case BY_COUNT:
        size = n < 2 ? 0 : p[1] & 0x40 ? 5 : 3;
        break;
    }
    if (f->type == PT_PACKET_UNKNOWN || size < 0) {
        packet->type = PT_PACKET_UNKNOWN;
        return -1;
    }
    if (!size || (size_t)size > n) {
        return 0;
    }
    packet->size = size;
    packet->value = f->size == BY_CYCLES ? cycles :
                    bytes_at(p + f->value.at, f->value.n);
    if (f->more.at + f->more.n <= packet->size) {
        packet->more = bytes_at(p + f->more.at, f->more.n);
    }
    packet->ip = f->ip_mask && p[1] & f->ip_mask;
    if (!interpret(p, items, packet)) {
        packet->type = PT_PACKET_UNKNOWN;
        return -1;
    }
    return size;
}

bool pt_packet_ip(const struct pt_packet *packet, uint64_t *last)
{
    switch (packet->form) {
    case 1:
        *last = (*last & ~UINT64_C(0xffff)) | packet->value;
        return true;
    case 2:
        *last = (*last & ~UINT64_C(0xffffffff)) | packet->value;
        return true;
    case 3:
        *last = (int64_t)(packet->value << 16) >> 16;
        return true;
    case 4:
        *last = (*last & ~UINT64_C(0xffffffffffff)) | packet->value;
        return true;
    case 6:
        *last = packet->value;
        return true;
    default:
        return false;
    }
}

/*
 * Any 16 bytes have 8 of those at a multiple of 8: only these are looked at,
 * and they begin with either byte of a PSB.
 */
size_t pt_packet_find_psb(const uint8_t *p, size_t n)
{
    const uint64_t even = UINT64_C(0x8202820282028202);
    const uint64_t odd = UINT64_C(0x0282028202820282);

    for (size_t i = 0; i + 8 <= n; i += 8) {
        uint64_t word;
        size_t at;

        memcpy(&word, p + i, 8);
        word = GUINT64_FROM_LE(word);
        if (G_LIKELY(word != even && word != odd)) {
            continue;
        }
        /* It can begin at most 8 bytes before. */
        at = i - MIN(i, 8);
        at += (i - at + (word == odd)) % 2;
        for (; at <= i + (word == odd) && at + 16 <= n; at += 2) {
            if (is_psb(p + at)) {
                return at;
            }
        }
    }
    return n;
}

size_t pt_packet_seek_psb(const uint8_t *p, size_t n)
{
    size_t psb = pt_packet_find_psb(p, n);

    return psb < n ? psb : n - MIN(n, PT_PACKET_MAX - 1);
}

static const char *const names[] = {
    [PT_PACKET_UNKNOWN] = "unknown",
    [PT_PACKET_PAD] = "PAD",
    [PT_PACKET_TNT] = "TNT",
    [PT_PACKET_TIP] = "TIP",
    [PT_PACKET_TIP_PGE] = "TIP.PGE",
    [PT_PACKET_TIP_PGD] = "TIP.PGD",
    [PT_PACKET_FUP] = "FUP",
    [PT_PACKET_PIP] = "PIP",
    [PT_PACKET_MODE_EXEC] = "MODE.Exec",
    [PT_PACKET_MODE_TSX] = "MODE.TSX",
    [PT_PACKET_PSB] = "PSB",
    [PT_PACKET_PSBEND] = "PSBEND",
    [PT_PACKET_TSC] = "TSC",
    [PT_PACKET_MTC] = "MTC",
    [PT_PACKET_TMA] = "TMA",
    [PT_PACKET_CYC] = "CYC",
    [PT_PACKET_CBR] = "CBR",
    [PT_PACKET_VMCS] = "VMCS",
    [PT_PACKET_OVF] = "OVF",
    [PT_PACKET_TRACESTOP] = "TraceStop",
    [PT_PACKET_MNT] = "MNT",
    [PT_PACKET_PTW] = "PTW",
    [PT_PACKET_EXSTOP] = "EXSTOP",
    [PT_PACKET_MWAIT] = "MWAIT",
    [PT_PACKET_PWRE] = "PWRE",
    [PT_PACKET_PWRX] = "PWRX",
    [PT_PACKET_BBP] = "BBP",
    [PT_PACKET_BIP] = "BIP",
    [PT_PACKET_BEP] = "BEP",
    [PT_PACKET_CFE] = "CFE",
    [PT_PACKET_EVD] = "EVD",
    [PT_PACKET_TRIG] = "TRIG",
};

const char *pt_packet_name(enum pt_packet_type type)
{
    return type < PT_PACKET_TYPES ? names[type] : names[PT_PACKET_UNKNOWN];
}

void pt_split_feed(struct pt_split *s, const uint8_t *p, size_t n,
                   pt_split_fn *read, void *opaque)
{
    size_t used;

    while (s->n && n) {
        /* Enough that what is left of it begins in the new piece */
        size_t more = MIN(n, sizeof(s->kept) - s->n);

        memcpy(s->kept + s->n, p, more);
        used = read(opaque, s->kept, s->n + more);
        if (used >= s->n) {
            p += used - s->n;
            n -= used - s->n;
            s->n = 0;
        } else {
            /* Less than a packet: all of the piece is here. */
            s->n += more - used;
            memmove(s->kept, s->kept + used, s->n);
            p += more;
            n -= more;
        }
    }
    if (n) {
        used = read(opaque, p, n);
        s->n = n - used;
        memcpy(s->kept, p + used, s->n);
    }
}
