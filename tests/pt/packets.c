/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes packets of Intel PT: see packets.h
 */

#include <string.h>

#include "packets.h"

void packets_raw(struct packets *p, const void *bytes, size_t n)
{
    g_byte_array_append(p->out, bytes, n);
}

/* Two bytes of an opcode, and a value, little-endian */
static void extended(struct packets *p, unsigned opcode, uint64_t value,
                     unsigned n)
{
    uint8_t b[10] = { 0x02, opcode };

    for (unsigned i = 0; i < n; i++) {
        b[2 + i] = value >> i * 8;
    }
    packets_raw(p, b, 2 + n);
}

void packets_tnt(struct packets *p, uint64_t bits, unsigned n)
{
    uint64_t stopped = UINT64_C(1) << n | bits;

    if (n <= 6) {
        uint8_t b = stopped << 1;

        packets_raw(p, &b, 1);
    } else {
        extended(p, 0xa3, stopped, 6);
    }
}

static uint64_t sign_extended(uint64_t ip)
{
    return (uint64_t)((int64_t)(ip << 16) >> 16);
}

void packets_ip(struct packets *p, unsigned opcode, uint64_t ip)
{
    static const uint8_t size[8] = { 0, 2, 4, 6, 6, 0, 8, 0 };
    bool fits[8] = {
        [1] = !p->whole && ip >> 16 == p->last_ip >> 16,
        [2] = !p->whole && ip >> 32 == p->last_ip >> 32,
        [3] = sign_extended(ip) == ip,
        [4] = !p->whole && ip >> 48 == p->last_ip >> 48,
        [6] = true,
    };
    unsigned form = 1;
    uint8_t b[9];

    while (!fits[form] || (p->any_form && form < 6 &&
                           !g_rand_int_range(p->rand, 0, 4))) {
        form++;
    }
    b[0] = opcode | form << 5;
    for (unsigned i = 0; i < size[form]; i++) {
        b[1 + i] = ip >> i * 8;
    }
    packets_raw(p, b, 1 + size[form]);
    p->last_ip = ip;
    p->whole = false;
    p->forms[form]++;
}

void packets_no_ip(struct packets *p, unsigned opcode)
{
    uint8_t b = opcode;

    packets_raw(p, &b, 1);
    p->forms[0]++;
}

void packets_psb(struct packets *p)
{
    for (int i = 0; i < 8; i++) {
        extended(p, 0x82, 0, 0);
    }
    p->last_ip = 0;
}

void packets_psbend(struct packets *p)
{
    extended(p, 0x23, 0, 0);
}

void packets_tsc(struct packets *p, uint64_t tsc)
{
    uint8_t b[8] = { 0x19 };

    for (int i = 0; i < 7; i++) {
        b[1 + i] = tsc >> i * 8;
    }
    packets_raw(p, b, sizeof(b));
}

void packets_tma(struct packets *p, unsigned ctc, unsigned fast)
{
    extended(p, 0x73, (ctc & 0xffff) | (uint64_t)(fast & 0x1ff) << 24, 5);
}

void packets_mtc(struct packets *p, unsigned ctc)
{
    uint8_t b[2] = { 0x59, ctc };

    packets_raw(p, b, sizeof(b));
}

void packets_cyc(struct packets *p, uint64_t cycles)
{
    uint8_t b[12];
    unsigned n = 0;

    b[n] = 3 | (cycles & 0x1f) << 3;
    cycles >>= 5;
    if (cycles) {
        b[n] |= 4;
    }
    n++;
    while (cycles) {
        b[n] = (cycles & 0x7f) << 1;
        cycles >>= 7;
        if (cycles) {
            b[n] |= 1;
        }
        n++;
    }
    packets_raw(p, b, n);
}

void packets_cbr(struct packets *p, unsigned ratio)
{
    extended(p, 0x03, ratio, 2);
}

void packets_mode(struct packets *p, unsigned mode)
{
    uint8_t b[2] = { 0x99, mode };

    packets_raw(p, b, sizeof(b));
}

void packets_pip(struct packets *p, uint64_t cr3, bool guest)
{
    uint64_t base = (cr3 & UINT64_C(0x000fffffffffffe0)) >> 5;

    extended(p, 0x43, base << 1 | guest, 6);
}

void packets_vmcs(struct packets *p, uint64_t base)
{
    extended(p, 0xc8, base >> 12, 5);
}

/*
 * Does LastIP survive?  For libipt it is 0 then, for perf what it was; so the
 * CPUs that both decode can only write IPs that do not depend on it.
 */
void packets_ovf(struct packets *p)
{
    extended(p, 0xf3, 0, 0);
    p->whole = true;
}

void packets_ptw(struct packets *p, uint64_t value, bool wide, bool ip)
{
    extended(p, 0x12 | wide << 5 | ip << 7, value, wide ? 8 : 4);
}

void packets_mwait(struct packets *p)
{
    extended(p, 0xc2, 0x0000000100000020, 8);
}

void packets_pwre(struct packets *p)
{
    extended(p, 0x22, 0x2000, 2);
}

void packets_pwrx(struct packets *p)
{
    extended(p, 0xa2, 0x0122, 5);
}

void packets_exstop(struct packets *p, bool ip)
{
    extended(p, ip ? 0xe2 : 0x62, 0, 0);
}

void packets_mnt(struct packets *p, uint64_t value)
{
    static const uint8_t opcode[3] = { 0x02, 0xc3, 0x88 };

    packets_raw(p, opcode, sizeof(opcode));
    packets_raw(p, &value, sizeof(value));
}

void packets_pad(struct packets *p)
{
    uint8_t b = 0;

    packets_raw(p, &b, 1);
}
