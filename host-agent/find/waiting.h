/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Why a thread took so long from one moment to another: how long it ran, waited
 * for a vCPU, and was blocked, where, and who has ended that; and what those
 * did meanwhile, back to the cause
 */

#ifndef BTRAIL_WAITING_H
#define BTRAIL_WAITING_H

#include "analyze/hot-functions.h"
#include "analyze/pauses.h"
#include "analyze/thread-states.h"
#include "find/guest-time.h"
#include "symbolize/symbolizer.h"

/* Waits of a thread that are described one by one, the longest ones */
#define WAITING_MOST        24

/* Parts of the path that are kept; the rest is one part */
#define WAITING_PARTS       8192

/* Waits for those who wait, one in another, that are followed */
#define WAITING_DEPTH       64

/**
 * enum waiting_state
 * @WAITING_INTERRUPT: it is blocked, and an interrupt ends that: what it waits
 *                     for is a time, or a device
 */
enum waiting_state {
    WAITING_RUNNING,
    WAITING_RUNNABLE,
    WAITING_BLOCKED,
    WAITING_INTERRUPT,
    WAITING_PAUSED,
    WAITING_UNKNOWN,
};

const char *waiting_state_name(enum waiting_state state);

/* A moment; @index: of the record after which it is, THREAD_NO_INDEX if that is
 * not known */
struct waiting_moment {
    unsigned vcpu;
    uint64_t index;
    uint64_t time;
};

/* Call stacks: of const struct function, the one that was called last first;
 * NULL if it was not looked for, or is not known */

/**
 * struct waiting_user - who used a vCPU
 * @task: not known: nobody knows who
 */
struct waiting_user {
    struct btrail_task task;
    uint64_t ns;
};

/**
 * struct waiting_waker
 * @known:     somebody is known to have ended a wait
 * @task:      who, if it was not an interrupt
 * @interrupt: which, or NULL
 * @times, @ns: the waits that it has ended
 */
struct waiting_waker {
    bool known;
    struct btrail_task task;
    char *interrupt;
    GPtrArray *stack;
    uint64_t times;
    uint64_t ns;
};

/**
 * struct waiting_wait - waits that are alike: state, and where the thread is
 * @ns:     without what was paused
 * @stack:  where it has left its vCPU
 * @wakers: of struct waiting_waker
 */
struct waiting_wait {
    enum waiting_state state;
    uint64_t ns;
    uint64_t times;
    GPtrArray *stack;
    GArray *wakers;
};

/**
 * struct waiting_part - of the critical path
 * @task:      not known of what runs before the kernel has tasks that are named
 * @begin, @end: by the host's clock; @ns: how long that is
 * @paused:    how much of it was
 * @stack:     where it was left, if it waits and that was looked for
 * @functions: of struct hot_function, if it runs and they were looked for
 * @instead:   of struct waiting_user, if it is runnable
 * @waker:     who ends it, if it waits
 * @depth:     0 of the thread itself, more of those for which it waits
 * @range:     if it runs: its records
 */
struct waiting_part {
    enum waiting_state state;
    struct btrail_task task;
    uint64_t begin;
    uint64_t end;
    uint64_t ns;
    uint64_t paused;
    GPtrArray *stack;
    GArray *functions;
    GArray *instead;
    struct waiting_waker waker;
    unsigned depth;
    struct hot_range range;
};

/* WAITING_PAUSED if it was for most of the part, or else @state */
enum waiting_state waiting_part_state(const struct waiting_part *part);

/**
 * struct waiting_span - of a thread between two moments; times are in ns
 * @elapsed:   the sum of the next five
 * @functions: of struct hot_function; @sampled: of some of the records
 * @instead:   of struct waiting_user: who ran while it could have; not more
 *             than @runnable in all
 * @waits:     of struct waiting_wait, the longest ones first
 * @others:    more waits, which are in none of these; @others_ns
 * @path:      of struct waiting_part, from @begin to @end
 * @cut:       of the path, how much was not followed, as it is too long
 * @late:      from this time on nothing is known: there is too much; or 0
 * @wakes:     the trace says at all who wakes whom
 */
struct waiting_span {
    struct waiting_moment begin;
    struct waiting_moment end;
    struct btrail_task task;
    struct btrail_kernel kernel;
    uint64_t elapsed;
    uint64_t on_cpu;
    uint64_t runnable;
    uint64_t blocked;
    uint64_t paused;
    uint64_t unknown;
    GArray *functions;
    bool sampled;
    GArray *instead;
    GArray *waits;
    uint64_t others;
    uint64_t others_ns;
    GArray *path;
    uint64_t cut;
    uint64_t late;
    bool wakes;
    uint64_t damage;
};

/**
 * struct waiting_options
 * @pauses: or NULL
 * @clock:  of a replay: all lengths are in its guest's time, for which there are
 *          no pauses; NULL: by the host's clock
 * @tick:   of the session, in ns
 * @whole:  as in struct thread_states_options
 * @states: of a time that has that of the span in it; NULL: they are read
 * @stacks: this many call stacks are made for a span
 * @brief:  neither path nor functions
 */
struct waiting_options {
    const struct btrail_trace *trace;
    struct symbolizer *symbols;
    const struct pauses *pauses;
    const struct replay_clock *clock;
    uint64_t tick;
    bool whole;
    const struct thread_states *states;
    unsigned stacks;
    bool brief;
};

/**
 * waiting_read
 * @w: has @begin, @end, @task and @kernel: the thread at the end.  Before that
 *     one began, the one that has begun it counts.  Gets all else;
 *     waiting_clear() frees it
 *
 * Errors: as btrail_merged_open().
 */
int waiting_read(struct waiting_span *w, const struct waiting_options *options);
void waiting_clear(struct waiting_span *w);

#endif /* BTRAIL_WAITING_H */
