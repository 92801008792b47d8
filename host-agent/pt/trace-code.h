/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code for a PT stream from a trace of the same vCPU, which has it
 */

#ifndef BTRAIL_TRACE_CODE_H
#define BTRAIL_TRACE_CODE_H

#include "backtrail/code.h"
#include "pt/linked-blocks.h"

/* Before which record of the trace is a moment? */
typedef uint64_t trace_code_index_fn(void *opaque,
                                     const struct pt_moment *moment);

struct trace_code;

/* @code: must outlive it, and be used by nobody else */
struct trace_code *trace_code_new(struct btrail_code *code, unsigned vcpu,
                                  trace_code_index_fn *index, void *opaque);
void trace_code_free(struct trace_code *t);

/* The trace_code is the first argument. */
pt_code_fn trace_code_read;

#endif /* BTRAIL_TRACE_CODE_H */
