/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail report --interrupts: see report.h
 */

#include <inttypes.h>
#include <string.h>

#include "analyze/interrupt-times.h"
#include "cli/report/report.h"
#include "symbolize/vectors.h"
#include "util/json.h"

/* The names of a row */
enum {
    NAME_KIND,
    NAME_VECTOR,
    NAME_FUNCTION,
};

static const char *const kinds[] = {
    [INTERRUPT] = "interrupt", [INTERRUPT_HANDLER] = "handler",
    [INTERRUPT_SOFTIRQ] = "softirq",
};

static void on_ended(void *opaque, const struct interrupt_time *t)
{
    const char *const names[LATENCIES_NAMES] = {
        [NAME_KIND] = kinds[t->kind], [NAME_VECTOR] = t->vector,
        [NAME_FUNCTION] = t->name,
    };

    latencies_add(opaque, names, t->ns, t->whole);
}

/* Can there be more interrupts than the trace has records of? */
static bool lacks_injected(const struct report *r)
{
    return !g_strcmp0(btrail_json_string(r->in.trace.meta, "producer"), "kvm");
}

static int vector_width(const GPtrArray *rows)
{
    int width = strlen("Vector");

    for (guint i = 0; i < rows->len; i++) {
        const struct latency *row = rows->pdata[i];

        width = MAX(width, cli_width(row->names[NAME_VECTOR]));
    }
    return width;
}

static void print_text(const struct report *r, struct latencies *l)
{
    const GPtrArray *rows = latencies_sorted(l, r->latency.key);
    guint n = r->top ? MIN(rows->len, r->top) : rows->len;
    int width = vector_width(rows);

    cli_printf("# Elapsed time without pauses: of interrupts and softirqs, "
               "without others in between\n"
               "#%9s%9s", "Calls", "Partial");
    latency_print_header();
    cli_printf("  %-9s  %-*s  Function\n", "Kind", width, "Vector");
    for (guint i = 0; i < n; i++) {
        const struct latency *row = rows->pdata[i];
        const char *vector = row->names[NAME_VECTOR];

        cli_printf(" %9" PRIu64 "%9" PRIu64,
                   latency_value(row, LATENCY_COUNT), row->partial);
        latency_print(row);
        cli_printf("  %-9s  %-*s  %s\n", row->names[NAME_KIND], width,
                   *vector ? vector : "-", row->names[NAME_FUNCTION]);
        if (r->latency.bars) {
            latency_print_bars(row->times);
        }
    }
    if (n < rows->len) {
        cli_printf("# %u more rows; --top=0 shows them\n", rows->len - n);
    }
    if (latencies_others(l)) {
        cli_printf("# %" PRIu64 " calls of more functions than can be "
                   "counted\n", latencies_others(l));
    }
    latency_print_forgotten(latencies_forgotten(l));
    if (lacks_injected(r)) {
        cli_printf("# There can have been more: some CPUs make no record of "
                   "interrupts that KVM injects\n");
    }
}

static void print_json(const struct report *r, struct latencies *l,
                       const struct call_tree *t, const struct pauses *pauses,
                       bool pauses_known)
{
    const GPtrArray *rows = latencies_sorted(l, r->latency.key);
    guint n = r->top ? MIN(rows->len, r->top) : rows->len;
    JsonArray *array = json_array_new();

    for (guint i = 0; i < n; i++) {
        const struct latency *row = rows->pdata[i];
        const char *vector = row->names[NAME_VECTOR];
        JsonObject *o = btrail_json_new(
            "s:kind", row->names[NAME_KIND],
            "S:vector", *vector ? vector : NULL,
            "s:function", row->names[NAME_FUNCTION], NULL);

        latency_add_json(o, row);
        json_array_add_object_element(array, o);
    }
    cli_print_json(btrail_json_new(
        "U:records", t->records,
        "o:stacks", report_stacks_json(stacks_counts(t->stacks)),
        "U:other_calls", latencies_others(l),
        "b:pauses_known", pauses_known,
        "U:pauses_unknown", pauses_unknown(pauses),
        "b:injected_known", !lacks_injected(r),
        "a:rows", array, NULL));
}

static int print(struct report *r, struct latencies *l,
                 const struct call_tree *t, const struct pauses *pauses,
                 bool pauses_known)
{
    g_autofree char *unknown = cli_unknown_pauses(pauses, pauses_known);
    int code = analysis_chosen(&r->in, t->chosen, NULL);

    if (r->json) {
        print_json(r, l, t, pauses, pauses_known);
    } else if (latencies_sorted(l, r->latency.key)->len) {
        print_text(r, l);
        report_print_dropped(stacks_counts(t->stacks));
        if (unknown) {
            cli_printf("# %s\n", unknown);
        }
    } else if (!code) {
        cli_error("%s: there are no interrupts, or %sthe kernel's names are "
                  "not known, or it was not recorded; see backtrail info",
                  r->in.trace.path, lacks_injected(r) ? "the CPU has made no "
                  "record of those that KVM injects, or " : "");
        code = CLI_FAILED;
    }
    fflush(stdout);
    if (!r->json) {
        analysis_warn(t);
    }
    return code;
}

static int read_all(struct report *r, struct latencies *l, GHashTable *entries)
{
    bool known;
    struct pauses *pauses = cli_trace_pauses(&r->in.trace, &known);
    struct interrupt_times *times;
    struct call_tree t;
    int code;

    if (!pauses) {
        return CLI_FAILED;
    }
    times = interrupt_times_new(&(struct interrupt_times_options) {
        .entries = entries, .pauses = pauses, .ended = on_ended, .opaque = l,
    });
    code = analysis_read_calls(&r->in, &t, &interrupt_times_tree_ops, times);
    if (code) {
        code = analysis_failed(&r->in, code);
    } else {
        interrupt_times_end(times);
        code = print(r, l, &t, pauses, known);
        r->damage = t.damage;
        call_tree_clear(&t);
    }
    interrupt_times_free(times);
    pauses_free(pauses);
    return code;
}

int report_interrupts(struct report *r)
{
    g_autoptr(GHashTable) entries = NULL;
    struct btrail_names *names;
    struct latencies *l;
    int code = btrail_names_open(&names, r->in.trace.trace);

    if (code) {
        return analysis_failed(&r->in, code);
    }
    entries = vectors_entries(names);
    btrail_names_close(names);
    l = latencies_new(0);
    code = read_all(r, l, entries);
    latencies_free(l);
    return code;
}
