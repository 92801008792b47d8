/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A moment of a trace: see moment.h
 */

#include "find/moment.h"
#include "lib/agent/batch.h"

struct moment moment_after(unsigned vcpu, const struct btrail_batch *b,
                            size_t i)
{
    struct moment m = {
        .vcpu = vcpu, .index = b->index + i, .time = b->time, .task = b->task,
        .kernel = b->kernel, .leaves = btrail_batch_leaves(b, i),
        .icount = btrail_record_icount(&b->records[i], &b->time),
    };

    m.exact = m.icount != BTRAIL_NO_ICOUNT;
    if (!m.exact) {
        m.icount = b->time.icount;
    }
    return m;
}

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

int moment_compare(const struct moment *a, const struct moment *b)
{
    if (a->vcpu == b->vcpu) {
        return compare(a->index, b->index);
    }
    if (a->icount != BTRAIL_NO_ICOUNT && b->icount != BTRAIL_NO_ICOUNT &&
        (a->icount != b->icount || (a->exact && b->exact))) {
        return compare(a->icount, b->icount);
    }
    if (a->clock && b->clock) {
        return compare(a->clock, b->clock);
    }
    return compare(a->time.host, b->time.host);
}
