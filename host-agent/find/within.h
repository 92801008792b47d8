/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * While a vCPU was in a function: from where it was called up to where it has
 * returned, what it calls included, and without the time in which the vCPU runs
 * another task
 */

#ifndef BTRAIL_WITHIN_H
#define BTRAIL_WITHIN_H

#include "find/clock-order.h"
#include "find/target.h"

struct within;

/**
 * within_parse - "cpu N: in [PROCESS:]FUNCTION"
 *
 * False if the text is not like that, with an error.
 */
bool within_parse(const char *text, unsigned *vcpu, char **process,
                  char **function, GError **error);

/**
 * within_new
 * @trace, @symbols: outlive the result
 * @vcpu:     that was in the function
 * @tick:     as for clock_order_new()
 *
 * Errors: those of find_target_function(); COMMAND: the trace has no such vCPU.
 */
struct within *within_new(const struct btrail_trace *trace,
                          struct symbolizer *symbols, unsigned vcpu,
                          const char *process, const char *function,
                          uint64_t tick, GError **error);
void within_free(struct within *s);

/**
 * within_has - was the vCPU in the function at a moment of another one?
 * @key: from clock_order_key(); those of successive calls only get lower by
 *       what clocks differ
 *
 * False also with an error.
 */
bool within_has(struct within *s, uint64_t key, GError **error);

#endif /* BTRAIL_WITHIN_H */
