/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail diff, for people: see diff-print.h
 */

#include <inttypes.h>
#include <string.h>

#include "cli/diff-print.h"
#include "cli/table.h"

/* Frames and edges that are printed of a difference */
#define FRAMES  12
#define BEFORE  6
#define THEN    6

static const char letters[DIFF_SIDES] = { 'A', 'B' };

static unsigned rows_of(const struct diff_command *c, unsigned n)
{
    return c->top ? MIN((unsigned)c->top, n) : n;
}

static void print_more(const struct diff_command *c, unsigned n)
{
    if (rows_of(c, n) < n) {
        cli_printf("# %u more; --top=0 shows them\n", n - rows_of(c, n));
    }
}

static void print_edge(const struct diff_command *c, uint32_t edge)
{
    char from[DIFF_NAME_SIZE], to[DIFF_NAME_SIZE];

    cli_printf("    %s -> %s\n", diff_name_from(c, edge, from),
               diff_name_to(c, edge, to));
}

static void print_where(const struct diff_command *c,
                        const struct diff_pair *pair,
                        const struct diff_group *g, unsigned side)
{
    const struct diff_side *s = &g->side[side];
    char time[CLI_TIME_SIZE];
    struct diff_place place;

    diff_place_find(c, pair, g, side, &place);
    cli_printf("  %c:", letters[side]);
    if (place.known) {
        cli_printf(" at %u:%" PRIu64 ", %s s,", s->vcpu, s->index,
                   cli_format_time(&c->in[side].trace, place.time, time));
    }
    cli_printf(" after %" PRIu64 " branches of the task", s->at);
    if (place.line) {
        cli_printf(", in %s", place.line);
    }
    if (g->edge[side] == DIFF_EDGE_GAP) {
        cli_printf("; it has no more");
    }
    cli_printf("\n");
    for (unsigned i = 0; i < MIN(s->n_then, THEN); i++) {
        if (i == s->n) {
            cli_printf("    together again:\n");
        }
        print_edge(c, s->then[i]);
    }
}

static void print_stack(const struct diff_command *c,
                        const struct diff_group *g)
{
    char name[DIFF_NAME_SIZE];

    cli_printf("  in %s", g->function->known ? g->function->name :
               g->function->module);
    for (unsigned i = 0; i < MIN(g->n_frames, FRAMES); i++) {
        cli_printf(", called from\n    %s", diff_name_from(c, g->frames[i],
                                                           name));
    }
    cli_printf(g->n_frames > FRAMES ? ", ...\n" : "\n");
}

static void print_group(const struct diff_command *c,
                        const struct diff_pair *pair,
                        const struct diff_group *g)
{
    print_stack(c, g);
    if (g->n_before) {
        cli_printf("  before it, both:\n");
    }
    for (unsigned i = MIN(g->n_before, BEFORE); i-- > 0;) {
        print_edge(c, g->before[i]);
    }
    print_where(c, pair, g, 0);
    print_where(c, pair, g, 1);
    if (g->end == DIFF_TOGETHER) {
        cli_printf("  together again after %" PRIu64 " branches of A and %"
                   PRIu64 " of B%s\n", g->side[0].n, g->side[1].n,
                   g->levels ? ", in a caller" : "");
    } else if (g->end == DIFF_LOST) {
        cli_printf("  not together again\n");
    }
    if (g->count > 1) {
        cli_printf("  like this %" PRIu64 " times\n", g->count);
    }
}

static void print_pair(const struct diff_command *c,
                       const struct diff_pair *pair)
{
    const struct diff_group *first = diff_first(pair);
    const struct diff_group *fresh = diff_first_new(pair);
    char name[DIFF_NAME_SIZE];

    cli_printf("\n%s: ", diff_task_name(pair->task[0], name));
    if (pair->task[0]->pid != pair->task[1]->pid ||
        pair->task[0]->tid != pair->task[1]->tid) {
        cli_printf("in B, %s: ", diff_task_name(pair->task[1], name));
    }
    cli_printf("%" PRIu64 " differences; %" PRIu64 " branches are the same, "
               "of %" PRIu64 " and %" PRIu64 "\n", pair->differences,
               pair->same, pair->edges[0], pair->edges[1]);
    if (first) {
        cli_printf("The first difference%s:\n",
                   first == fresh ? ", which is new" : "");
        print_group(c, pair, first);
    }
    if (fresh && fresh != first) {
        cli_printf("The first new difference:\n");
        print_group(c, pair, fresh);
    }
    if (pair->lost) {
        cli_printf("The rest was not compared: no place was found from which "
                   "on both do the same.\n");
    }
}

/* The number of a pair's groups that are new */
static unsigned count_new(const struct diff_pair *pair)
{
    unsigned n = 0;

    for (unsigned i = 0; i < pair->groups->len; i++) {
        n += !!((const struct diff_group *)pair->groups->pdata[i])->fresh;
    }
    return n;
}

static void add_task_row(GPtrArray *table, const struct diff_pair *pair)
{
    g_autofree char *same = g_strdup_printf("%" PRIu64, pair->same);
    g_autofree char *n = g_strdup_printf("%" PRIu64, pair->differences);
    g_autofree char *fresh = g_strdup_printf("%u", count_new(pair));
    const struct diff_group *g = diff_first_new(pair);
    char name[DIFF_NAME_SIZE];

    g = g ? g : diff_first(pair);
    cli_table_add(table, diff_task_name(pair->task[0], name), same, n, fresh,
                  g ? g->function->name : pair->lost ? "lost" : "-", NULL);
}

