/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Packets of Intel PT: SDM vol. 3, "Intel Processor Trace", "Trace Packets and
 * Data Types"
 */

#ifndef BTRAIL_PACKETS_H
#define BTRAIL_PACKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <glib.h>

/* No packet is longer. */
#define PT_PACKET_MAX   16

/**
 * enum pt_packet_type - and what struct pt_packet has of each
 *
 * @PT_PACKET_UNKNOWN: no packet begins like this
 * @PT_PACKET_PAD:     -
 * @PT_PACKET_TNT:     @form: how many branches; @value: a bit for each, that of
 *                     the oldest is the highest
 * @PT_PACKET_TIP:     as TIP_PGE, TIP_PGD, FUP: @form and @value for
 *                     pt_packet_ip()
 * @PT_PACKET_PIP:     @value: CR3; @form: 1 if in VMX non-root operation
 * @PT_PACKET_MODE_EXEC: @form: bits of the code: 16, 32 or 64
 * @PT_PACKET_MODE_TSX: @value: bit 0: in a transaction; bit 1: it was aborted
 * @PT_PACKET_PSB:     -
 * @PT_PACKET_PSBEND:  -
 * @PT_PACKET_TSC:     @value: 56 bits of it
 * @PT_PACKET_MTC:     @value: 8 bits of the CTC
 * @PT_PACKET_TMA:     @value: 16 bits of the CTC; @more: the fast counter
 * @PT_PACKET_CYC:     @value: cycles
 * @PT_PACKET_CBR:     @value: ratio of core and bus
 * @PT_PACKET_VMCS:    @value: address of the VMCS
 * @PT_PACKET_OVF:     -
 * @PT_PACKET_TRACESTOP: -
 * @PT_PACKET_MNT:     @value: 64 bits
 * @PT_PACKET_PTW:     @value: the operand; @ip: FUP follows
 * @PT_PACKET_EXSTOP:  @ip
 * @PT_PACKET_MWAIT:   @value: hints, and from bit 32 on extensions
 * @PT_PACKET_PWRE:    @value: C-states
 * @PT_PACKET_PWRX:    @value: C-states, and why
 * @PT_PACKET_BBP:     @value: the type; @form: bytes of each item
 * @PT_PACKET_BIP:     @form: which item; @value
 * @PT_PACKET_BEP:     @ip
 * @PT_PACKET_CFE:     @value: the type, and from bit 8 on the vector; @ip
 * @PT_PACKET_EVD:     @form: the type; @value
 * @PT_PACKET_TRIG:    @value: a bit for each trigger; @more: instructions since
 *                     the last address; @ip
 */
enum pt_packet_type {
    PT_PACKET_UNKNOWN,
    PT_PACKET_PAD,
    PT_PACKET_TNT,
    PT_PACKET_TIP,
    PT_PACKET_TIP_PGE,
    PT_PACKET_TIP_PGD,
    PT_PACKET_FUP,
    PT_PACKET_PIP,
    PT_PACKET_MODE_EXEC,
    PT_PACKET_MODE_TSX,
    PT_PACKET_PSB,
    PT_PACKET_PSBEND,
    PT_PACKET_TSC,
    PT_PACKET_MTC,
    PT_PACKET_TMA,
    PT_PACKET_CYC,
    PT_PACKET_CBR,
    PT_PACKET_VMCS,
    PT_PACKET_OVF,
    PT_PACKET_TRACESTOP,
    PT_PACKET_MNT,
    PT_PACKET_PTW,
    PT_PACKET_EXSTOP,
    PT_PACKET_MWAIT,
    PT_PACKET_PWRE,
    PT_PACKET_PWRX,
    PT_PACKET_BBP,
    PT_PACKET_BIP,
    PT_PACKET_BEP,
    PT_PACKET_CFE,
    PT_PACKET_EVD,
    PT_PACKET_TRIG,
    PT_PACKET_TYPES,
};

struct pt_packet {
    uint8_t type;
    uint8_t size;
    uint8_t form;
    bool ip;
    uint64_t value;
    uint64_t more;
};

/**
 * pt_packet_read - what a packet says
 * @p, @n:  bytes from the packet's first on
 * @items:  0; between BBP and BEP, where other packets have the bits of TNT,
 *          the @form of BBP
 * @packet: gets it
 *
 * Returns its size; 0 if it has more than @n bytes; -1 if it is unknown.
 */
int pt_packet_read(const uint8_t *p, size_t n, unsigned items,
                   struct pt_packet *packet);

/**
 * pt_packet_ip - the address of a packet that has one
 * @last: the one before it, 0 from a PSB on; gets it
 *
 * Returns false if the packet has none ("suppressed"): @last is as before.
 */
bool pt_packet_ip(const struct pt_packet *packet, uint64_t *last);

/**
 * pt_packet_tip - read a packet if it is a TIP
 * @p:    9 bytes, outside of BBP and BEP
 * @last: as of pt_packet_ip()
 *
 * Many packets are, and this is quicker.  Returns the packet's size; 0 if it is
 * no TIP, or has no address.
 */
static inline unsigned pt_packet_tip(const uint8_t *p, uint64_t *last)
{
    uint64_t bytes;

    memcpy(&bytes, p + 1, 8);
    bytes = GUINT64_FROM_LE(bytes);
    switch (*p) {
    case 0x2d:
        *last = (*last & ~UINT64_C(0xffff)) | (bytes & 0xffff);
        return 3;
    case 0x4d:
        *last = (*last & ~UINT64_C(0xffffffff)) | (bytes & 0xffffffff);
        return 5;
    case 0x6d:
        *last = (int64_t)(bytes << 16) >> 16;
        return 7;
    case 0xcd:
        *last = bytes;
        return 9;
    default:
        return 0;
    }
}

/**
 * pt_packet_find_psb - where is the next PSB?
 *
 * Returns its offset; @n if there is no whole one.
 */
size_t pt_packet_find_psb(const uint8_t *p, size_t n);

/*
 * The same of a stream that comes in pieces: how many bytes can be passed over.
 * If there is no whole one, fewer than PT_PACKET_MAX bytes are left, with which
 * one may begin.
 */
size_t pt_packet_seek_psb(const uint8_t *p, size_t n);

/* Words for a type, such as "TIP.PGE" */
const char *pt_packet_name(enum pt_packet_type type);

/**
 * struct pt_split - a stream that comes in pieces, which may end in a packet
 * @n:    bytes that were kept of the last one
 */
struct pt_split {
    unsigned n;
    uint8_t kept[4 * PT_PACKET_MAX];
};

/*
 * Reads packets from @p on; returns how many bytes those had that it has read.
 * What it leaves are fewer than PT_PACKET_MAX bytes.
 */
typedef size_t pt_split_fn(void *opaque, const uint8_t *p, size_t n);

/* Calls @read until only bytes of one packet are left, which are kept. */
void pt_split_feed(struct pt_split *s, const uint8_t *p, size_t n,
                   pt_split_fn *read, void *opaque);

#endif /* BTRAIL_PACKETS_H */
