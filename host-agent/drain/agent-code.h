/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Draining the producer's rings of code
 */

#ifndef BTRAIL_AGENT_CODE_H
#define BTRAIL_AGENT_CODE_H

#include "drain/connection.h"

struct btrail_agent_code;

/* Gets an item, by its number; @page if it is of BTRAIL_CODE_BYTES. */
typedef void btrail_agent_code_fn(void *opaque, unsigned vcpu, uint64_t number,
                                  const struct btrail_code_item *item,
                                  const uint8_t *page);

/* The connection must live as long as the result. */
struct btrail_agent_code *
btrail_agent_code_new(struct btrail_connection *conn, btrail_agent_code_fn *fn,
                      void *opaque);
void btrail_agent_code_free(struct btrail_agent_code *c);

/* Is a ring so full that draining must not wait for the next tick? */
bool btrail_agent_code_urgent(const struct btrail_agent_code *c);

/**
 * btrail_agent_code_drain - drain items of all vCPUs
 * @all: all that are published, not only some of each vCPU
 * @n:   gets how many
 *
 * Returns false if the producer has broken the protocol.
 */
bool btrail_agent_code_drain(struct btrail_agent_code *c, bool all,
                             unsigned *n, GError **error);

/* Drains all items of a vCPU. */
bool btrail_agent_code_drain_vcpu(struct btrail_agent_code *c, unsigned vcpu,
                                  GError **error);

/*
 * Reports what the producer has lost and has not said yet, as items up to index
 * 2^64 - 1; for the end of the capture
 */
void btrail_agent_code_end(struct btrail_agent_code *c);

#endif /* BTRAIL_AGENT_CODE_H */
