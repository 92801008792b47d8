/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail report of call stacks: see report.h
 */

#include <inttypes.h>
#include <stdio.h>

#include "cli/report/report.h"
#include "util/json.h"

JsonObject *report_stacks_json(const struct stack_counts *s)
{
    return btrail_json_new(
        "U:calls", s->calls, "U:returns", s->returns,
        "U:interrupts", s->interrupts, "U:entries", s->entries,
        "U:wrongly_nested", s->nested,
        "U:mistaken_switches", s->mistaken, "U:jumps_out", s->jumps_out,
        "U:signals", s->signals, "U:switches", s->switches,
        "U:resumed", s->resumed, "U:unknown_returns", s->unknown,
        "U:astray", s->astray, "U:gaps", s->gaps, "U:dropped", s->dropped,
        "U:deep", s->deep, "U:no_code", s->no_code, "U:likely", s->likely,
        NULL);
}

JsonObject *report_call_row_json(const struct row *row)
{
    const uint64_t *values = row->values;

    return btrail_json_new(
        "U:records", values[CALL_ROWS_ALL], "U:self", values[CALL_ROWS_SELF],
        "U:ns", values[CALL_ROWS_TIME], "U:calls", values[CALL_ROWS_CALLS],
        "s:comm", row->names[0], "s:dso", row->names[1],
        "s:sym", row->names[2], NULL);
}

static void print_json(const struct call_tree *t, struct row **rows, size_t n)
{
    JsonArray *array = json_array_new();

    for (size_t i = 0; i < n; i++) {
        json_array_add_object_element(array, report_call_row_json(rows[i]));
    }
    cli_print_json(btrail_json_new(
        "U:records", t->records,
        "o:stacks", report_stacks_json(stacks_counts(t->stacks)),
        "a:rows", array, NULL));
}

void report_print_dropped(const struct stack_counts *counts)
{
    if (counts->dropped) {
        cli_printf("# %" PRIu64 " calls are missing: there were too many "
                   "different stacks at a time\n", counts->dropped);
    }
}

static void print_text(const struct report *r, const struct call_rows *sums,
                       const struct stack_counts *counts, struct row **rows,
                       size_t n)
{
    uint64_t all = sums->all;
    size_t shown = 0;

    cli_hold();
    cli_printf("# %" PRIu64 " records\n", all);
    report_print_dropped(counts);
    cli_printf("#\n");
    cli_printf("# Children     Self     On CPU (s)          Calls  %-16s  "
               "%-20s  Symbol\n", "Command", "Shared Object");
    cli_held();
    for (size_t i = 0; i < n; i++) {
        const uint64_t *values = rows[i]->values;
        double share = report_share(values[CALL_ROWS_ALL], all);
        double of_time = report_share(values[CALL_ROWS_TIME], sums->all_ns);

        if (!report_shows(r, shown, MAX(share, of_time))) {
            continue;
        }
        shown++;
        cli_printf("  %7.2f%% %7.2f%% %14.6f %14" PRIu64 "  %-16s  %-20s  %s\n",
                   100 * share, 100 * report_share(values[CALL_ROWS_SELF], all),
                   values[CALL_ROWS_TIME] / 1e9, values[CALL_ROWS_CALLS],
                   rows[i]->names[0], rows[i]->names[1], rows[i]->names[2]);
    }
    if (shown < n) {
        cli_printf("# %zu more rows; --min-share=0 --top=0 shows them\n",
                   n - shown);
    }
}

/* Was the function of --callers or --callees called?  An exit code */
static int check_function(const struct report *r, const struct call_rows *sums)
{
    const struct closest *closest = &sums->closest;
    g_autofree char *hint = NULL;

    if (!sums->function || (closest->found && !closest->distance)) {
        return CLI_OK;
    }
    hint = closest_hint(closest);
    cli_error("%s: no function '%s' was called%s", r->in.trace.path,
              sums->function, hint);
    return CLI_FAILED;
}

static void add_rows(void *opaque, const struct call_tree *t)
{
    call_rows_add(opaque, t);
}

int report_call_stacks(struct report *r, enum call_rows_kind kind,
                       const char *function)
{
    static const struct call_tree_ops ops = { .spill = add_rows };
    struct call_rows sums;
    struct call_tree t;
    struct row **rows;
    size_t n;
    int ret, code;

    call_rows_init(&sums, kind, function);
    ret = analysis_read_calls(&r->in, &t, &ops, &sums);
    if (ret) {
        call_rows_clear(&sums);
        return analysis_failed(&r->in, ret);
    }
    call_rows_add(&sums, &t);
    rows = rows_sorted(sums.rows, CALL_ROWS_ALL, &n);
    if (r->json) {
        print_json(&t, rows, n);
    } else {
        print_text(r, &sums, stacks_counts(t.stacks), rows, n);
        fflush(stdout);
        analysis_warn(&t);
    }
    r->damage = t.damage;
    fflush(stdout);
    code = analysis_chosen(&r->in, t.chosen, NULL);
    if (!code) {
        code = check_function(r, &sums);
    }
    call_rows_clear(&sums);
    call_tree_clear(&t);
    return code;
}
