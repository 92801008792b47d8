/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail report --call-graph: see report.h
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/report/report.h"
#include "util/json.h"
#include "util/search.h"

/*
 * @all:   records of all commands
 * @ticks: their time
 * @shown: functions that were printed
 * @left:  functions with records that were not
 */
struct graph {
    const struct report *report;
    const struct call_sum *sums;
    uint64_t all;
    uint64_t ticks;
    JsonArray *rows;            /* of JSON */
    size_t shown;
    size_t left;
};

static const char *name_of(const struct stack_node *n)
{
    return n->function ? n->function->name : n->process->comm;
}

static gint by_records(gconstpointer a, gconstpointer b, gpointer opaque)
{
    const struct call_sum *sums = opaque;
    const struct stack_node *x = *(const struct stack_node *const *)a;
    const struct stack_node *y = *(const struct stack_node *const *)b;

    return BTRAIL_COMPARE(sums[y->id].records, sums[x->id].records) ?:
           strcmp(name_of(x), name_of(y)) ?: BTRAIL_COMPARE(x->id, y->id);
}

/* Is there anything to say of a node, or of those below it? */
static bool has_any(const struct graph *g, const struct stack_node *n)
{
    return g->sums[n->id].records || g->sums[n->id].ticks || n->calls;
}

/* A node and its siblings, those with most records first */
static GPtrArray *sorted(const struct graph *g, const struct stack_node *n)
{
    GPtrArray *nodes = g_ptr_array_new();

    for (; n; n = n->next) {
        if (has_any(g, n)) {
            g_ptr_array_add(nodes, (gpointer)n);
        }
    }
    g_ptr_array_sort_with_data(nodes, by_records, (gpointer)g->sums);
    return nodes;
}

static void add_json(struct graph *g, const struct stack_node *n)
{
    const struct call_sum *s = &g->sums[n->id];

    json_array_add_object_element(g->rows, btrail_json_new(
        "u:depth", n->depth, "U:records", s->records, "U:self", n->records,
        "U:ns", s->ticks / STACK_TICKS, "U:calls", n->calls,
        "s:comm", n->process->comm,
        "S:dso", n->function ? n->function->module->name : NULL,
        "S:sym", n->function ? n->function->name : NULL, NULL));
}

static void print_line(const struct graph *g, const struct stack_node *n)
{
    const struct call_sum *s = &g->sums[n->id];

    cli_printf("  %7.2f%% %7.2f%% %14.6f %14" PRIu64 "  %*s%s",
               100 * report_share(s->records, g->all),
               100 * report_share(n->records, g->all),
               s->ticks / STACK_TICKS / 1e9, n->calls, 2 * (int)n->depth, "",
               name_of(n));
    if (n->function) {
        cli_printf("  (%s)", n->function->module->name);
    }
    cli_printf("\n");
}

/* Is the part of the records or of the time large enough?  If it is not, nor is
 * that of any node below it. */
static bool shows(const struct graph *g, const struct stack_node *n)
{
    const struct call_sum *s = &g->sums[n->id];

    return report_shows(g->report, g->shown,
                        MAX(report_share(s->records, g->all),
                            report_share(s->ticks, g->ticks)));
}

/* Counts functions that are not printed: some nodes, and all below them. */
static void leave_out(struct graph *g, const struct stack_node *n)
{
    g->left++;
    for (n = n->child; n; n = n->next) {
        if (has_any(g, n)) {
            leave_out(g, n);
        }
    }
}

/* The tree is at most STACK_MAX_DEPTH deep. */
static void print_nodes(struct graph *g, const struct stack_node *first)
{
    g_autoptr(GPtrArray) nodes = sorted(g, first);

    for (unsigned i = 0; i < nodes->len; i++) {
        const struct stack_node *n = nodes->pdata[i];

        if (g->rows) {
            add_json(g, n);
        } else if (shows(g, n)) {
            g->shown++;
            print_line(g, n);
        } else {
            leave_out(g, n);
            continue;
        }
        print_nodes(g, n->child);
    }
}

static void print_text(struct graph *g, const struct call_tree *t)
{
    uint64_t dropped = stacks_counts(t->stacks)->dropped;

    cli_hold();
    cli_printf("# %" PRIu64 " records\n", g->all);
    if (dropped) {
        cli_printf("# %" PRIu64 " calls are counted as part of their callers: "
                   "there are too many different stacks\n", dropped);
    }
    cli_printf("#\n# Children     Self     On CPU (s)          Calls  "
               "Call graph\n");
    cli_held();
    print_nodes(g, stacks_roots(t->stacks));
    if (g->left) {
        cli_printf("# %zu more functions; --min-share=0 --top=0 shows them\n",
                   g->left);
    }
    fflush(stdout);
    analysis_warn(t);
}

int report_call_graph(struct report *r)
{
    struct graph g = { .report = r };
    struct call_tree t;
    const struct stack_node *n;
    int ret = analysis_read_calls(&r->in, &t, NULL, NULL);

    if (ret) {
        return analysis_failed(&r->in, ret);
    }
    g.sums = call_tree_sums(&t);
    for (n = stacks_roots(t.stacks); n; n = n->next) {
        g.all += g.sums[n->id].records;
        g.ticks += g.sums[n->id].ticks;
    }
    if (r->json) {
        g.rows = json_array_new();
        print_nodes(&g, stacks_roots(t.stacks));
        cli_print_json(btrail_json_new(
            "U:records", t.records,
            "o:stacks", report_stacks_json(stacks_counts(t.stacks)),
            "a:rows", g.rows, NULL));
        fflush(stdout);
    } else {
        print_text(&g, &t);
    }
    r->damage = t.damage;
    ret = analysis_chosen(&r->in, t.chosen, NULL);
    g_free((gpointer)g.sums);
    call_tree_clear(&t);
    return ret;
}
