/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Warnings about a call tree: see call-warnings.h
 */

#include <inttypes.h>

#include "cli/call-warnings.h"
#include "cli/cli.h"

void call_warnings_print(const struct call_tree *t)
{
    const struct stack_counts *c = stacks_counts(t->stacks);

    if (c->no_code) {
        cli_error("the instructions of %" PRIu64 " of %" PRIu64 " records "
                  "are unknown; their calls and returns are guessed",
                  c->no_code, t->records);
    }
    if (c->likely) {
        cli_error("%" PRIu64 " of %" PRIu64 " records are attributed to a "
                  "process that is likely, not certain", c->likely,
                  t->records);
    }
    if (c->nested || c->unknown) {
        cli_error("%" PRIu64 " calls, %" PRIu64 " returns; %" PRIu64
                  " calls never returned, %" PRIu64 " returns have no known "
                  "call", c->calls, c->returns, c->nested, c->unknown);
    }
    if (c->dropped) {
        cli_error("the limit of stack depth or of different stacks was "
                  "exceeded %" PRIu64 " times: those calls are counted as "
                  "part of their callers, so the numbers of some functions "
                  "are too low", c->dropped);
    }
}
