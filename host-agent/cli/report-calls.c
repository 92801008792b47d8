/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail report of call stacks: see report-calls.h
 */

#include <inttypes.h>
#include <stdio.h>

#include "cli/call-warnings.h"
#include "cli/report-calls.h"

static void set_counts(JsonObject *root, const struct stack_counts *s)
{
    JsonObject *o = json_object_new();

    json_object_set_int_member(o, "calls", s->calls);
    json_object_set_int_member(o, "returns", s->returns);
    json_object_set_int_member(o, "interrupts", s->interrupts);
    json_object_set_int_member(o, "entries", s->entries);
    json_object_set_int_member(o, "wrongly_nested", s->nested);
    json_object_set_int_member(o, "jumps_out", s->jumps_out);
    json_object_set_int_member(o, "signals", s->signals);
    json_object_set_int_member(o, "switches", s->switches);
    json_object_set_int_member(o, "resumed", s->resumed);
    json_object_set_int_member(o, "unknown_returns", s->unknown);
    json_object_set_int_member(o, "astray", s->astray);
    json_object_set_int_member(o, "gaps", s->gaps);
    json_object_set_int_member(o, "dropped", s->dropped);
    json_object_set_int_member(o, "no_code", s->no_code);
    json_object_set_int_member(o, "likely", s->likely);
    json_object_set_object_member(root, "stacks", o);
}

static void print_json(const struct call_tree *t, struct row **rows, size_t n)
{
    JsonObject *root = json_object_new();
    JsonArray *array = json_array_new();
    size_t i;

    json_object_set_int_member(root, "records", t->records);
    set_counts(root, stacks_counts(t->stacks));
    for (i = 0; i < n; i++) {
        const uint64_t *values = rows[i]->values;
        JsonObject *o = json_object_new();

        json_object_set_int_member(o, "records", values[CALL_ROWS_ALL]);
        json_object_set_int_member(o, "self", values[CALL_ROWS_SELF]);
        json_object_set_int_member(o, "ns", values[CALL_ROWS_TIME]);
        json_object_set_int_member(o, "calls", values[CALL_ROWS_CALLS]);
        json_object_set_string_member(o, "comm", rows[i]->names[0]);
        json_object_set_string_member(o, "dso", rows[i]->names[1]);
        json_object_set_string_member(o, "sym", rows[i]->names[2]);
        json_array_add_object_element(array, o);
    }
    json_object_set_array_member(root, "rows", array);
    cli_print_json(root);
}

static void print_text(const struct report *r, enum call_rows_kind kind,
                       uint64_t all, struct row **rows, size_t n)
{
    size_t i;

    printf("# %" PRIu64 " records\n#\n", all);
    printf("# Children     Self       Time (s)          Calls  %-16s  %-20s  "
           "%s\n", "Command", "Shared Object",
           kind == CALL_ROWS_SYSCALLS ? "System call" : "Symbol");
    for (i = 0; i < n; i++) {
        const uint64_t *values = rows[i]->values;
        double share = 100 * report_share(values[CALL_ROWS_ALL], all);

        if (share < r->min_share || (r->top && i == r->top)) {
            break;
        }
        printf("  %7.2f%% %7.2f%% %14.6f %14" PRIu64 "  %-16s  %-20s  %s\n",
               share, 100 * report_share(values[CALL_ROWS_SELF], all),
               values[CALL_ROWS_TIME] / 1e9, values[CALL_ROWS_CALLS],
               rows[i]->names[0], rows[i]->names[1], rows[i]->names[2]);
    }
    if (i < n) {
        printf("# %zu more rows; --min-share=0 --top=0 shows them\n", n - i);
    }
}

int report_call_stacks(struct report *r, enum call_rows_kind kind,
                       const char *function)
{
    const struct call_tree_options options = {
        .names = r->names, .filter = r->filter,
        .window = WINDOW_ALL(r->trace.start), .tick = r->trace.tick,
    };
    struct call_tree t;
    struct rows *sums;
    struct row **rows;
    uint64_t all;
    size_t n;
    int ret = call_tree_read(&t, r->trace.trace, &options);

    if (ret) {
        return report_failed(r, ret);
    }
    sums = call_rows_new(&t, kind, function, &all);
    rows = rows_sorted(sums, CALL_ROWS_ALL, &n);
    if (r->json) {
        print_json(&t, rows, n);
    } else {
        print_text(r, kind, all, rows, n);
        fflush(stdout);
        call_warnings_print(&t);
    }
    r->damage = t.damage;
    rows_free(sums);
    call_tree_clear(&t);
    return CLI_OK;
}
