/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long tasks did not run, summed up by where they were and who woke them
 *
 * The time in which a task was blocked is told from that in which it could run
 * and waited for a vCPU, where the trace says why the task has left, and when it
 * was woken.
 */

#ifndef BTRAIL_OFF_CPU_SUMS_H
#define BTRAIL_OFF_CPU_SUMS_H

#include "analyze/off-cpu.h"

/* Sums are of so many different places and wakers; beyond, wakers are not
 * told apart. */
#define OFF_CPU_MOST    (1u << 20)

enum off_cpu_kind {
    OFF_CPU_PLAIN,              /* more is not known, or it is not over */
    OFF_CPU_BLOCKED,            /* it was woken in the end */
    OFF_CPU_WAITED,             /* for a vCPU */
};

/**
 * struct off_cpu_sum
 * @node:  where tasks have left
 * @waker: OFF_CPU_BLOCKED: where who woke them was; NULL: it is not known
 * @times: how often; what one waits after it was woken does not count again
 * @ticks: how long, in 1/PACE_TICKS ns
 */
struct off_cpu_sum {
    const struct stack_node *node;
    const struct stack_node *waker;
    enum off_cpu_kind kind;
    uint64_t times;
    uint64_t ticks;
};

struct off_cpu_sums;

/* @most: limit of sums; 0: OFF_CPU_MOST */
struct off_cpu_sums *off_cpu_sums_new(unsigned most);
void off_cpu_sums_free(struct off_cpu_sums *s);

/* How much time of that between two moments counts, in 1/PACE_TICKS ns */
typedef uint64_t off_cpu_count(void *opaque, uint64_t since, uint64_t until);

/*
 * Adds a task that was away up to a moment; @back: it is back then, otherwise
 * all ends.  Returns how much of that counts; of nothing, nothing is added.
 */
uint64_t off_cpu_sums_add(struct off_cpu_sums *s,
                          const struct off_cpu_wait *wait, uint64_t until,
                          bool back, off_cpu_count *count, void *opaque);

/* Sum @i, in the order in which they came; NULL if there are not as many */
const struct off_cpu_sum *off_cpu_sums_get(const struct off_cpu_sums *s,
                                           size_t i);

#endif /* BTRAIL_OFF_CPU_SUMS_H */
