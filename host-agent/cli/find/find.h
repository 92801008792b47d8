/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of backtrail find share
 */

#ifndef BTRAIL_CLI_FIND_H
#define BTRAIL_CLI_FIND_H

#include "cli/analysis.h"
#include "find/backtrace.h"
#include "find/clock-order.h"
#include "find/event.h"
#include "find/record-reader.h"
#include "find/switches.h"
#include "find/visits.h"
#include "find/within.h"

/**
 * struct find_moment - a moment that was found
 * @visit:      its moment; and if @has_record, the record
 * @switches:   it is a task switch, or a wake-up
 * @from:       of a task switch: the task before; otherwise not known
 * @left:       and why it leaves
 * @woken:      of a wake-up; @name: of its task, empty if that is not known
 */
struct find_moment {
    struct visit visit;
    bool has_record;
    bool switches;
    struct btrail_task from;
    struct btrail_left left;
    struct btrail_wake woken;
    char name[BTRAIL_TASK_NAME + 1];
};

/**
 * struct find_options
 * @nth:     0: not given; below 0 from the end
 * @depth:   of call stacks
 */
struct find_options {
    struct analysis in;
    struct find_event what;
    char *callers_of;
    char **between;             /* two places, or NULL */
    char *meanwhile;            /* of --while */
    gint64 nth;
    bool last;
    bool count;
    bool json;
    bool stack;
    uint64_t limit;
    unsigned depth;
    unsigned threads;
};

/*
 * The moment of a place, also of output, if the trace is in its recording: then
 * @place becomes another one.  Errors: those of find_place_find() and
 * guest_output_find().
 */
bool find_moment_of(const struct analysis *in, struct find_place *place,
                    struct moment *at, GError **error);

/*
 * Moments that happened, in order, as the options choose them
 */

struct finder;

/* Errors: those of find_event_target(), find_place_find() and within_new() */
struct finder *finder_new(struct find_options *o, GError **error);
void finder_free(struct finder *f);

/* The next one, or the last one and then those before it.  False at the end or
 * with an error. */
bool finder_next(struct finder *f, struct find_moment *found, GError **error);
bool finder_previous(struct finder *f, struct find_moment *found,
                     GError **error);

/* Finds the record before a task switch or wake-up, if that is needed. */
void finder_complete(const struct finder *f, struct find_moment *found);

/* Can moments be read from the end? */
bool finder_goes_back(const struct finder *f);

/* All of them that have records, in any order, with several threads.  @fn locks
 * the finder to use the symbolizer. */
bool finder_each(struct finder *f, visits_fn *fn, void *opaque,
                 GError **error);
void finder_lock(struct finder *f);
void finder_unlock(struct finder *f);
/* Can it? */
bool finder_has_threads(const struct finder *f);

/* Why nothing is found, if a function is not known; or NULL */
const char *finder_missing(const struct finder *f);

/* Task switches or wake-ups that were passed and may be meant: who or why is
 * not known */
uint64_t finder_unknown(const struct finder *f);

/* Damaged chunks that were passed */
uint64_t finder_damage(const struct finder *f);

/*
 * Output
 */

struct find_printer;

/* Prints a header, if it is not JSON. */
struct find_printer *find_printer_new(struct find_options *o);
void find_printer_free(struct find_printer *p);

void find_print(struct find_printer *p, const struct find_moment *found);

/* Counts who has called, and prints that.  Returns an exit code. */
int find_callers(struct find_options *o, struct finder *f);

#endif /* BTRAIL_CLI_FIND_H */
