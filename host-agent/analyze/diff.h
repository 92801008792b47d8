/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where two runs of the same thing differ
 *
 * Each trace is read once, by a thread of its own, as one sequence of edges for
 * each task (diff-reader.h).  The sequences of the same tasks are aligned
 * (diff-align.h) while the traces are read; only that by which one trace is
 * ahead is kept.  Differences are grouped: in the same function, one side took
 * the same edge and the other one another.
 *
 * Which way a branch goes often depends on chance, above all in the kernel.  If
 * at some other time each side went the way that the other one went here, the
 * difference may be of that kind.  If not, it is called new: one side executed
 * what the other one never has.  The more of it is new, the less likely is
 * chance.  It is least likely where a side has called functions that the other
 * side never has.
 */

#ifndef BTRAIL_DIFF_H
#define BTRAIL_DIFF_H

#include "analyze/diff-align.h"
#include "analyze/diff-reader.h"

/* How much of a difference is kept: frames, and edges before and after it */
#define DIFF_FRAMES     64
#define DIFF_BEFORE     12
#define DIFF_THEN       32

/**
 * struct diff_side - one side of a group's first difference
 * @vcpu, @index: of the record at which it differs; or of the one before it, if
 *                the task ends
 * @placed:  they are known
 * @at:      how many edges of the task come before it
 * @n:       edges up to where both do the same again
 * @then:    the first edges
 */
struct diff_side {
    unsigned vcpu;
    uint64_t index;
    bool placed;
    uint64_t at;
    uint64_t n;
    uint32_t then[DIFF_THEN];
    unsigned n_then;
};

/**
 * struct diff_group - differences that are alike
 * @function: that differs
 * @edge:     that each side took first; DIFF_EDGE_GAP: it has ended
 * @count:    how many differences
 * @n:        edges of each side in all of them
 * @fresh:    of the first one: edges that the other side never has taken
 * @called:   of the first one: functions that a side has called there, and the
 *            other side never has
 * @end:      how the first one ends
 * @levels:   frames that had returned until then
 * @frames:   calls in force at the first one, the innermost first
 * @before:   edges that both took before it, the last one first
 */
struct diff_group {
    const struct diff_function *function;
    uint32_t edge[DIFF_SIDES];
    uint64_t count;
    uint64_t n[DIFF_SIDES];
    unsigned fresh;
    unsigned called;
    enum diff_end end;
    unsigned levels;
    struct diff_side side[DIFF_SIDES];
    uint32_t *frames;
    unsigned n_frames;
    uint32_t before[DIFF_BEFORE];
    unsigned n_before;
};

/**
 * struct diff_pair - a task of both traces
 * @task:        of each side
 * @same:        edges that both have, at the same place
 * @edges:       of each side, altogether
 * @differences: how many, with those in no group
 * @gaps:        places with missing records
 * @groups:      of struct diff_group *, by their first difference
 * @shorter:     the side whose trace ends first, of a task that continues, so
 *               that the rest of the other side is not compared; or -1
 * @lost:        edges of each side were not compared, because no place was
 *               found from which on both do the same
 */
struct diff_pair {
    struct diff_task *task[DIFF_SIDES];
    uint64_t same;
    uint64_t edges[DIFF_SIDES];
    uint64_t differences;
    uint64_t gaps;
    GPtrArray *groups;
    int shorter;
    bool lost;
    struct diff_align align;
    struct diff_incoming *incoming;
};

/**
 * struct diff_input - a trace
 */
struct diff_input {
    const struct btrail_trace *trace;
    struct symbolizer *names;
    struct window window;
};

/**
 * struct diff_options
 * @user, @kernel: which edges are compared
 * @process:  only tasks of processes with this name, or this number; or NULL
 * @progress: is called from time to time with the records that were read, of
 *            both traces, and their number; can be NULL
 */
struct diff_options {
    struct diff_input input[DIFF_SIDES];
    bool user;
    bool kernel;
    const char *process;
    void (*progress)(void *opaque, uint64_t done, uint64_t all);
    void *opaque;
};

struct diff_new {
    const struct diff_pair *pair;
    const struct diff_group *group;
};

/**
 * struct diff
 * @pairs:     of struct diff_pair *, by the first records of the first side
 * @tasks:     of each trace; those without another are in this trace alone
 * @functions: that one side called more often, of struct diff_function *, those
 *             with the largest difference first
 * @fresh:     all groups that are new, of struct diff_new: those where most
 *             functions were called that are new first, then those with most
 *             new edges, and then by their time
 * @differs:   whether there is any difference
 * @damage:    of each trace
 * @dropped:   differences that are in no group, because there are too many
 */
struct diff {
    GPtrArray *pairs;
    struct diff_tasks tasks[DIFF_SIDES];
    struct diff_edges *edges;
    struct diff_scratch *scratch;
    GPtrArray *functions;
    GArray *fresh;
    bool differs;
    uint64_t damage[DIFF_SIDES];
    uint64_t dropped;
};

/*
 * Compares two traces.  Returns 0 or a negative enum btrail_error, and then
 * @side gets the trace that it is of; @d is to be cleared in any case.
 */
int diff_run(struct diff *d, const struct diff_options *options,
             unsigned *side);
void diff_clear(struct diff *d);

/*
 * How many edges are kept at most until they can be compared: fewer, the more
 * memory the decoders of the traces have taken
 */
uint64_t diff_most_kept(const struct diff_options *options);

/*
 * Is a task one of the processes that the options choose?  Tasks of the kernel
 * have nothing in user mode.
 */
bool diff_chooses(const struct diff_options *options,
                  const struct diff_task *task);

#endif /* BTRAIL_DIFF_H */
