/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code bytes: from the producer's rings into pieces of sideband
 */

#ifndef BTRAIL_AGENT_CODE_H
#define BTRAIL_AGENT_CODE_H

#include "output.h"
#include "transport.h"

struct btrail_agent_code;

/* Code below the kernel's half is executed for the first time, with this CR3. */
typedef void btrail_agent_code_user_fn(void *opaque, uint64_t cr3,
                                       uint64_t address);

/* @t and @o must live as long as it does. */
struct btrail_agent_code *
btrail_agent_code_new(struct btrail_transport *t, struct btrail_output *o,
                      btrail_agent_code_user_fn *user, void *opaque);
void btrail_agent_code_free(struct btrail_agent_code *c);

/* Is a ring full enough not to wait for the next tick? */
bool btrail_agent_code_urgent(const struct btrail_agent_code *c);

/**
 * btrail_agent_code_drain - take items of all vCPUs
 * @all:     all there are, not only some of each
 * @discard: do not look at them
 * @n:       gets how many
 *
 * False if the producer has broken the protocol.
 */
bool btrail_agent_code_drain(struct btrail_agent_code *c, bool all,
                             bool discard, unsigned *n, GError **error);

/* Write what has come. */
void btrail_agent_code_flush(struct btrail_agent_code *c);

/* The session has ended: what the producer has lost, and did not say yet */
void btrail_agent_code_end(struct btrail_agent_code *c);

#endif /* BTRAIL_AGENT_CODE_H */
