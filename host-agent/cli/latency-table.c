/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long calls took: see latency-table.h
 */

#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/latency-table.h"
#include "util/json.h"

/* Characters of the longest bar */
#define BAR     40

bool latency_options_parse(struct latency_options *o)
{
    const char *name;

    if (!o->sort_text) {
        return true;
    }
    for (unsigned i = 0; (name = latency_key_name(i)); i++) {
        if (!strcmp(name, o->sort_text)) {
            o->key = i;
            return true;
        }
    }
    cli_error("--sort: '%s' is not count, total, mean, p50, p95, p99 or max",
              o->sort_text);
    return false;
}

const char *latency_text(uint64_t ns, char buf[LATENCY_SIZE])
{
    static const char *const units[] = { "ns", "us", "ms", "s" };
    double value = ns;
    unsigned i = 0;

    for (; value >= 999.5 && i < G_N_ELEMENTS(units) - 1; i++) {
        value /= 1000;
    }
    g_snprintf(buf, LATENCY_SIZE, "%.*f%s",
               !i || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2, value,
               units[i]);
    return buf;
}

void latency_print_header(void)
{
    cli_printf("%8s%8s%8s%8s%8s%8s", "Total", "Mean", "p50", "p95", "p99",
               "Max");
}

/* @is: it is known */
static void print_time(bool is, const char *before, uint64_t ns)
{
    char buf[LATENCY_SIZE], text[LATENCY_SIZE + 1];

    g_snprintf(text, sizeof(text), "%s%s", before, latency_text(ns, buf));
    cli_printf("%8s", is ? text : "-");
}

void latency_print(const struct latency *l)
{
    bool any = histogram_count(l->times), known = histogram_known(l->times);

    print_time(true, l->partial ? ">" : "", l->total);
    for (enum latency_key key = LATENCY_MEAN; key < LATENCY_MAX; key++) {
        print_time(any && (known || key == LATENCY_MEAN), "",
                   latency_value(l, key));
    }
    print_time(true, l->longest > histogram_max(l->times) ? ">" : "",
               latency_value(l, LATENCY_MAX));
}

void latency_print_forgotten(unsigned rows)
{
    if (rows) {
        cli_printf("# of %u rows, percentiles are not known: there are too "
                   "many times to be kept\n", rows);
    }
}

void latency_print_bars(const struct histogram *h)
{
    uint64_t n, most = 0;

    for (unsigned i = 0; i < HISTOGRAM_POWERS; i++) {
        most = MAX(most, histogram_power(h, i));
    }
    for (unsigned i = 0; i < HISTOGRAM_POWERS; i++) {
        char from[LATENCY_SIZE], to[LATENCY_SIZE];
        unsigned bar;

        n = histogram_power(h, i);
        if (!n) {
            continue;
        }
        bar = (double)n / most * BAR;
        cli_printf("  %8s ..%8s %10" PRIu64 " |%.*s%*s|\n",
                   latency_text(i ? UINT64_C(1) << i : 0, from),
                   latency_text(i < 63 ? UINT64_C(2) << i : UINT64_MAX, to), n,
                   bar, "########################################",
                   BAR - bar, "");
    }
}

/* The most that a number of JSON can be stands for what is more. */
static uint64_t number(uint64_t v)
{
    return MIN(v, INT64_MAX);
}

JsonArray *latency_bars_json(const struct histogram *h)
{
    JsonArray *array = json_array_new();

    for (unsigned i = 0; i < HISTOGRAM_POWERS; i++) {
        uint64_t n = histogram_power(h, i);

        if (n) {
            json_array_add_object_element(array, btrail_json_new(
                "U:from", number(i ? UINT64_C(1) << i : 0),
                "U:to", number(i < 62 ? UINT64_C(2) << i : UINT64_MAX),
                "U:count", n, NULL));
        }
    }
    return array;
}

void latency_add_json(JsonObject *o, const struct latency *l)
{
    bool any = histogram_count(l->times), known = histogram_known(l->times);

    btrail_json_add(o, "U:count", latency_value(l, LATENCY_COUNT),
                    "U:partial", l->partial, "U:total_ns", number(l->total),
                    NULL);
    for (enum latency_key key = LATENCY_MEAN; key <= LATENCY_MAX; key++) {
        g_autofree char *name = g_strconcat(latency_key_name(key), "_ns",
                                            NULL);

        if ((any && (known || key == LATENCY_MEAN)) || key == LATENCY_MAX) {
            json_object_set_int_member(o, name, number(latency_value(l, key)));
        } else {
            json_object_set_null_member(o, name);
        }
    }
    btrail_json_add(o, "b:max_partial",
                    l->longest > histogram_max(l->times),
                    "b:exact", histogram_exact(l->times),
                    "a:histogram", latency_bars_json(l->times), NULL);
}

/* The names of processes are as wide as those that are shown. */
static int comm_width(const GPtrArray *rows, guint n)
{
    int width = strlen("Command");

    for (guint i = 0; i < n; i++) {
        const struct latency *l = rows->pdata[i];

        width = MAX(width, cli_width(l->names[0]));
    }
    return width;
}

void latency_print_table(struct latencies *l, const struct latency_options *o,
                         const char *heading)
{
    const GPtrArray *rows = latencies_sorted(l, o->key);
    guint n = o->top ? MIN(rows->len, (guint)o->top) : rows->len;
    int width = comm_width(rows, n);

    cli_hold();
    cli_printf("# Elapsed time of calls, from begin to end, without pauses\n"
               "#%9s%9s", "Calls", "Partial");
    latency_print_header();
    cli_printf("  %-*s  %s\n", width, "Command", heading);
    cli_held();
    for (guint i = 0; i < n; i++) {
        const struct latency *row = rows->pdata[i];

        cli_printf(" %9" PRIu64 "%9" PRIu64,
                   latency_value(row, LATENCY_COUNT), row->partial);
        latency_print(row);
        cli_printf("  %-*s  %s\n", width, row->names[0], row->names[2]);
        if (o->bars) {
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
}

void latency_print_json(struct latencies *l, const struct latency_options *o,
                        const char *what, const struct pauses *pauses,
                        bool pauses_known)
{
    const GPtrArray *rows = latencies_sorted(l, o->key);
    guint n = o->top ? MIN(rows->len, (guint)o->top) : rows->len;
    JsonArray *array = json_array_new();

    for (guint i = 0; i < n; i++) {
        const struct latency *row = rows->pdata[i];
        JsonObject *object = btrail_json_new("s:comm", row->names[0], "s:dso",
                                             row->names[1], NULL);

        json_object_set_string_member(object, what, row->names[2]);
        latency_add_json(object, row);
        json_array_add_object_element(array, object);
    }
    cli_print_json(btrail_json_new("U:other_calls", latencies_others(l),
                                   "b:pauses_known", pauses_known,
                                   "U:pauses_unknown", pauses_unknown(pauses),
                                   "a:rows", array, NULL));
}
