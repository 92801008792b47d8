/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail why: the spans that it is asked about
 */

#include <string.h>

#include "cli/why/why.h"

static struct waiting_moment moment_of(const struct span_point *p)
{
    return (struct waiting_moment) { p->vcpu, p->index, p->time };
}

static bool find_between(struct why *why)
{
    const struct span *span;
    struct between *b = &why->between;

    if (!between_read(b, &why->in, true, true)) {
        return false;
    }
    for (size_t i = 0; (span = spans_get(b->spans, i)); i++) {
        if (span->end) {
            const struct why_span s = {
                moment_of(span->begin), moment_of(span->end), span->end->task,
                span->end->kernel, span->paused,
            };

            g_array_append_val(why->spans, s);
        }
    }
    if (!why->spans->len) {
        cli_error("%s: there is no span from '%s' to '%s' that ends",
                  why->in.trace.path, b->texts[0], b->texts[1]);
    }
    return why->spans->len;
}

bool why_find_spans(struct why *why)
{
    return find_between(why);
}
