/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A moment of a trace: after one record of one vCPU
 */

#ifndef BTRAIL_MOMENT_H
#define BTRAIL_MOMENT_H

#include "backtrail/trace.h"

/**
 * struct moment
 * @index:  of the record
 * @icount: of the record; if the trace has no count for each record, the last
 *          one that is known; or BTRAIL_NO_ICOUNT
 * @exact:  the trace has a count for each record
 * @time:   of the last TIME event before it
 * @leaves: the record goes to another kernel
 * @clock:  the host's clock there, as clock_order_stamp() estimates it; 0 if
 *          it was not asked for
 */
struct moment {
    unsigned vcpu;
    uint64_t index;
    uint64_t icount;
    bool exact;
    struct btrail_time time;
    struct btrail_task task;
    struct btrail_kernel kernel;
    bool leaves;
    uint64_t clock;
};

/* The moment after record @i of a batch that has records */
struct moment moment_after(unsigned vcpu, const struct btrail_batch *b,
                            size_t i);

/*
 * Less than, equal to or more than 0 if @a is before, at or after @b.  Moments
 * of two vCPUs are compared by their counts, or where there are none by @clock,
 * if both have it, and otherwise by the times that are known, which are the
 * same for many records.
 */
int moment_compare(const struct moment *a, const struct moment *b);

#endif /* BTRAIL_MOMENT_H */
