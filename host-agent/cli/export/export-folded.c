/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail export --format folded: one line per stack, as flamegraph.pl and
 * others read them
 */

#include <inttypes.h>

#include "cli/export/export.h"
#include "util/quote.h"

/* The tree is at most STACK_MAX_DEPTH deep. */
static void put_stacks(const struct export *e, const struct stack_node *n,
                GString *line)
{
    size_t len = line->len;
    char buf[256];

    for (; n; n = n->next) {
        uint64_t value = e->by_time ? n->ticks / STACK_TICKS / 1000 :
                         n->records;

        if (len) {
            g_string_append_c(line, ';');
        }
        btrail_quote_append(line, call_tree_name(n, buf, sizeof(buf)), ";");
        if (n->function && n->function->module->kernel) {
            g_string_append(line, "_[k]");
        }
        if (value) {
            fprintf(e->out, "%s %" PRIu64 "\n", line->str, value);
        }
        put_stacks(e, n->child, line);
        g_string_truncate(line, len);
    }
}

/* A stack can have several lines, the numbers of which are to be added. */
static void put_tree(void *opaque, const struct call_tree *t)
{
    g_autoptr(GString) line = g_string_new(NULL);

    put_stacks(opaque, stacks_roots(t->stacks), line);
}

int export_folded(struct export *e)
{
    static const struct call_tree_ops ops = { .spill = put_tree };
    struct call_tree t;
    int ret = analysis_read_calls(&e->in, &t, &ops, e);

    if (!ret) {
        put_tree(e, &t);
        export_end_calls(e, &t);
    }
    return ret;
}
