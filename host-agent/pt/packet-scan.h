/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A look through a stream of Intel PT, as it comes, for its PSBs and PIPs
 */

#ifndef BTRAIL_PACKET_SCAN_H
#define BTRAIL_PACKET_SCAN_H

#include "pt/packets.h"

/* A PSB, or a PIP; @offset: of the packet in the stream */
typedef void packet_scan_fn(void *opaque, const struct pt_packet *packet,
                            uint64_t offset);

/**
 * struct packet_scan - all zeros is one that waits for the first PSB
 * @split:   bytes of a packet that has not come as a whole
 * @offset:  of the next packet
 * @in_step: a packet begins there; else the next PSB is looked for
 * @items:   as of pt_packet_read()
 * @again:   how often packets did not begin where that was guessed
 */
struct packet_scan {
    struct pt_split split;
    uint64_t offset;
    bool in_step;
    unsigned items;
    uint64_t again;
};

/* Calls @see for what is in the next bytes, which may be cut anywhere. */
void packet_scan_feed(struct packet_scan *s, const uint8_t *p, size_t n,
                      packet_scan_fn *see, void *opaque);

/* Before what is fed next, which is at @offset, bytes are missing. */
void packet_scan_missing(struct packet_scan *s, uint64_t offset);

#endif /* BTRAIL_PACKET_SCAN_H */
