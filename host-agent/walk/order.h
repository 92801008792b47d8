/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The order of moments of several vCPUs, as exact as a trace has it
 *
 * That is by instruction counts, if records have them.  Otherwise it is by the
 * host's clock, which is estimated between TIME events in proportion to the
 * index, as system calls and functions are timed.
 */

#ifndef BTRAIL_ORDER_H
#define BTRAIL_ORDER_H

#include "walk/moment.h"

struct order;

/* @trace outlives the result.  @tick: of the session, in nanoseconds; 0 if it
 * is not known */
struct order *order_new(const struct btrail_trace *trace, uint64_t tick);
void order_free(struct order *o);

/*
 * A number that is higher for later moments: instructions or nanoseconds. 
 * Those of each vCPU come in the order of their indices; others take long.
 */
uint64_t order_key(struct order *o, const struct moment *at);

#endif /* BTRAIL_ORDER_H */
