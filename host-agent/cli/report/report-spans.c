/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail report --spans: see report.h
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/report/report.h"
#include "cli/table.h"
#include "util/json.h"
#include "util/search.h"
#include "util/sort.h"

/* A span that was paused for more than this part of its time is said to be. */
#define MUCH        20

/**
 * struct summary - of the spans that have ended
 * @durations: of them, without pauses, in order
 * @paused:    how many were
 * @much:      for more than a MUCH-th
 * @most:      the longest pause
 * @held:      how many may have waited for others, for as much
 */
struct summary {
    GArray *durations;
    uint64_t unended;
    uint64_t paused;
    uint64_t much;
    uint64_t most;
    uint64_t held;
};

static bool is_much(const struct span *span, uint64_t ns)
{
    return ns > span_duration(span) / MUCH;
}

static struct summary summarize(const struct spans *spans)
{
    struct summary s = { g_array_new(FALSE, FALSE, sizeof(uint64_t)) };
    const struct span *span;

    for (size_t i = 0; (span = spans_get(spans, i)); i++) {
        if (span->end) {
            uint64_t ns = span_unpaused(span);

            g_array_append_val(s.durations, ns);
            s.paused += span->paused > 0;
            s.much += is_much(span, span->paused);
            s.most = MAX(s.most, span->paused);
            s.held += is_much(span, span->held);
        } else {
            s.unended++;
        }
    }
    btrail_order_u64(s.durations);
    return s;
}

/* The smallest duration that this many percent of all do not exceed */
static uint64_t percentile(const struct summary *s, unsigned percent)
{
    uint64_t n = s->durations->len;
    uint64_t rank = MAX((n * percent + 99) / 100, 1);

    return g_array_index(s->durations, uint64_t, rank - 1);
}

/* The process of a thread, and what it is called in it */
static void name_thread(const struct report *r, const struct span_point *p,
                        const char **comm, int64_t *pid, int64_t *tid)
{
    const struct symbolizer_where where = {
        .vcpu = p->vcpu, .index = p->index, .cr3 = p->cr3, .time = p->host,
        .kernel = symbolizer_kernel(&p->kernel),
    };
    enum btrail_certainty certainty;
    const struct process *process;

    if (p->task.known) {
        *comm = p->task.name;
        *pid = p->task.pid;
        *tid = p->task.tid;
        return;
    }
    process = symbolizer_process(r->in.names, &where, &certainty);
    *comm = process->comm;
    *pid = process->pid;
    *tid = process->tid;
}

static JsonObject *point_json(const struct report *r,
                              const struct span_point *p)
{
    const struct tally_moment m = { p->time, p->vcpu, p->index };
    JsonObject *o = report_moment_json(r, &m);

    if (p->count != BTRAIL_NO_ICOUNT) {
        json_object_set_int_member(o, "icount", p->count);
    }
    return o;
}

static JsonObject *span_json(const struct report *r, const struct span *span)
{
    const struct span_point *begin = span->begin;
    int64_t pid, tid;
    const char *comm;
    JsonObject *o = btrail_json_new("o:begin", point_json(r, begin), NULL);

    if (span->end) {
        btrail_json_add(o, "o:end", point_json(r, span->end), "U:ns",
                        span_duration(span), "U:on_cpu_ns", span->on_cpu,
                        "U:paused_ns", span->paused, "U:held_ns", span->held,
                        "U:records", span->records, NULL);
    } else {
        json_object_set_null_member(o, "end");
    }
    name_thread(r, begin, &comm, &pid, &tid);
    btrail_json_add(o, "s:comm", comm, NULL);
    if (pid >= 0) {
        json_object_set_int_member(o, "pid", pid);
    }
    if (tid >= 0) {
        json_object_set_int_member(o, "tid", tid);
    }
    if (begin->known) {
        btrail_json_add(o, "X:value", begin->value, NULL);
    }
    return o;
}

