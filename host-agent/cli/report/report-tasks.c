/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail report --tasks: see report.h
 */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/thread-times.h"
#include "cli/report/report.h"
#include "util/json.h"
#include "util/search.h"

enum task_order {
    TASK_RAN, TASK_OFF, TASK_WAITED, TASK_SWITCHES, TASK_MEAN, TASK_P50, TASK_P95, TASK_P99,
    TASK_MAX, TASK_KEYS,
};

static const char *const key_names[TASK_KEYS] = {
    "ran", "off", "waited", "switches", "mean", "p50", "p95", "p99", "max",
};

/* A thread, and what rows are in the order of */
struct task_row {
    const struct thread_time *thread;
    uint64_t value;
};

static enum task_order find_key(const char *name)
{
    unsigned i = 0;

    while (name && i < TASK_KEYS && strcmp(name, key_names[i])) {
        i++;
    }
    return i;
}

bool report_check_task_key(const char *key)
{
    if (find_key(key) == TASK_KEYS) {
        cli_error("--sort: '%s' is not ran, off, waited, switches, mean, p50, "
                  "p95, p99 or max", key);
        return false;
    }
    return true;
}

static uint64_t value_of(const struct thread_time *t, enum task_order key)
{
    switch (key) {
    case TASK_OFF:
        return t->off_sum;
    case TASK_WAITED:
        return t->waited;
    case TASK_SWITCHES:
        return t->switches;
    case TASK_MEAN:
        return histogram_mean(t->off);
    case TASK_P50:
        return histogram_percentile(t->off, 50);
    case TASK_P95:
        return histogram_percentile(t->off, 95);
    case TASK_P99:
        return histogram_percentile(t->off, 99);
    case TASK_MAX:
        return histogram_max(t->off);
    default:
        return t->ran;
    }
}

static int by_value(gconstpointer a, gconstpointer b)
{
    const struct task_row *x = a, *y = b;

    return BTRAIL_COMPARE(y->value, x->value) ?:
           BTRAIL_COMPARE(y->thread->ran, x->thread->ran) ?:
           BTRAIL_COMPARE(x->thread->task.tid, y->thread->task.tid) ?:
           BTRAIL_COMPARE(x->thread->kernel, y->thread->kernel);
}

/* Threads without any time that counts are no rows. */
static struct task_row *sort_rows(const struct report *r,
                                  const struct thread_times *t, size_t *n)
{
    struct task_row *rows = g_new(struct task_row, t->threads->len + 1);

    *n = 0;
    for (guint i = 0; i < t->threads->len; i++) {
        const struct thread_time *thread = t->threads->pdata[i];

        if (thread->ran || thread->switches || thread->off_sum ||
            thread->away_ns) {
            rows[*n].thread = thread;
            rows[*n].value = value_of(thread, find_key(r->task_key ?: "ran"));
            ++*n;
        }
    }
    qsort(rows, *n, sizeof(*rows), by_value);
    return rows;
}

static JsonObject *row_json(const struct thread_time *t)
{
    JsonObject *o = btrail_json_new("U:ran_ns", t->ran, NULL);

    if (t->followed) {
        btrail_json_add(o, "U:switches", t->switches,
                        "U:off_count", histogram_count(t->off),
                        "U:off_ns", t->off_sum, "U:off_unknown", t->unknown,
                        "U:waited_ns", t->waited, "U:waited_max_ns",
                        t->waited_max, "U:waited_unknown", t->waits_unknown,
                        NULL);
        for (enum task_order key = TASK_MEAN; key < TASK_KEYS; key++) {
            g_autofree char *name = g_strdup_printf("off_%s_ns",
                                                    key_names[key]);

            if (histogram_count(t->off) &&
                (histogram_known(t->off) || key == TASK_MEAN ||
                 key == TASK_MAX)) {
                json_object_set_int_member(o, name, value_of(t, key));
            } else {
                json_object_set_null_member(o, name);
            }
        }
        btrail_json_add(o, "b:exact", histogram_exact(t->off),
                        "a:histogram", latency_bars_json(t->off), NULL);
    }
    return o;
}

static const char *name_of(const struct thread_time *t)
{
    return !t->task.known ? "[unknown]" : !t->task.tid ? "[idle]" :
           t->task.name;
}

static JsonArray *rows_json(const struct task_row *rows, size_t n)
{
    JsonArray *array = json_array_new();

    for (size_t i = 0; i < n; i++) {
        const struct thread_time *t = rows[i].thread;
        JsonObject *o = row_json(t);

        btrail_json_add(o, "s:comm", name_of(t), NULL);
        if (t->task.known) {
            btrail_json_add(o, "u:pid", t->task.pid, "u:tid", t->task.tid,
                            NULL);
        }
        if (t->kernel) {
            btrail_json_add(o, "u:kernel", t->kernel, NULL);
        }
        if (t->away) {
            btrail_json_add(o, "U:away_ns", t->away_ns, NULL);
        }
        json_array_add_object_element(array, o);
    }
    return array;
}

