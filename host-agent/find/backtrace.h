/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The call stack at a moment
 *
 * It is followed from some records before the moment on, not from the start of
 * the trace.  So calls that began before that are not known, and the result
 * says whether it has them all.
 */

#ifndef BTRAIL_BACKTRACE_H
#define BTRAIL_BACKTRACE_H

#include "find/moment.h"
#include "symbolize/stack.h"

/**
 * struct backtrace
 * @calls:   of struct stack_call, the function at the moment first
 * @process: the task
 * @whole:   the last one is where the thread began, so there are no more
 * @since:   index of the record from which on calls are known
 */
struct backtrace {
    GArray *calls;
    const struct process *process;
    bool whole;
    uint64_t since;
};

struct backtraces;

/* @trace and @symbols outlive the result. */
struct backtraces *backtraces_new(const struct btrail_trace *trace,
                                  struct symbolizer *symbols);
void backtraces_free(struct backtraces *b);

/*
 * At most so many records before a moment are followed, for those that come,
 * and those of a moment before if that is near: in the order of their indices,
 * they take less time.
 */
void backtraces_limit(struct backtraces *b, uint64_t records);

/* The fewest that are */
#define BACKTRACE_FEWEST    (UINT64_C(1) << 15)

/* False if the trace cannot be read there.  The result is valid until the next
 * call. */
bool backtraces_at(struct backtraces *b, const struct moment *at,
                   const struct backtrace **found);

#endif /* BTRAIL_BACKTRACE_H */
