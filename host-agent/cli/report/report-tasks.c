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
    cli_printf("  %s", name_of(t));
    if (t->task.known && t->task.tid) {
        cli_printf(" %u", t->task.pid);
        if (t->task.tid != t->task.pid) {
            cli_printf("/%u", t->task.tid);
        }
    }
    cli_printf("\n");
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

int report_tasks(struct report *r)
{
    bool vcpus[BTRAIL_MAX_VCPUS] = { false };
    g_auto(GStrv) comms = NULL;
    struct thread_times_options o = {
        .window = r->in.window, .times = r->in.times, .set = r->between.set,
        .whole = r->in.whole, .tick = r->in.trace.tick,
    };
    g_autofree struct task_row *rows = NULL;
    struct thread_times t;
    size_t n;
    int code;

    if (!analysis_check_off_cpu(&r->in, "--tasks")) {
        return CLI_FAILED;
    }
    read_choice(r, &comms, vcpus);
    o.comms = comms;
    o.vcpus = r->in.cpu_text ? vcpus : NULL;
    code = thread_times_read(&t, r->in.trace.trace, &o);
    if (code) {
        return analysis_failed(&r->in, code);
    }
    rows = sort_rows(r, &t, &n);
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