static void print_time(bool known, uint64_t ns)
{
    char buf[LATENCY_SIZE];

    cli_printf("%9s", known ? latency_text(ns, buf) : "-");
}

/* Its name, at the end of a line */
static void print_thread(const struct thread_time *t)
{
    cli_printf("  %s", name_of(t));
    if (t->task.known && t->task.tid) {
        cli_printf(" %u", t->task.pid);
        if (t->task.tid != t->task.pid) {
            cli_printf("/%u", t->task.tid);
        }
    }
    cli_printf("\n");
}

static void print_row(const struct report *r, const struct thread_time *t)
{
    uint64_t any = histogram_count(t->off);

    print_time(true, t->ran);
    print_time(t->followed, t->off_sum);
    print_time(any > t->waits_unknown, t->waited);
    if (t->followed) {
        cli_printf("%10" PRIu64, t->switches);
    } else {
        cli_printf("%10s", "-");
    }
    print_time(any && histogram_known(t->off),
               histogram_percentile(t->off, 95));
    print_time(any, histogram_max(t->off));
    print_time(t->away, t->away_ns);
    print_thread(t);
    if (r->latency.bars) {
        latency_print_bars(t->off);
    }
}

static void print_text(const struct report *r, const struct thread_times *t,
                       const struct task_row *rows, size_t n)
{
    uint64_t all = t->others, unknown = 0, waits = 0;
    char buf[LATENCY_SIZE];
    size_t shown = 0;

    for (size_t i = 0; i < n; i++) {
        all += rows[i].thread->ran;
        unknown += rows[i].thread->unknown;
        waits += rows[i].thread->waits_unknown;
    }
    cli_hold();
    cli_printf("# On CPU, and off it: elapsed time from when a thread left its "
               "vCPU to when it ran again\n");
    cli_printf("#   On CPU  Off CPU  Waiting  Switches      p95      Max     "
               "Away  Thread\n");
    cli_held();
    for (size_t i = 0; i < n; i++) {
        if (report_shows(r, shown, report_share(rows[i].thread->ran, all))) {
            cli_printf(" ");
            print_row(r, rows[i].thread);
            shown++;
        }
    }
    if (shown < n) {
        cli_printf("# %zu more rows; --min-share=0 --top=0 shows them\n",
                   n - shown);
    }
    if (t->others) {
        cli_printf("# %s of more threads than can be counted\n",
                   latency_text(t->others, buf));
    }
    latency_print_forgotten(t->budget.forgotten);
    if (waits) {
        cli_printf("# %" PRIu64 " times a thread was away and it is not known "
                   "for how long it waited for a vCPU\n", waits);
    }
    if (unknown) {
        cli_printf("# %" PRIu64 " times a thread was away and it is not known "
                   "for how long\n", unknown);
    }
}

/* What --comm and --cpu choose, which was checked before */
static void read_choice(const struct report *r, char ***comms, bool *vcpus)
{
    if (r->in.comm_text) {
        *comms = g_strsplit(r->in.comm_text, ",", -1);
    }
    if (r->in.cpu_text) {
        cli_parse_vcpus("--cpu", r->in.cpu_text, vcpus);
    }
}

/* Reads times, and sorts rows.  Returns a negative enum btrail_error if it
 * fails. */
static int read_rows(const struct report *r, bool ran, struct thread_times *t,
                     struct task_row **rows, size_t *n)
{
    bool vcpus[BTRAIL_MAX_VCPUS] = { false };
    g_auto(GStrv) comms = NULL;
    struct thread_times_options o = {
        .window = r->in.window, .times = r->in.times, .waits = r->in.waits,
        .set = r->between.set,
        .whole = r->in.whole, .tick = r->in.trace.tick, .ran = ran,
    };
    int ret;

    read_choice(r, &comms, vcpus);
    o.comms = comms;
    o.vcpus = r->in.cpu_text ? vcpus : NULL;
    ret = thread_times_read(t, r->in.trace.trace, &o);
    if (!ret) {
        *rows = sort_rows(r, t, n);
    }
    return ret;
}

/* Why nobody knows how long tasks ran; NULL if that can be read */
static const char *why_unknown(const struct report *r)
{
    return r->in.filter_text ? "--filter chooses records, not times" :
           analysis_tells_off_cpu(&r->in) ? NULL :
           "only some vCPUs or processes were recorded";
}

