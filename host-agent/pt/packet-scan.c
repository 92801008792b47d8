/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * PSBs and PIPs of a stream: see packet-scan.h
 *
 * Where a packet begins is known once the one before it was read, which is what
 * takes the time: a load, one from a table and an addition, each of which waits
 * for the one before.  So the stream is read at several places at once (lanes).
 * Where packets begin there is guessed: most bytes are no packets, so whoever
 * begins anywhere and reads on soon comes to where one begins.  What a lane has
 * found counts once the one before it has come to exactly where it began; if it
 * has not, the stream is read again from there.
 */

#include "pt/packet-scan.h"

#define LANES       4
/* Bytes of a lane: so many that few are read for the guess */
#define LANE_MIN    256u
#define LANE_MAX    8192u
/* Packets in a row until they are taken for some */
#define GUESS       10
/* Bytes behind the lanes: of a guess that went over the end, and a packet */
#define BEHIND      (2 * PT_PACKET_MAX)
/* PSBs and PIPs of a lane */
#define FOUND       512
/* How often lanes pass packets without a look at where they are */
#define ROUNDS      512

struct scan_lane {
    const uint8_t *at;
    const uint8_t *end;         /* it ends at the first packet from here on */
    bool stopped;               /* before a packet that is not for lanes */
    unsigned n;
    const uint8_t *found[FOUND];
};

struct scanning {
    struct packet_scan *s;
    packet_scan_fn *see;
    void *opaque;
};

/* By the first byte and the second, so that what is common is close together */
static uint8_t sizes[1 << 16];
/* Where lanes are that have ended: packets of one byte, of which two are passed
 * at once */
static uint8_t nowhere[2 * ROUNDS + PT_PACKET_MAX];

/*
 * The size of a packet by its first two bytes, if these tell it, and that it
 * says nothing here, as most do; else 0.  They also tell that it is no unknown
 * one, but of a TNT of 8 bytes: see common().
 */
static unsigned size_by(uint8_t first, uint8_t second)
{
    static const uint8_t extended[256] = {
        [0x03] = 4,                     /* CBR */
        [0x12] = 6, [0x92] = 6,         /* PTW */
        [0x13] = 4,                     /* CFE */
        [0x22] = 4,                     /* PWRE */
        [0x23] = 2,                     /* PSBEND */
        [0x32] = 10, [0xb2] = 10,       /* PTW */
        [0x33] = 2, [0xb3] = 2,         /* BEP, but here is no block */
        [0x53] = 11,                    /* EVD */
        [0x62] = 2, [0xe2] = 2,         /* EXSTOP */
        [0x73] = 7,                     /* TMA */
        [0x83] = 2,                     /* TraceStop */
        [0xa2] = 7,                     /* PWRX */
        [0xa3] = 8,                     /* TNT */
        [0xc2] = 10,                    /* MWAIT */
        [0xc8] = 7,                     /* VMCS */
        [0xf3] = 2,                     /* OVF */
    };
    /* By how much of an address TIP and its like have; 0: reserved */
    static const uint8_t addresses[] = { 1, 3, 5, 7, 7, 0, 9, 0 };

    if (first == 0x02) {
        return extended[second];
    }
    if (!(first & 1)) {
        return 1;                       /* PAD, TNT */
    }
    if ((first & 3) == 3) {             /* CYC; three bytes or more are rare */
        return !(first & 4) ? 1 : !(second & 1) ? 2 : 0;
    }
    switch (first & 0x1f) {
    case 0x0d:                          /* TIP */
    case 0x11:                          /* TIP.PGE */
    case 0x01:                          /* TIP.PGD */
    case 0x1d:                          /* FUP */
        return addresses[first >> 5];
    }
    switch (first) {
    case 0x19:                          /* TSC */
        return 8;
    case 0x59:                          /* MTC */
        return 2;
    case 0x99:                          /* MODE: of a form that there is */
        return (second < 0x20 && (second & 3) != 3) || second >> 5 == 1 ? 2 : 0;
    case 0xd9:                          /* TRIG */
        return second & 0x40 ? 5 : 3;
    default:
        return 0;
    }
}

