/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail report: its kinds, and what they share
 */

#ifndef BTRAIL_REPORT_H
#define BTRAIL_REPORT_H

#include "analyze/call-rows.h"
#include "analyze/tally.h"
#include "cli/analysis.h"
#include "cli/between.h"
#include "cli/latency-table.h"

/**
 * struct report - the trace, and the options of all kinds of reports
 * @min_share: in percent; the text has a sum of what has less
 * @top:       limit of rows, or of edges of an address space
 * @between:   spans whose records count alone, if they are given
 * @latency:   how --syscalls and --interrupts print times
 * @task_key:  the order of --tasks, or NULL
 * @damage:    gets the damage that was found while reading
 */
struct report {
    struct analysis in;
    struct between between;
    unsigned threads;
    unsigned top;
    double min_share;
    struct latency_options latency;
    char *task_key;
    gboolean json;
    uint64_t damage;
};

/* The part of a whole, from 0 to 1 */
static inline double report_share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / whole : 0;
}

/* Is row @i, with that share, in the text?  If rows are in the order of that
 * share and it is not, no later one is. */
static inline bool report_shows(const struct report *r, size_t i, double share)
{
    return 100 * share >= r->min_share && (!r->top || i < r->top);
}

/*
 * --children, --callers, --callees: records and time of functions with their
 * callees, and callers of a function.  Returns an exit code, as the next ones.
 */
int report_call_stacks(struct report *r, enum call_rows_kind kind,
                       const char *function);

/* --syscalls: the same of system calls, and how long they took */
int report_syscalls(struct report *r);

/* --interrupts: how long interrupts, their handlers, and softirqs took */
int report_interrupts(struct report *r);

/* --call-graph: the same of functions as they called each other */
int report_call_graph(struct report *r);

/* --tasks: how long each thread ran, and was off its vCPU */
int report_tasks(struct report *r);

/*
 * Below the address spaces: how long each task ran, and when, or why that is
 * not known; the same for JSON: an array, or null.  False after an error
 * message.
 */
bool report_print_ran(struct report *r);
bool report_ran_json(struct report *r, JsonObject *o);

/* Checks the order of --tasks; prints an error if it is unknown. */
bool report_check_task_key(const char *key);

/* --missing: files without symbols, and records in them */
int report_missing(struct report *r);

/* --marks: how often programs have left marks, and their values */
int report_marks(struct report *r);

/* --spans: the spans of --between, and how long they are */
int report_spans(struct report *r);

/* A record and its time, for JSON */
JsonObject *report_moment_json(const struct report *r,
                               const struct tally_moment *m);

/* The counters of the reconstruction of stacks, for JSON */
JsonObject *report_stacks_json(const struct stack_counts *s);

/* A row of calls, for JSON */
JsonObject *report_call_row_json(const struct row *row);

/* Says that calls are missing, if some are. */
void report_print_dropped(const struct stack_counts *counts);

/* --sort: records by process, module, function, line, edge */
int report_sorted(struct report *r, const char *keys);

/* The name of column @i of --sort; NULL after the last one */
const char *report_key(unsigned i);

/* Checks the columns of --sort; prints an error if one is unknown. */
bool report_check_keys(const char *keys);

#endif /* BTRAIL_REPORT_H */
