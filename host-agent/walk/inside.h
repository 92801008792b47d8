/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * While a vCPU was in a function: from where it was called up to where it has
 * returned, what it calls included, and without the time in which the vCPU runs
 * another task
 */

#ifndef BTRAIL_INSIDE_H
#define BTRAIL_INSIDE_H

#include "walk/order.h"
#include "walk/sought.h"

struct inside;

/**
 * inside_parse - "cpu N: in [PROCESS:]FUNCTION"
 *
 * False if the text is not like that, with an error.
 */
bool inside_parse(const char *text, unsigned *vcpu, char **process,
                  char **function, GError **error);

/**
 * inside_new
 * @trace, @symbols: outlive the result
 * @vcpu:     that was in the function
 * @tick:     as for order_new()
 *
 * Errors: those of sought_function(); COMMAND: the trace has no such vCPU.
 */
struct inside *inside_new(const struct btrail_trace *trace,
                          struct symbolizer *symbols, unsigned vcpu,
                          const char *process, const char *function,
                          uint64_t tick, GError **error);
void inside_free(struct inside *s);

/**
 * inside_has - was the vCPU in the function at a moment of another one?
 * @key: from order_key(); those of successive calls do not get lower, unless by
 *       what clocks differ
 *
 * False also with an error.
 */
bool inside_has(struct inside *s, uint64_t key, GError **error);

#endif /* BTRAIL_INSIDE_H */