/* Few streams have it, and many that are read from a wrong byte on do. */
static bool is_odd(uint8_t byte, int size)
{
    return (byte & 0xf) == 1 ||         /* TIP.PGE, TIP.PGD */
           ((byte & 3) == 3 && size > 2);
}

/*
 * The same of a packet of one byte together with the next one, if the second
 * byte alone tells the size of that.
 */
static unsigned sizes_by(uint8_t first, uint8_t second)
{
    unsigned size = size_by(first, second);
    bool needs_third = second == 0x02 || (second & 7) == 7 ||
                       (second & 0x3f) == 0x19;

    return size != 1 || needs_third || is_odd(second, 0) ? size :
           1 + size_by(second, 0);
}

static void make_tables(void)
{
    static gsize made;

    if (g_once_init_enter(&made)) {
        for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
            sizes[i] = sizes_by(i >> 8, i & 0xff);
        }
        memset(nowhere, 0x06, sizeof(nowhere));
        g_once_init_leave(&made, 1);
    }
}

/*
 * The same at a place in a stream.  A TNT of 8 bytes without a bit that says
 * where its branches begin is unknown: that, and what else zeros follow, is
 * left to the parser, too.  Reads 8 bytes.
 */
static inline unsigned common(const uint8_t *p)
{
    uint16_t two;
    uint32_t four;

    memcpy(&two, p, sizeof(two));
    memcpy(&four, p + 4, sizeof(four));
    return four ? sizes[GUINT16_FROM_BE(two)] : 0;
}

/* The same of one packet alone */
static unsigned common_one(const uint8_t *p)
{
    return common(p) ? size_by(p[0], p[1]) : 0;
}

/*
 * Lanes.  Behind all that they read there are PT_PACKET_MAX bytes.
 */

/* A place from @at on where a packet begins, unless it does not */
static const uint8_t *guess(const uint8_t *at, const uint8_t *end)
{
    unsigned good = 0;

    while (good < GUESS && at < end) {
        struct pt_packet packet;
        int size = (int)common(at);

        if (!size) {
            size = pt_packet_read(at, PT_PACKET_MAX, 0, &packet);
        }
        if (size <= 0 || is_odd(*at, size)) {
            size = 1;
            good = 0;
        } else {
            good++;
        }
        at += size;
    }
    return at;
}

/* The size of a packet that is not common; 0: it is not for lanes. */
static unsigned rare(struct scan_lane *l, const uint8_t *at)
{
    struct pt_packet packet;
    int size = pt_packet_read(at, PT_PACKET_MAX, 0, &packet);

    if (size <= 0 || packet.type == PT_PACKET_BBP) {
        return 0;
    }
    if (packet.type == PT_PACKET_PSB || packet.type == PT_PACKET_PIP) {
        if (l->n == FOUND) {
            return 0;
        }
        l->found[l->n++] = at;
    }
    return size;
}

/* Passes one packet after the other, as far as the end of the lane. */
static void finish(struct scan_lane *l)
{
    while (!l->stopped && l->at < l->end) {
        unsigned size = common_one(l->at) ?: rare(l, l->at);

        l->stopped = !size;
        l->at += size;
    }
}

/* Passes one packet, or two; *@n is 1 if the lane is not to go on. */
static inline const uint8_t *pass(struct scan_lane *l, const uint8_t *at,
                                  size_t *n)
{
    unsigned size = common(at);

    if (G_UNLIKELY(!size)) {
        size = rare(l, at);
        if (!size) {
            l->stopped = true;
            *n = 1;
        }
    }
    return at + size;
}

/* How often each lane can pass packets, 0 if all are at their ends; @at: where
 * they are */
static size_t rounds(const struct scan_lane *l, const uint8_t **at)
{
    size_t least = SIZE_MAX;

    for (unsigned i = 0; i < LANES; i++) {
        at[i] = nowhere;
        /* The last packet before the end is passed alone. */
        if (!l[i].stopped && l[i].end - l[i].at > PT_PACKET_MAX) {
            at[i] = l[i].at;
            least = MIN(least, (size_t)(l[i].end - l[i].at) - PT_PACKET_MAX);
        }
    }
    return least == SIZE_MAX ? 0 :
           MIN((least + PT_PACKET_MAX - 1) / PT_PACKET_MAX, ROUNDS);
}

