/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code bytes: draining the producer's rings
 */

#ifndef BTRAIL_AGENT_CODE_H
#define BTRAIL_AGENT_CODE_H

#include "drain/connection.h"

struct btrail_agent_code;

/* An item, by its number; @page if it is of BTRAIL_CODE_BYTES. */
typedef void btrail_agent_code_fn(void *opaque, unsigned vcpu, uint64_t number,
                                  const struct btrail_code_item *item,
                                  const uint8_t *page);

/* @t must live as long as it does. */
struct btrail_agent_code *
btrail_agent_code_new(struct btrail_connection *conn, btrail_agent_code_fn *fn,
                      void *opaque);
void btrail_agent_code_free(struct btrail_agent_code *c);

/* Is a ring full enough not to wait for the next tick? */
bool btrail_agent_code_urgent(const struct btrail_agent_code *c);

/**
 * btrail_agent_code_drain - take items of all vCPUs
 * @all: all there are, not only some of each
 * @n:   gets how many
 *
 * False if the producer has broken the protocol.
 */
bool btrail_agent_code_drain(struct btrail_agent_code *c, bool all,
                             unsigned *n, GError **error);

/* Take all there is of a vCPU. */
bool btrail_agent_code_drain_vcpu(struct btrail_agent_code *c, unsigned vcpu,
                                  GError **error);

/*
 * The capture has ended: what the producer has lost, and did not say yet, as
 * items up to index 2^64 - 1
 */
void btrail_agent_code_end(struct btrail_agent_code *c);

#endif /* BTRAIL_AGENT_CODE_H */