static void print_json(const struct report *r, const struct summary *s,
                       const GPtrArray *order)
{
    const struct spans *spans = r->between.spans;
    JsonArray *array = json_array_new();
    JsonObject *root = btrail_json_new("U:ended", (guint64)s->durations->len,
                                       "U:unended", s->unended, "U:unbegun",
                                       spans_unbegun(spans), "U:unvalued",
                                       spans_unvalued(spans), "U:paused",
                                       s->paused, "b:pauses_known",
                                       r->between.pauses_known,
                                       "U:pauses_unknown", pauses_unknown(
                                       r->between.pauses), NULL);

    if (s->durations->len) {
        btrail_json_add(root, "U:min_ns", percentile(s, 0), "U:median_ns",
                        percentile(s, 50), "U:p95_ns", percentile(s, 95),
                        "U:max_ns", percentile(s, 100), NULL);
    }
    for (guint i = 0; i < order->len; i++) {
        json_array_add_object_element(array, span_json(r, order->pdata[i]));
    }
    btrail_json_add(root, "a:spans", array, NULL);
    cli_print_json(root);
}

static char *place_text(const struct span_point *p)
{
    return p ? g_strdup_printf("%u:%" PRIu64, p->vcpu, p->index) :
           g_strdup("-");
}

static char *thread_text(const struct report *r, const struct span_point *p)
{
    int64_t pid, tid;
    const char *comm;

    name_thread(r, p, &comm, &pid, &tid);
    return pid < 0 ? g_strdup(comm) :
           tid < 0 || tid == pid ?
           g_strdup_printf("%s %" PRId64, comm, pid) :
           g_strdup_printf("%s %" PRId64 "/%" PRId64, comm, pid, tid);
}

/* How long it was paused, and of what part of its time, if that is much */
static char *paused_text(const struct span *span)
{
    char buf[CLI_TIME_SIZE];

    if (!span->end || !span->paused) {
        return g_strdup("-");
    }
    return g_strdup_printf(is_much(span, span->paused) ? "%s (%.0f%%)" : "%s",
                           cli_format_ns(span->paused, buf),
                           100.0 * span->paused / span_duration(span));
}

static void add_row(const struct report *r, GPtrArray *table,
                    const struct span *span)
{
    const struct span_point *begin = span->begin, *end = span->end;
    char first[CLI_TIME_SIZE], last[CLI_TIME_SIZE], duration[CLI_TIME_SIZE];
    char on_cpu[CLI_TIME_SIZE];
    g_autofree char *paused = paused_text(span);
    g_autofree char *records = end ?
        g_strdup_printf("%" PRIu64, span->records) : g_strdup("-");
    g_autofree char *value = begin->known ?
        g_strdup_printf("%" PRIu64, begin->value) : g_strdup("-");
    g_autofree char *from = place_text(begin), *to = place_text(end);
    g_autofree char *thread = thread_text(r, begin);

    cli_table_add(table, cli_format_time(&r->in.trace, begin->time, first),
                  end ? cli_format_time(&r->in.trace, end->time, last) : "-",
                  end ? cli_format_ns(span_duration(span), duration) : "-",
                  end ? cli_format_ns(span->on_cpu, on_cpu) : "-",
                  paused, records, value, from, to, thread, NULL);
}

/* What is not known of pauses */
static void print_unknown(const struct report *r)
{
    uint64_t unknown = pauses_unknown(r->between.pauses);

    if (!r->between.pauses_known) {
        cli_printf("# whether they were paused is not known: the trace does "
                   "not say what its producer does\n");
    } else if (unknown) {
        cli_printf("# pauses are not known at %" PRIu64 " places where records "
                   "are missing, or the trace ends\n", unknown);
    }
}

