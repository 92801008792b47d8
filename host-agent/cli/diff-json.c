/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail diff --json: see diff-print.h
 */

#include <inttypes.h>

#include "cli/diff-print.h"
#include "util/json.h"

static JsonObject *edge_json(const struct diff_command *c, uint32_t edge)
{
    char from[DIFF_NAME_SIZE], to[DIFF_NAME_SIZE];

    return btrail_json_new("s:from", diff_name_from(c, edge, from),
                           "s:to", diff_name_to(c, edge, to), NULL);
}

static JsonObject *task_json(const struct diff_task *task)
{
    JsonObject *o = btrail_json_new("s:comm", task->comm, NULL);

    if (task->pid >= 0) {
        json_object_set_int_member(o, "pid", task->pid);
    }
    if (task->tid >= 0) {
        json_object_set_int_member(o, "tid", task->tid);
    }
    btrail_json_add(o, "U:records", task->records, NULL);
    return o;
}

static JsonObject *side_json(const struct diff_command *c,
                             const struct diff_pair *pair,
                             const struct diff_group *g, unsigned side)
{
    const struct diff_side *s = &g->side[side];
    JsonArray *then = json_array_new();
    JsonObject *o = json_object_new();
    struct diff_place place;

    diff_place_find(c, pair, g, side, &place);
    if (place.known) {
        char time[CLI_TIME_SIZE];

        btrail_json_add(o, "u:vcpu", s->vcpu, "U:index", s->index, "d:time",
                        g_ascii_strtod(cli_format_time(&c->in[side].trace,
                                                       place.time, time),
                                       NULL),
                        "S:line", place.line, NULL);
    }
    for (unsigned i = 0; i < s->n_then; i++) {
        json_array_add_object_element(then, edge_json(c, s->then[i]));
    }
    btrail_json_add(o, "U:after", s->at, "b:ended",
                    g->edge[side] == DIFF_EDGE_GAP, "U:branches", s->n,
                    "a:then", then, NULL);
    return o;
}

/* @whole: with its stack, its places and what was around it */
static JsonObject *group_json(const struct diff_command *c,
                              const struct diff_pair *pair,
                              const struct diff_group *g, bool whole)
{
    static const char *const ends[] = {
        [DIFF_TOGETHER] = "together", [DIFF_ENDED] = "ended",
        [DIFF_LOST] = "lost",
    };
    JsonArray *stack = json_array_new(), *before = json_array_new();
    char name[DIFF_NAME_SIZE];
    JsonObject *o = btrail_json_new(
        "s:sym", g->function->name, "s:dso", g->function->module,
        "u:new", g->fresh, "u:new_functions", g->called, "U:count", g->count,
        "U:branches_a", g->n[0], "U:branches_b", g->n[1], "s:end", ends[g->end], NULL);

    for (unsigned i = 0; whole && i < g->n_frames; i++) {
        json_array_add_string_element(stack, diff_name_from(c, g->frames[i],
                                                            name));
    }
    for (unsigned i = g->n_before; whole && i-- > 0;) {
        json_array_add_object_element(before, edge_json(c, g->before[i]));
    }
    if (whole) {
        btrail_json_add(o, "a:stack", stack, "a:before", before,
                        "o:a", side_json(c, pair, g, 0),
                        "o:b", side_json(c, pair, g, 1), NULL);
    } else {
        json_array_unref(stack);
        json_array_unref(before);
    }
    return o;
}

static JsonObject *pair_json(const struct diff_command *c,
                             const struct diff_pair *pair)
{
    const struct diff_group *first = diff_first(pair);
    const struct diff_group *fresh = diff_first_new(pair);
    JsonArray *groups = json_array_new();
    JsonObject *o = btrail_json_new(
        "b:differs", diff_pair_differs(pair),
        "o:a", task_json(pair->task[0]), "o:b", task_json(pair->task[1]),
        "U:same", pair->same, "U:branches_a", pair->edges[0],
        "U:branches_b", pair->edges[1], "U:differences", pair->differences,
        "U:gaps", pair->gaps, "b:lost", pair->lost,
        "b:a_ends_earlier", pair->shorter == 0,
        "b:b_ends_earlier", pair->shorter == 1, NULL);

    for (unsigned i = 0; i < pair->groups->len; i++) {
        const struct diff_group *g = pair->groups->pdata[i];

        json_array_add_object_element(groups, group_json(
            c, pair, g, g == first || g == fresh));
    }
    btrail_json_add(o, "a:groups", groups, NULL);
    return o;
}

static JsonObject *function_json(const struct diff_function *f)
{
    return btrail_json_new("s:sym", f->name, "s:dso", f->module, "U:calls_a",
                           f->calls[0], "U:calls_b", f->calls[1], NULL);
}

/* Begins a list, which is a member of the whole. */
static void begin_list(const char *name)
{
    cli_printf(",\n  \"%s\" : [", name);
}

/* Takes @o.  Lists can be too long to be kept whole. */
static void print_element(JsonObject *o, bool first)
{
    cli_printf(first ? "\n    " : "  , ");
    cli_print_json_line(o);
}

static void print_only(const struct diff_command *c, const char *name,
                       unsigned side)
{
    g_autoptr(GPtrArray) only = diff_only(c, side);

    begin_list(name);
    for (unsigned i = 0; i < only->len; i++) {
        print_element(task_json(only->pdata[i]), !i);
    }
    cli_printf(" ]");
}

void diff_print_json(const struct diff_command *c)
{
    const struct diff *r = &c->result;

    cli_printf("{\n  \"differs\" : %s,\n  \"records_a\" : %" PRIu64
               ",\n  \"records_b\" : %" PRIu64,
               r->differs ? "true" : "false", r->tasks[0].records,
               r->tasks[1].records);
    begin_list("tasks");
    for (unsigned i = 0; i < r->pairs->len; i++) {
        print_element(pair_json(c, r->pairs->pdata[i]), !i);
    }
    cli_printf(" ]");
    begin_list("functions");
    for (unsigned i = 0; i < r->functions->len; i++) {
        print_element(function_json(r->functions->pdata[i]), !i);
    }
    cli_printf(" ]");
    print_only(c, "only_a", 0);
    print_only(c, "only_b", 1);
    cli_printf(",\n  \"dropped\" : %" PRIu64 "\n}\n", (uint64_t)r->dropped);
}
