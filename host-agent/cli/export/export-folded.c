/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail export --format folded: one line per stack, as flamegraph.pl and
 * others read them
 */

#include <inttypes.h>
#include <string.h>

#include "cli/export/export.h"
#include "util/quote.h"

#define DIGITS  "0123456789"

/* flamegraph.pl takes a number at the end of a stack for another count. */
static bool ends_in_number(const char *name)
{
    const char *blank = strrchr(name, ' ');
    const char *end = blank ? blank + 1 + strspn(blank + 1, DIGITS) : NULL;

    if (!blank || end == blank + 1) {
        return false;
    }
    end += *end == '.' ? 1 + strspn(end + 1, DIGITS) : 0;
    return !*end;
}

/* The tree is at most STACK_MAX_DEPTH deep. */
static void put_stacks(const struct export *e, const struct stack_node *n,
                GString *line)
{
    size_t len = line->len;
    const char *name;
    char buf[256];

    for (; n; n = n->next) {
        uint64_t value = e->by_time ? n->ticks / STACK_TICKS / 1000 :
                         n->records;

        if (len) {
            g_string_append_c(line, ';');
        }
        name = call_tree_name(n, buf, sizeof(buf));
        btrail_quote_append(line, name, ends_in_number(name) ? " ;" : ";");
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
