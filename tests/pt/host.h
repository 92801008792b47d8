/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The host's code in a stream: a program that can go anywhere
 *
 * Between a VM exit and the next entry a stream has packets of the host.  A
 * judge that has no host's image needs code that they fit to.  The host is a
 * row of slots.  Each has conditional branches to what follows them, which go
 * the same way whether they are taken or not, and then an indirect jump to any
 * other slot; some do what a host does.
 */
#ifndef HOST_H
#define HOST_H

#include <stddef.h>
#include <stdint.h>

#define HOST_CR3        UINT64_C(0x1234000)
#define HOST_BASE       UINT64_C(0xffffffffc0a00000)
#define HOST_SIZE       0x10000u
#define HOST_SLOT       32u
/* Which slots enter the guest, which stop tracing and start it again */
#define HOST_IS_ENTRY(slot)     ((slot) % 16 == 1)
#define HOST_IS_WRMSR(slot)     ((slot) % 16 == 0)
/* And which have a PTWRITE */
#define HOST_IS_PTWRITE(slot)   ((slot) % 16 == 2)

/* How many bytes are before the branches of a slot */
static inline unsigned host_head(unsigned slot)
{
    return HOST_IS_WRMSR(slot) ? 2 : HOST_IS_PTWRITE(slot) ? 5 : 0;
}

static inline unsigned host_branches(unsigned slot)
{
    return slot % 7;
}

/* Reads its code; returns how many bytes there are. */
static inline size_t host_code(uint64_t address, uint8_t *buf, size_t n)
{
    size_t i;

    for (i = 0; i < n && address + i - HOST_BASE < HOST_SIZE; i++) {
        unsigned at = address + i - HOST_BASE;
        unsigned slot = at / HOST_SLOT, o = at % HOST_SLOT;
        unsigned jumps = 2 * host_branches(slot);
        static const uint8_t entry[3] = { 0x0f, 0x01, 0xc3 };
        static const uint8_t wrmsr[2] = { 0x0f, 0x30 };
        static const uint8_t ptwrite[5] = { 0xf3, 0x48, 0x0f, 0xae, 0xe0 };
        static const uint8_t jump[2] = { 0xff, 0xe0 };
        unsigned head = host_head(slot);

        if (HOST_IS_ENTRY(slot)) {
            buf[i] = o < 3 ? entry[o] : 0xcc;
        } else if (o < head) {
            buf[i] = HOST_IS_WRMSR(slot) ? wrmsr[o] : ptwrite[o];
        } else {
            o -= head;
            buf[i] = o < jumps ? (o % 2 ? 0 : 0x74) :
                     o < jumps + 2 ? jump[o - jumps] : 0xcc;
        }
    }
    return i;
}

#endif
