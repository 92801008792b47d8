/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail report --syscalls: see report.h
 */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/syscall-times.h"
#include "cli/report/report.h"
#include "util/json.h"
#include "util/search.h"

/*
 * @rows:   what vCPUs did in system calls
 * @pauses: of the trace; @pauses_known as of cli_trace_pauses()
 * @times:  how long these took, for @latencies
 */
struct syscall_sums {
    struct call_rows rows;
    struct pauses *pauses;
    bool pauses_known;
    struct syscall_times *times;
    struct latencies *latencies;
};

/* @latency: NULL if none of the calls was from user mode; @value: of the key
 * that rows are in the order of */
struct syscall_row {
    const struct row *row;
    const struct latency *latency;
    uint64_t value;
};

static void on_moved(void *opaque, unsigned vcpu, uint64_t time,
                     const struct stack_node *from,
                     const struct stack_node *to, uint64_t stack)
{
    struct syscall_sums *s = opaque;

    syscall_times_tree_ops.moved(s->times, vcpu, time, from, to, stack);
}

static void on_spent(void *opaque, unsigned vcpu, uint64_t time,
                     const struct stack_node *node, uint64_t stack,
                     uint64_t records)
{
    struct syscall_sums *s = opaque;

    syscall_times_tree_ops.spent(s->times, vcpu, time, node, stack, records);
}

static void on_gap(void *opaque, unsigned vcpu)
{
    struct syscall_sums *s = opaque;

    syscall_times_tree_ops.gap(s->times, vcpu);
}

static void on_spill(void *opaque, const struct call_tree *t)
{
    struct syscall_sums *s = opaque;

    call_rows_add(&s->rows, t);
}

static void on_ended(void *opaque, const struct syscall_time *call)
{
    struct syscall_sums *s = opaque;
    const char *const names[LATENCIES_NAMES] = {
        call->process->comm, call->function->module->name,
        call->function->syscall,
    };

    latencies_add(s->latencies, names, call->end - call->begin - call->paused,
                  !call->late && !call->cut);
}

static int by_value(gconstpointer a, gconstpointer b)
{
    const struct syscall_row *x = a, *y = b;

    return BTRAIL_COMPARE(y->value, x->value) ?:
           BTRAIL_COMPARE(y->row->values[CALL_ROWS_ALL],
                          x->row->values[CALL_ROWS_ALL]) ?:
           strcmp(x->row->names[2], y->row->names[2]) ?:
           strcmp(x->row->names[0], y->row->names[0]) ?:
           strcmp(x->row->names[1], y->row->names[1]);
}

static struct syscall_row *sort_rows(const struct report *r,
                                     struct syscall_sums *s, size_t *n)
{
    struct row **rows = rows_sorted(s->rows.rows, CALL_ROWS_ALL, n);
    struct syscall_row *sorted = g_new(struct syscall_row, *n + 1);

    for (size_t i = 0; i < *n; i++) {
        const struct latency *l = latencies_find(s->latencies,
                                                 rows[i]->names);

        sorted[i] = (struct syscall_row) {
            rows[i], l, l ? latency_value(l, r->latency.key) : 0,
        };
    }
    qsort(sorted, *n, sizeof(*sorted), by_value);
    return sorted;
}

static void print_json(const struct syscall_sums *s,
                       const struct call_tree *t,
                       const struct syscall_row *rows, size_t n)
{
    JsonArray *array = json_array_new();

    for (size_t i = 0; i < n; i++) {
        JsonObject *o = report_call_row_json(rows[i].row);

        if (rows[i].latency) {
            latency_add_json(o, rows[i].latency);
        }
        json_array_add_object_element(array, o);
    }
    cli_print_json(btrail_json_new(
        "U:records", t->records,
        "o:stacks", report_stacks_json(stacks_counts(t->stacks)),
        "b:pauses_known", s->pauses_known,
        "U:pauses_unknown", pauses_unknown(s->pauses),
        "a:rows", array, NULL));
}