/* Prints one line for each task.  Returns those that differ. */
static GPtrArray *print_tasks(const struct diff_command *c)
{
    GPtrArray *table = cli_table_new("TASK", "SAME", "DIFFERENCES", "NEW",
                                     "FIRST IN", NULL);
    GPtrArray *differ = g_ptr_array_new();
    uint64_t branches = 0;
    unsigned same = 0;

    for (unsigned i = 0; i < c->result.pairs->len; i++) {
        struct diff_pair *pair = c->result.pairs->pdata[i];

        if (diff_pair_differs(pair)) {
            g_ptr_array_add(differ, pair);
            add_task_row(table, pair);
        } else {
            branches += pair->same;
            same++;
        }
    }
    cli_printf("%u tasks are the same, with %" PRIu64 " branches; %u differ\n",
               same, branches, differ->len);
    if (differ->len) {
        cli_printf("\n");
        cli_table_print(table);
    } else {
        g_ptr_array_unref(table);
    }
    return differ;
}

/* Of how many missing records, and ends, the result does not speak */
static void print_limits(const struct diff_command *c)
{
    uint64_t gaps = 0;
    unsigned cut = 0;

    for (unsigned i = 0; i < c->result.pairs->len; i++) {
        const struct diff_pair *pair = c->result.pairs->pdata[i];

        gaps += pair->gaps;
        cut += pair->shorter >= 0;
    }
    if (gaps) {
        cli_printf("# at %" PRIu64 " places records are missing; what was "
                   "there was not compared\n", gaps);
    }
    if (cut) {
        cli_printf("# of %u tasks one trace has more: the other one ends "
                   "earlier\n", cut);
    }
    if (c->result.dropped) {
        cli_printf("# %" PRIu64 " differences are only counted: there are too "
                   "many\n", c->result.dropped);
    }
}

static void print_functions(const struct diff_command *c, unsigned side)
{
    g_autoptr(GPtrArray) only = g_ptr_array_new();
    const GPtrArray *all = c->result.functions;

    for (unsigned i = 0; i < all->len; i++) {
        const struct diff_function *f = all->pdata[i];

        if (!f->calls[!side]) {
            g_ptr_array_add(only, (gpointer)f);
        }
    }
    if (!only->len) {
        return;
    }
    cli_printf("\nFunctions that only %c has called:\n", letters[side]);
    for (unsigned i = 0; i < rows_of(c, only->len); i++) {
        const struct diff_function *f = only->pdata[i];

        cli_printf("  %10" PRIu64 "  %s (%s)\n", f->calls[side], f->name,
                   f->module);
    }
    print_more(c, only->len);
}

static void print_counts(const struct diff_command *c)
{
    const GPtrArray *all = c->result.functions;
    unsigned n = 0;

    for (unsigned i = 0; i < all->len; i++) {
        const struct diff_function *f = all->pdata[i];

        if (!f->calls[0] || !f->calls[1]) {
            continue;
        }
        if (!n++) {
            cli_printf("\nFunctions whose numbers of calls differ most:\n"
                       "  %10s  %10s\n", "A", "B");
        }
        if (n <= rows_of(c, n)) {
            cli_printf("  %10" PRIu64 "  %10" PRIu64 "  %s (%s)\n",
                       f->calls[0], f->calls[1], f->name, f->module);
        }
    }
    print_more(c, n);
}

static void print_only(const struct diff_command *c, unsigned side)
{
    g_autoptr(GPtrArray) only = diff_only(c, side);
    char name[DIFF_NAME_SIZE];

    if (!only->len) {
        return;
    }
    cli_printf("\nTasks that only %c has:\n", letters[side]);
    for (unsigned i = 0; i < rows_of(c, only->len); i++) {
        const struct diff_task *task = only->pdata[i];

        cli_printf("  %10" PRIu64 "  %s\n", task->records,
                   diff_task_name(task, name));
    }
    print_more(c, only->len);
}

static void print_new(const struct diff_command *c)
{
    const GArray *all = c->result.fresh;
    char name[DIFF_NAME_SIZE], task[DIFF_NAME_SIZE];

    if (all->len) {
        cli_printf("\nNew differences: one side did what the other one never "
                   "has.\n  %10s  %10s  %10s\n", "FUNCTIONS", "NEW",
                   "TIMES");
    }
    for (unsigned i = 0; i < rows_of(c, all->len); i++) {
        const struct diff_new *d = &g_array_index(all, struct diff_new, i);
        const struct diff_group *g = d->group;

        cli_printf("  %10u  %10u  %10" PRIu64 "  %s, in %s\n", g->called,
                   g->fresh, g->count,
                   diff_name_from(c, g->edge[0] != DIFF_EDGE_GAP ?
                                  g->edge[0] : g->edge[1], name),
                   diff_task_name(d->pair->task[0], task));
    }
    print_more(c, all->len);
}

void diff_print(const struct diff_command *c)
{
    g_autoptr(GPtrArray) differ = NULL;

    cli_printf("A: %s, %" PRIu64 " records\nB: %s, %" PRIu64 " records\n",
               c->in[0].trace.path, c->result.tasks[0].records,
               c->in[1].trace.path, c->result.tasks[1].records);
    differ = print_tasks(c);
    print_limits(c);
    for (unsigned i = 0; i < rows_of(c, differ->len); i++) {
        print_pair(c, differ->pdata[i]);
    }
    print_new(c);
    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        print_functions(c, side);
    }
    print_counts(c);
    print_only(c, 0);
    print_only(c, 1);
}