static void print_summary(const struct report *r, const struct summary *s)
{
    const struct spans *spans = r->between.spans;
    char *const *texts = r->between.texts;

    cli_printf("# %u span%s", s->durations->len,
               s->durations->len == 1 ? "" : "s");
    if (s->durations->len) {
        char buf[4][CLI_TIME_SIZE];

        cli_printf(", %s: %s min, %s median, %s p95, %s max",
                   s->paused ? "seconds without pauses" : "seconds",
                   cli_format_ns(percentile(s, 0), buf[0]),
                   cli_format_ns(percentile(s, 50), buf[1]),
                   cli_format_ns(percentile(s, 95), buf[2]),
                   cli_format_ns(percentile(s, 100), buf[3]));
    }
    cli_printf("\n");
    if (s->paused) {
        char buf[CLI_TIME_SIZE];

        cli_printf("# %" PRIu64 " were paused, for up to %s seconds; %" PRIu64
                   " of them for more than %d%% of their time\n", s->paused,
                   cli_format_ns(s->most, buf), s->much, 100 / MUCH);
    }
    if (s->held) {
        cli_printf("# during more than %d%% of %" PRIu64 ", other vCPUs were "
                   "paused; whether they waited for these is not known\n",
                   100 / MUCH, s->held);
    }
    if (s->durations->len) {
        print_unknown(r);
    }
    if (s->unended) {
        cli_printf("# %" PRIu64 " more do not end\n", s->unended);
    }
    if (spans_unbegun(spans)) {
        cli_printf("# %" PRIu64 " times, '%s' ends no span\n",
                   spans_unbegun(spans), texts[1]);
    }
    if (spans_unvalued(spans)) {
        cli_printf("# %" PRIu64 " times, '%s' or '%s' has no value that is "
                   "known\n", spans_unvalued(spans), texts[0], texts[1]);
    }
}

static void print_text(const struct report *r, const struct summary *s,
                       const GPtrArray *order)
{
    GPtrArray *table = cli_table_new("# begin (s)", "end (s)", "elapsed (s)",
                                     "on CPU (s)", "paused (s)", "records",
                                     "value", "from", "to", "thread", NULL);

    for (guint i = 0; i < order->len; i++) {
        add_row(r, table, order->pdata[i]);
    }
    cli_table_print(table);
    print_summary(r, s);
}

/* Those that have not ended are last. */
static gint by_duration(gconstpointer a, gconstpointer b)
{
    const struct span *x = *(const struct span *const *)a;
    const struct span *y = *(const struct span *const *)b;

    if (!x->end || !y->end) {
        return BTRAIL_COMPARE(!x->end, !y->end) ?: BTRAIL_COMPARE(x, y);
    }
    return BTRAIL_COMPARE(span_unpaused(y), span_unpaused(x)) ?:
           BTRAIL_COMPARE(x, y);
}

/* In the order in which they began, or with --top the longest ones first */
static GPtrArray *sort_spans(const struct report *r)
{
    GPtrArray *order = g_ptr_array_new();
    const struct span *span;

    for (size_t i = 0; (span = spans_get(r->between.spans, i)); i++) {
        g_ptr_array_add(order, (gpointer)span);
    }
    if (r->top) {
        g_ptr_array_sort(order, by_duration);
        g_ptr_array_set_size(order, MIN(order->len, r->top));
    }
    return order;
}

int report_spans(struct report *r)
{
    g_autoptr(GPtrArray) order = NULL;
    struct summary s;
    int code = CLI_OK;

    if (!between_read(&r->between, &r->in, true, true)) {
        return CLI_FAILED;
    }
    s = summarize(r->between.spans);
    order = sort_spans(r);
    (r->json ? print_json : print_text)(r, &s, order);
    if (!s.durations->len && !s.unended) {
        cli_error("%s: there is no span from '%s' to '%s'", r->in.trace.path,
                  r->between.texts[0], r->between.texts[1]);
        code = CLI_FAILED;
    }
    g_array_unref(s.durations);
    return code;
}
