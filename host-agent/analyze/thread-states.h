/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The state of every thread of the guest at every moment, by TASK and WAKE
 * events; no records are decoded
 *
 * The order of what two vCPUs do is as exact as their clocks.  A wake-up can
 * seem to be before the thread that it wakes has left its vCPU, or after it is
 * back: up to some ticks it is taken for that of this wait.
 */

#ifndef BTRAIL_THREAD_STATES_H
#define BTRAIL_THREAD_STATES_H

#include <glib.h>

#include "analyze/thread-state.h"
#include "backtrail/trace.h"

/*
 * Parts, wake-ups and what vCPUs run are kept up to so many together, in some
 * 100 MiB; and so many threads.
 */
#define THREAD_STATES_ITEMS     (1u << 21)
#define THREAD_STATES_THREADS   (1u << 17)

#define THREAD_NO_WAKE          UINT32_MAX
#define THREAD_NO_INDEX         UINT64_MAX

/**
 * struct thread_part - a time in which a thread has one state
 * @begin: host clock; it ends where the next part of the thread begins
 * @index: THREAD_RUNNING: of its first record; otherwise of the record after
 *         which it left the vCPU, or THREAD_NO_INDEX
 * @end_index: THREAD_RUNNING: after its last record
 * @vcpu:  that runs it, or that it has left
 * @wake:  THREAD_BLOCKED: the wake-up that ended it; THREAD_RUNNABLE: that with
 *         which it began; a number of thread_states_wake(), or THREAD_NO_WAKE
 * @state: enum thread_state; THREAD_UNKNOWN: it was not seen yet, records are
 *         missing, or some vCPU runs nobody knows what; or it was off its vCPU,
 *         and nobody knows if, or when, it was woken
 * @interruptible, @uninterruptible: as in struct btrail_left
 */
struct thread_part {
    uint64_t begin;
    uint64_t index;
    uint64_t end_index;
    uint32_t vcpu;
    uint32_t wake;
    uint8_t state;
    bool interruptible;
    bool uninterruptible;
};

/**
 * struct states_thread - of the guest; the idle task of each vCPU is one
 * @task:   as the last event named it; without a name if none did
 * @kernel: its number, or 0
 * @parts:  of struct thread_part, from the time of the first one on; some have
 *          no time between their begin and that of the next
 */
struct states_thread {
    struct btrail_task task;
    unsigned kernel;
    GArray *parts;
};

/**
 * struct thread_wake
 * @by:    the task in force, which an interrupt can have interrupted; NULL if
 *         it is not known
 * @index: of the record before it
 * @time:  host clock, as it is estimated for this vCPU
 * @is_new: who is woken has not run yet
 */
struct thread_wake {
    const struct states_thread *by;
    uint64_t index;
    uint64_t time;
    unsigned vcpu;
    bool is_new;
};

/**
 * struct thread_states_options
 * @begin, @end: host clock; 0 and UINT64_MAX for all
 * @tick:  of the session, in ns; 0 if it is not known
 * @whole: all vCPUs and processes are recorded; otherwise nothing is known of
 *         threads that do not run
 * @items: limit of them; 0: THREAD_STATES_ITEMS
 */
struct thread_states_options {
    uint64_t begin;
    uint64_t end;
    uint64_t tick;
    bool whole;
    unsigned items;
};

struct thread_states;

/* Errors: as btrail_merged_open(). */
int thread_states_read(struct thread_states **states,
                       const struct btrail_trace *trace,
                       const struct thread_states_options *options);
void thread_states_free(struct thread_states *s);

/*
 * All struct states_thread, in the order in which they came; and by their task:
 * @vcpu is that of an idle task; the kernel can be unknown
 */
const GPtrArray *thread_states_all(const struct thread_states *s);
const struct states_thread *thread_states_find(const struct thread_states *s,
                                        const struct btrail_task *task,
                                        const struct btrail_kernel *kernel,
                                        unsigned vcpu);

const struct thread_wake *thread_states_wake(const struct thread_states *s,
                                             uint32_t wake);

/* The number of the part in force right before a time, or at the first one of
 * the thread; and the end of a part */
unsigned thread_part_before(const struct states_thread *t, uint64_t time);
uint64_t thread_part_end(const struct thread_states *s,
                         const struct states_thread *t, unsigned i);

static inline const struct thread_part *
thread_part(const struct states_thread *t, unsigned i)
{
    return &g_array_index(t->parts, struct thread_part, i);
}

/*
 * Calls a function with what a vCPU has run between two times, in order; @t is
 * NULL where that is not known.
 */
typedef void thread_states_fn(void *opaque, const struct states_thread *t,
                              uint64_t begin, uint64_t end);
void thread_states_vcpu(const struct thread_states *s, unsigned vcpu,
                        uint64_t begin, uint64_t end, thread_states_fn *fn,
                        void *opaque);

/* After this time nothing is known, as memory is bounded; or UINT64_MAX */
uint64_t thread_states_until(const struct thread_states *s);

/* Are there any WAKE events?  Damaged chunks and synthetic GAP events */
bool thread_states_has_wakes(const struct thread_states *s);
uint64_t thread_states_damage(const struct thread_states *s);

#endif /* BTRAIL_THREAD_STATES_H */
