/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interrupts and softirqs of Linux as they began and ended
 *
 * An interrupt lasts from the kernel's entry to its return, without the
 * softirqs that it runs at its end, other interrupts that come in between, and
 * what the return to a program or another turn of the scheduler does. So do
 * softirqs, and no time is that of two of them.  The handler of a device is a
 * part of its interrupt.
 */

#ifndef BTRAIL_INTERRUPT_TIMES_H
#define BTRAIL_INTERRUPT_TIMES_H

#include "analyze/call-tree.h"
#include "analyze/pauses.h"

/**
 * enum interrupt_kind
 * @INTERRUPT:         of an entry of the kernel
 * @INTERRUPT_HANDLER: a function that a driver has for its device
 * @INTERRUPT_SOFTIRQ: the action of one, wherever it is run
 */
enum interrupt_kind {
    INTERRUPT_NONE,
    INTERRUPT,
    INTERRUPT_HANDLER,
    INTERRUPT_SOFTIRQ,
    INTERRUPT_OTHER,        /* what is told apart from them, and is not seen */
};

/**
 * struct interrupt_time
 * @vector: "0xec", of a softirq its name, "TIMER"; empty if there is none
 * @name:   of an interrupt as of struct vector_entry; otherwise of the function
 * @begin, @end: of the host's clock
 * @ns:     how long it took, without pauses
 * @whole:  all of it is known; otherwise it took at least that
 */
struct interrupt_time {
    enum interrupt_kind kind;
    const char *vector;
    const char *name;
    uint64_t begin;
    uint64_t end;
    uint64_t ns;
    bool whole;
};

/**
 * struct interrupt_times_options
 * @entries: as of vectors_entries()
 * @pauses:  of the trace; NULL: there are none
 * @ended:   called for each in which there are records that count
 */
struct interrupt_times_options {
    GHashTable *entries;
    const struct pauses *pauses;
    void (*ended)(void *opaque, const struct interrupt_time *t);
    void *opaque;
};

struct interrupt_times;

struct interrupt_times *
interrupt_times_new(const struct interrupt_times_options *options);
void interrupt_times_free(struct interrupt_times *s);

/* For call_tree_read(), which gets the times as @opaque */
extern const struct call_tree_ops interrupt_times_tree_ops;

/* Ends all, where the trace or the window ends. */
void interrupt_times_end(struct interrupt_times *s);

#endif /* BTRAIL_INTERRUPT_TIMES_H */
