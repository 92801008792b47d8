/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long each thread of the guest ran, and how long it did not
 *
 * A thread that TASK events name is off its vCPU from its last record before
 * that of another one up to its next record, on whichever vCPU.  No records are
 * decoded.
 */

#ifndef BTRAIL_THREAD_TIMES_H
#define BTRAIL_THREAD_TIMES_H

#include "analyze/times.h"
#include "backtrail/trace.h"
#include "symbolize/record-set.h"
#include "util/histogram.h"

/* Times of more threads are only summed up. */
#define THREAD_TIMES_ROWS   16384u

/**
 * struct thread_times_options - what counts
 * @window: the part of the trace
 * @times:  time in it; NULL for all
 * @waits:  of that, the time in which vCPUs can wait; NULL for all of it
 * @set:    records; NULL for all
 * @whole:  @set has all records of all vCPUs at @times, so that a thread whose
 *          record is not in it can have time there, too
 * @comms:  names of processes, ended by NULL; or NULL for all
 * @vcpus:  of each vCPU, whether it counts; or NULL for all
 * @tick:   of the session, in nanoseconds; 0 if it is not known
 * @rows:   limit of them; 0: THREAD_TIMES_ROWS
 * @ran:    only how long threads ran, and when, which is quicker
 */
struct thread_times_options {
    struct window window;
    const struct times *times;
    const struct times *waits;
    const struct record_set *set;
    bool whole;
    char *const *comms;
    const bool *vcpus;
    uint64_t tick;
    unsigned rows;
    bool ran;
};

/**
 * struct thread_time - a thread
 * @task:     as the last event named it; not known: of all time of which nobody
 *            knows who ran.  The idle tasks of all vCPUs are one
 * @kernel:   the number of its kernel, or 0
 * @ran:      in ns, with what a vCPU has waited after its records
 * @first, @last: host clock where its first record that took time begins, and
 *            where its last one is over; 0 if there is none
 * @switches: how often it has left a vCPU for another thread
 * @off:      how long it was off its vCPU each time that it came back, in ns
 * @off_sum:  their sum
 * @unknown:  how often it came back when nobody knows for how long it was away
 * @waited:   of @off_sum, how long it waited for a vCPU: since it was woken, or
 *            since it had left although it could run; and the longest such time
 * @waits_unknown: of those in @off, of how many that is not known
 * @away:     it has left, and not come back, @away_ns before the end; it may
 *            have ended
 * @followed: @switches to @away are known: it is no idle task, nor in a nested
 *            guest
 */
struct thread_time {
    struct btrail_task task;
    unsigned kernel;
    uint64_t ran;
    uint64_t first;
    uint64_t last;
    uint64_t switches;
    struct histogram *off;
    uint64_t off_sum;
    uint64_t unknown;
    uint64_t waited;
    uint64_t waited_max;
    uint64_t waits_unknown;
    bool away;
    uint64_t away_ns;
    bool followed;
};

/**
 * struct thread_times
 * @threads: of struct thread_time, in the order in which they came
 * @others:  time of threads beyond the limit, in ns
 * @records: number of records that count
 * @named:   some records are of threads that events name
 * @gaps:    places where records are missing
 * @budget:  of the times that threads were off their vCPUs
 * @damage:  as of btrail_cursor_damage()
 */
struct thread_times {
    GPtrArray *threads;
    uint64_t others;
    uint64_t records;
    bool named;
    uint64_t gaps;
    struct histogram_budget budget;
    uint64_t damage;
};

/* Returns 0 and times, which thread_times_clear() frees; or a negative enum
 * btrail_error. */
int thread_times_read(struct thread_times *t, const struct btrail_trace *trace,
                      const struct thread_times_options *options);
void thread_times_clear(struct thread_times *t);

#endif /* BTRAIL_THREAD_TIMES_H */
