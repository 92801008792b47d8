/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long calls took, as commands print it
 */

#ifndef BTRAIL_LATENCY_TABLE_H
#define BTRAIL_LATENCY_TABLE_H

#include <json-glib/json-glib.h>

#include "analyze/latencies.h"
#include "analyze/pauses.h"

/**
 * struct latency_options
 * @sort_text: parsed into @key
 * @top:       number of rows; 0: all
 * @bars:      print histograms
 */
struct latency_options {
    char *sort_text;
    int top;
    gboolean bars;
    enum latency_key key;
};

#define LATENCY_BARS_ENTRY(o)                                                \
    { "histogram", 0, 0, G_OPTION_ARG_NONE, &(o)->bars,                      \
      "and how many took how long, by powers of two", NULL }

/* Takes @sort_text, which can be NULL.  False after an error message. */
bool latency_options_parse(struct latency_options *o);

/* Three digits and a unit: "1.23ms" */
#define LATENCY_SIZE    16
const char *latency_text(uint64_t ns, char buf[LATENCY_SIZE]);

/*
 * A part of a line: total, mean, p50, p95, p99, max; and the same of the
 * header.  They have LATENCY_WIDTH columns.
 */
#define LATENCY_WIDTH   48
void latency_print_header(void);
void latency_print(const struct latency *l);

/* Says that percentiles of some rows are not known, if there are any. */
void latency_print_forgotten(unsigned rows);

/* A histogram, some lines; the same as an array of JSON */
void latency_print_bars(const struct histogram *h);
JsonArray *latency_bars_json(const struct histogram *h);

/* Adds the members of a row to one of JSON. */
void latency_add_json(JsonObject *o, const struct latency *l);

/*
 * Prints a table of all rows, or with @what, the member of JSON that names a
 * row, an object; @pauses are those that the times leave out, and @pauses_known
 * is as of cli_trace_pauses().
 */
void latency_print_table(struct latencies *l, const struct latency_options *o,
                         const char *heading);
void latency_print_json(struct latencies *l, const struct latency_options *o,
                        const char *what, const struct pauses *pauses,
                        bool pauses_known);

#endif /* BTRAIL_LATENCY_TABLE_H */
