/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The time of a guest: see guest-clock.h
 */

#include <glib.h>

#include "pt/guest-clock.h"

static void set(struct guest_clock *c, uint64_t base)
{
    c->base = base;
    c->cycles = 0;
    c->now = MAX(c->now, base);
}

/* n * tsc_per_ctc; @n is below 2^63 / 2^32 or what comes of it is of no use. */
static uint64_t to_tsc(const struct guest_clock *c, uint64_t n)
{
    return (unsigned __int128)n * c->tsc_per_ctc[0] / c->tsc_per_ctc[1];
}

static bool has_mtc(const struct guest_clock *c)
{
    return c->tsc_per_ctc[0] && c->tsc_per_ctc[1] && c->mtc_shift < 16;
}

static void read_tsc(struct guest_clock *c, uint64_t tsc, bool in_guest,
                     bool in_host)
{
    if (in_host && c->host.ratio) {
        tsc = kvm_tsc_at(&c->host, tsc) & UINT64_MAX >> 8;
        in_guest = true;
    }
    c->after_tsc = in_guest;
    if (in_guest) {
        /* The upper 8 bits are not in the packet. */
        c->base = (c->now & ~(UINT64_MAX >> 8)) | tsc;
        c->cycles = 0;
        c->now = c->base;
        c->known = true;
        c->has_origin = false;
    }
}

/* The CTC at the last TSC, and how much later than its last tick that was */
static void read_tma(struct guest_clock *c, const struct pt_packet *packet)
{
    if (!has_mtc(c)) {
        return;
    }
    if (c->has_ctc) {
        c->ctcs += (packet->value - c->ctc) & 0xffff;
    }
    c->ctc = packet->value;
    c->has_ctc = true;
    if (c->after_tsc) {
        c->origin = c->base - packet->more;
        c->ctcs = 0;
        c->has_origin = true;
    }
    c->after_tsc = false;
}

/*
 * Cycles can say that more has passed than 8 bits of the CTC have room for:
 * where the CPU slept, not each MTC has to come.
 */
static uint64_t missed(const struct guest_clock *c, uint64_t tsc)
{
    uint64_t round = UINT64_C(256) << c->mtc_shift;
    uint64_t time = to_tsc(c, round);

    return time && c->now > tsc && c->now - tsc > time / 2 ?
           (c->now - tsc + time / 2) / time * round : 0;
}

/* Bits n to n + 7 of the CTC, the lower n are 0. */
static void read_mtc(struct guest_clock *c, unsigned mtc)
{
    uint32_t passed;

    if (!has_mtc(c) || !c->has_ctc) {
        return;
    }
    passed = ((mtc - (c->ctc >> c->mtc_shift)) & 0xff) << c->mtc_shift;
    passed -= MIN(passed, c->ctc & ((1u << c->mtc_shift) - 1));
    c->ctc += passed;
    c->ctcs += passed;
    if (c->has_origin) {
        c->ctcs += missed(c, c->origin + to_tsc(c, c->ctcs));
        set(c, c->origin + to_tsc(c, c->ctcs));
    }
}

static void read_cycles(struct guest_clock *c, uint64_t cycles)
{
    if (!c->bus_ratio || !c->ratio || !c->known || cycles >> 40 ||
        c->cycles >> 40) {
        return;
    }
    c->cycles += cycles;
    c->now = MAX(c->now, c->base + c->cycles * c->bus_ratio / c->ratio);
}

void guest_clock_read(struct guest_clock *c, const struct pt_packet *packet,
                      bool in_guest, bool in_host)
{
    switch (packet->type) {
    case PT_PACKET_TSC:
        read_tsc(c, packet->value, in_guest, in_host);
        break;
    case PT_PACKET_TMA:
        read_tma(c, packet);
        break;
    case PT_PACKET_MTC:
        read_mtc(c, packet->value);
        break;
    case PT_PACKET_CBR:
        if (c->ratio && packet->value != c->ratio) {
            /* What has passed did so at the old one. */
            set(c, c->now);
        }
        c->ratio = packet->value;
        break;
    case PT_PACKET_CYC:
        read_cycles(c, packet->value);
        break;
    }
}

void guest_clock_lose(struct guest_clock *c)
{
    c->has_ctc = c->has_origin = c->after_tsc = c->known = false;
}