static void print_row(const struct report *r, const struct syscall_row *row,
                      double share, int width)
{
    const uint64_t *values = row->row->values;
    char buf[LATENCY_SIZE];

    cli_printf("%7.2f%%%8s%9" PRIu64, 100 * share,
               latency_text(values[CALL_ROWS_TIME], buf),
               values[CALL_ROWS_CALLS]);
    if (row->latency) {
        latency_print(row->latency);
    } else {
        cli_printf("%*s", LATENCY_WIDTH, "-");
    }
    cli_printf("  %-*s  %s\n", width, row->row->names[0], row->row->names[2]);
    if (row->latency && r->latency.bars) {
        latency_print_bars(row->latency->times);
    }
}

/* The width of the names of processes */
static int comm_width(const struct syscall_row *rows, size_t n)
{
    int width = strlen("Command");

    for (size_t i = 0; i < n; i++) {
        width = MAX(width, cli_width(rows[i].row->names[0]));
    }
    return width;
}

static void print_text(const struct report *r, const struct syscall_sums *s,
                       const struct stack_counts *counts,
                       const struct syscall_row *rows, size_t n)
{
    g_autofree char *unknown = cli_unknown_pauses(s->pauses, s->pauses_known);
    int width = comm_width(rows, n);
    size_t shown = 0;

    cli_hold();
    cli_printf("# %" PRIu64 " records; total to max: elapsed time of calls, "
               "without pauses\n", s->rows.all);
    report_print_dropped(counts);
    cli_printf("#\n#  Share  On CPU    Calls");
    latency_print_header();
    cli_printf("  %-*s  System call\n", width, "Command");
    cli_held();
    for (size_t i = 0; i < n; i++) {
        double share = report_share(rows[i].row->values[CALL_ROWS_ALL],
                                    s->rows.all);

        if (report_shows(r, shown, share)) {
            print_row(r, &rows[i], share, width);
            shown++;
        }
    }
    if (!n) {
        cli_drop_held();
        cli_printf("# no system calls\n");
    }
    if (shown < n) {
        cli_printf("# %zu more rows; --min-share=0 --top=0 shows them\n",
                   n - shown);
    }
    if (latencies_others(s->latencies)) {
        cli_printf("# %" PRIu64 " calls have no time: there are too many "
                   "different ones\n", latencies_others(s->latencies));
    }
    latency_print_forgotten(latencies_forgotten(s->latencies));
    if (unknown) {
        cli_printf("# %s\n", unknown);
    }
}

static void print_all(struct report *r, struct syscall_sums *s,
                      const struct call_tree *t)
{
    g_autofree struct syscall_row *rows = NULL;
    size_t n;

    call_rows_add(&s->rows, t);
    syscall_times_end(s->times, r->in.trace.trace, &r->in.window);
    rows = sort_rows(r, s, &n);
    if (r->json) {
        print_json(s, t, rows, n);
        fflush(stdout);
    } else {
        print_text(r, s, stacks_counts(t->stacks), rows, n);
        fflush(stdout);
        analysis_warn(t);
    }
}

int report_syscalls(struct report *r)
{
    static const struct call_tree_ops ops = {
        on_moved, on_spent, on_gap, on_spill,
    };
    struct syscall_sums s = { .latencies = latencies_new(0) };
    struct call_tree t;
    int code;

    s.pauses = cli_trace_pauses(&r->in.trace, &s.pauses_known);
    if (!s.pauses) {
        latencies_free(s.latencies);
        return CLI_FAILED;
    }
    call_rows_init(&s.rows, CALL_ROWS_SYSCALLS, NULL);
    s.times = syscall_times_new(&(struct syscall_times_options) {
        .pauses = s.pauses, .ended = on_ended, .opaque = &s,
    });
    code = analysis_read_calls(&r->in, &t, &ops, &s);
    if (code) {
        code = analysis_failed(&r->in, code);
    } else {
        print_all(r, &s, &t);
        r->damage = t.damage;
        code = analysis_chosen(&r->in, t.chosen, NULL);
        call_tree_clear(&t);
    }
    syscall_times_free(s.times);
    pauses_free(s.pauses);
    latencies_free(s.latencies);
    call_rows_clear(&s.rows);
    return code;
}