static void run(struct scan_lane *l)
{
    const uint8_t *at[LANES];
    size_t n;

    while ((n = rounds(l, at))) {
        const uint8_t *a = at[0], *b = at[1], *c = at[2], *d = at[3];

        do {
            a = pass(&l[0], a, &n);
            b = pass(&l[1], b, &n);
            c = pass(&l[2], c, &n);
            d = pass(&l[3], d, &n);
        } while (--n);
        l[0].at = at[0] == nowhere ? l[0].at : a;
        l[1].at = at[1] == nowhere ? l[1].at : b;
        l[2].at = at[2] == nowhere ? l[2].at : c;
        l[3].at = at[3] == nowhere ? l[3].at : d;
    }
}

/* Reads a piece in lanes of @size bytes each; returns up to where. */
static const uint8_t *scan_lanes(struct scanning *scan, const uint8_t *p,
                                 size_t size, uint64_t offset)
{
    const uint8_t *at = p;
    struct scan_lane lanes[LANES];

    for (unsigned i = 0; i < LANES; i++) {
        struct scan_lane *l = &lanes[i];

        l->stopped = false;
        l->n = 0;
        l->end = p + (i + 1) * size;
        l->at = p;
        if (i) {
            l->at = guess(l->end - size, l->end);
            lanes[i - 1].end = l->at;
        }
    }
    run(lanes);
    for (unsigned i = 0; i < LANES; i++) {
        struct scan_lane *l = &lanes[i];

        finish(l);

        for (unsigned j = 0; j < l->n; j++) {
            struct pt_packet packet;

            pt_packet_read(l->found[j], PT_PACKET_MAX, 0, &packet);
            scan->see(scan->opaque, &packet, offset + (l->found[j] - p));
        }
        at = l->at;
        if (l->stopped) {
            break;
        }
        if (i + 1 < LANES && at != l->end) {
            scan->s->again++;
            break;
        }
    }
    return at;
}

/*
 * One packet after the other
 */

static void see_packet(struct scanning *scan, const struct pt_packet *p,
                       uint64_t at)
{
    struct packet_scan *s = scan->s;

    switch (p->type) {
    case PT_PACKET_PSB:
        s->items = 0;
        scan->see(scan->opaque, p, at);
        break;
    case PT_PACKET_PIP:
        scan->see(scan->opaque, p, at);
        break;
    case PT_PACKET_BBP:
        s->items = p->form;
        break;
    case PT_PACKET_BEP:
        s->items = 0;
        break;
    }
}

static size_t scan(void *opaque, const uint8_t *p, size_t n)
{
    struct scanning *scan = opaque;
    struct packet_scan *s = scan->s;
    uint64_t begin = s->offset;
    size_t i = 0;

    while (i < n) {
        struct pt_packet packet;
        int size;

        if (!s->in_step) {
            i += pt_packet_seek_psb(p + i, n - i);
            if (n - i < PT_PACKET_MAX) {
                break;
            }
            s->in_step = true;
        }
        if (!s->items && n - i >= LANES * LANE_MIN + BEHIND) {
            size_t lane = MIN((n - i - BEHIND) / LANES, LANE_MAX);

            i = scan_lanes(scan, p + i, lane, begin + i) - p;
        }
        size = s->items || n - i < PT_PACKET_MAX ? 0 : common(p + i);
        if (size) {
            i += size;
            continue;
        }
        size = pt_packet_read(p + i, n - i, s->items, &packet);
        if (!size) {
            break;
        }
        if (size < 0) {
            s->in_step = false;
            s->items = 0;
            i++;
            continue;
        }
        see_packet(scan, &packet, begin + i);
        i += size;
    }
    s->offset = begin + i;
    return i;
}

void packet_scan_feed(struct packet_scan *s, const uint8_t *p, size_t n,
                      packet_scan_fn *see, void *opaque)
{
    struct scanning scanning = { s, see, opaque };

    make_tables();
    pt_split_feed(&s->split, p, n, scan, &scanning);
}

void packet_scan_missing(struct packet_scan *s, uint64_t offset)
{
    s->offset = offset;
    s->split.n = 0;
    s->in_step = false;
    s->items = 0;
}