static void print_ran_row(const struct report *r, const struct thread_time *t,
                          double share)
{
    char time[LATENCY_SIZE], first[CLI_TIME_SIZE], last[CLI_TIME_SIZE];

    cli_printf("%9s  %5.1f%%  %14s  %14s", latency_text(t->ran, time),
               100 * share, cli_format_time(&r->in.trace, t->first, first),
               cli_format_time(&r->in.trace, t->last, last));
    print_thread(t);
}

static void print_ran(const struct report *r, const struct thread_times *t,
                      const struct task_row *rows, size_t n)
{
    uint64_t all = t->others, rest = t->others;
    char buf[LATENCY_SIZE];
    size_t shown = 0;

    for (size_t i = 0; i < n; i++) {
        all += rows[i].thread->ran;
    }
    cli_printf("\n%9s  %6s  %14s  %14s  task\n", "on CPU", "share",
               "first (s)", "last (s)");
    for (; shown < n; shown++) {
        const struct thread_time *thread = rows[shown].thread;
        double share = report_share(thread->ran, all);

        /* The rest ran for less. */
        if (100 * share < r->min_share || !thread->ran) {
            break;
        }
        print_ran_row(r, thread, share);
    }
    for (size_t i = shown; i < n; i++) {
        rest += rows[i].thread->ran;
    }
    if (rest) {
        cli_printf("%9s  %5.1f%%  with less than %g%% each; --tasks shows "
                   "them\n", latency_text(rest, buf),
                   100 * report_share(rest, all), r->min_share);
    }
}

bool report_print_ran(struct report *r)
{
    const char *unknown = why_unknown(r);
    g_autofree struct task_row *rows = NULL;
    struct thread_times t = { .named = false };
    size_t n;
    int ret = unknown ? 0 : read_rows(r, true, &t, &rows, &n);

    if (ret) {
        analysis_failed(&r->in, ret);
        return false;
    }
    unknown = unknown ?: t.named ? NULL : "the trace names no tasks";
    if (unknown) {
        cli_printf("\nHow long each task ran is not known: %s\n", unknown);
    } else {
        print_ran(r, &t, rows, n);
    }
    thread_times_clear(&t);
    return true;
}

static JsonObject *ran_json(const struct report *r,
                            const struct thread_time *t)
{
    JsonObject *o = btrail_json_new("U:ran_ns", t->ran, "s:comm", name_of(t),
                                    NULL);

    if (t->task.known) {
        btrail_json_add(o, "u:pid", t->task.pid, "u:tid", t->task.tid, NULL);
    }
    if (t->kernel) {
        btrail_json_add(o, "u:kernel", t->kernel, NULL);
    }
    if (t->first) {
        btrail_json_add(o, "d:first",
                        ((double)t->first - r->in.trace.start) / 1e9,
                        "d:last",
                        ((double)t->last - r->in.trace.start) / 1e9, NULL);
    }
    return o;
}

bool report_ran_json(struct report *r, JsonObject *o)
{
    const bool known = !why_unknown(r);
    g_autofree struct task_row *rows = NULL;
    struct thread_times t = { .named = false };
    size_t n = 0;
    int ret = known ? read_rows(r, true, &t, &rows, &n) : 0;
    JsonArray *array;

    if (ret) {
        analysis_failed(&r->in, ret);
        return false;
    }
    if (t.named) {
        array = json_array_new();
        for (size_t i = 0; i < n; i++) {
            json_array_add_object_element(array, ran_json(r, rows[i].thread));
        }
        btrail_json_add(o, "a:tasks", array, "U:other_ns", t.others, NULL);
    } else {
        json_object_set_null_member(o, "tasks");
    }
    thread_times_clear(&t);
    return true;
}

int report_tasks(struct report *r)
{
    g_autofree struct task_row *rows = NULL;
    struct thread_times t;
    size_t n;
    int code;

    if (!analysis_check_off_cpu(&r->in, "--tasks")) {
        return CLI_FAILED;
    }
    code = read_rows(r, false, &t, &rows, &n);
    if (code) {
        return analysis_failed(&r->in, code);
    }
    if (!t.named) {
        cli_error("%s: --tasks: the trace names no tasks; see backtrail info",
                  r->in.trace.path);
        code = CLI_FAILED;
    } else if (r->json) {
        cli_print_json(btrail_json_new("U:records", t.records, "U:gaps",
                                       t.gaps, "U:other_ns", t.others,
                                       "a:rows", rows_json(rows, n), NULL));
    } else {
        print_text(r, &t, rows, n);
    }
    fflush(stdout);
    r->damage = t.damage;
    /* A thread can be away while none runs. */
    code = code ?: analysis_chosen(&r->in, t.records + n, NULL);
    thread_times_clear(&t);
    return code;
}
