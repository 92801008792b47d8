/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The description of a trace: what its META chunks say together
 */

#ifndef BTRAIL_META_H
#define BTRAIL_META_H

#include "backtrail/trace.h"
#include "util/json.h"

/**
 * btrail_meta_read - read the description of a trace
 * @trace: the trace
 * @bad:   gets how many pieces are not JSON objects and were left out
 *
 * Members of a later piece replace those of an earlier one.  They can be of
 * any type.  Returns an object, empty if there is no description.
 */
JsonObject *btrail_meta_read(const struct btrail_trace *trace, unsigned *bad);

/*
 * How much later than its TIME event a record can have been made, by the
 * description: a tick
 */
uint64_t btrail_meta_tick(JsonObject *meta);

/*
 * The most time that the records between two clocks share: if more has passed,
 * the vCPU has waited before the second clock.  @tick: of the trace; 0 if it
 * has none
 */
uint64_t btrail_busy_time(uint64_t tick);

#endif /* BTRAIL_META_H */
