/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of backtrail why share
 */

#ifndef BTRAIL_CLI_WHY_H
#define BTRAIL_CLI_WHY_H

#include "cli/analysis.h"
#include "cli/between.h"
#include "find/waiting.h"

/**
 * struct why_span - one of which it is asked why it took so long
 * @begin, @end: of it
 * @task, @kernel: at its end
 * @paused: how much of it was; those without are compared
 */
struct why_span {
    struct waiting_moment begin;
    struct waiting_moment end;
    struct btrail_task task;
    struct btrail_kernel kernel;
    uint64_t paused;
};

/* The sums of a span; see struct waiting_span */
enum why_component {
    WHY_ELAPSED,
    WHY_ON_CPU,
    WHY_RUNNABLE,
    WHY_BLOCKED,
    WHY_PAUSED,
    WHY_UNKNOWN,
    WHY_COMPONENTS,
};

const char *why_component_name(enum why_component c);
uint64_t why_component(const struct waiting_span *w, enum why_component c);

/**
 * struct why_ordinary - spans that are not among the slowest
 * @all:     how many there are, those that are left out counted
 * @n:       of how many these are the medians
 * @medians: of each component
 * @read:    of struct waiting_span: some of them, with waits
 */
struct why_ordinary {
    uint64_t all;
    uint64_t n;
    uint64_t medians[WHY_COMPONENTS];
    GArray *read;
};

/**
 * struct why
 * @slowest: so many are explained
 * @what, @syscall, @process, @boot: what is asked for, if not @between
 * @spans:  of struct why_span
 * @left_out: how many more there are, which are shorter than many of these
 * @slow:   of struct waiting_span, the slowest one first
 * @states: of the time of all spans, if that is not too much; or NULL
 * @clock:  of a replay: the guest's, in which spans are compared; or NULL
 * @named:  process 1 is first named at this time, and not where it begins; or 0
 * @damage: that was found while reading
 */
struct why {
    struct analysis in;
    struct between between;
    int slowest;
    char *what;
    char *syscall;
    char *process;
    gboolean boot;
    gboolean json;
    struct pauses *pauses;
    struct replay_clock *clock;
    bool pauses_known;
    GArray *spans;
    uint64_t left_out;
    GArray *slow;
    struct why_ordinary ordinary;
    struct thread_states *states;
    uint64_t named;
    uint64_t damage;
};

/* Finds the spans.  False after an error message. */
bool why_find_spans(struct why *why);
bool why_find_syscalls(struct why *why, const char *name);
bool why_find_calls(struct why *why, const struct find_place *place);

/* There is a limit, beyond which short ones are left out. */
void why_add_span(struct why *why, const struct why_span *s);
void why_clear_spans(struct why *why);

/* The longest one first, without pauses */
void why_sort_spans(struct why *why);

/* The name of a function of a stack; @buf is for some */
#define WHY_NAME    256
const char *why_name(const struct function *f, char buf[WHY_NAME]);

/* The median time of the waits of the ordinary spans that are like this one;
 * false if none of them was read */
bool why_ordinary_wait(const struct why *why, const struct waiting_wait *wait,
                       uint64_t *ns);

/* Is it the trace of a recording, whose times are those of the replay that has
 * made it?  They say how long the host took, and not the guest. */
bool why_is_replay(const struct why *why);

/* How many instructions the guest has executed by a moment of such a trace;
 * BTRAIL_NO_ICOUNT if that is not known */
uint64_t why_icount(const struct why *why, const struct waiting_moment *m);

/* Between which two times of the guest a moment of such a trace was, as
 * guest_time_of() has them; false if that is not known */
struct why_guest_time {
    uint64_t from;
    uint64_t to;
};
bool why_guest_time(const struct why *why, const struct waiting_moment *m,
                    struct why_guest_time *time);

void why_print_json(const struct why *why);
void why_print_text(const struct why *why);

#endif /* BTRAIL_CLI_WHY_H */
