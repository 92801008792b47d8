/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A producer that does what the input of a fuzz target says
 *
 * The input is a sequence of actions, each one a byte (enum producer_action)
 * and what it needs, little endian:
 *
 *   WRITE  u32 offset, u16 length, bytes: into the shared memory
 *   SEND   u8 descriptors, u8 length, bytes: through the socket, with this many
 *          of the memfd, the two eventfds and further eventfds
 *   LATER  writes that follow are not made until producer_later()
 *
 * The memory is zero at first.  It ends at an action that is not whole.
 */

#ifndef BTRAIL_FUZZ_PRODUCER_H
#define BTRAIL_FUZZ_PRODUCER_H

#include <stdint.h>
#include <stddef.h>

#define PRODUCER_MEMORY (256u << 10)
#define PRODUCER_FDS    5

enum producer_action {
    PRODUCER_WRITE = 0,
    PRODUCER_SEND = 1,
    PRODUCER_LATER = 2,
};

/**
 * struct producer
 * @sock:       its end, shut down for writing
 * @agent_sock: the other end
 * @memory:     PRODUCER_MEMORY bytes, shared
 */
struct producer {
    int sock;
    int agent_sock;
    uint8_t *memory;
    int fds[PRODUCER_FDS];
    const uint8_t *rest;
    size_t left;
};

/* Do everything up to LATER. */
void producer_init(struct producer *p, const uint8_t *data, size_t size);
void producer_later(struct producer *p);
/* agent_sock belongs to the agent. */
void producer_clear(struct producer *p);

#endif /* BTRAIL_FUZZ_PRODUCER_H */
