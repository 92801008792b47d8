/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Instruction counts of records
 */

#include "backtrail/trace.h"

uint64_t btrail_record_icount(const struct btrail_record *record,
                              const struct btrail_time *time)
{
    uint64_t count;

    if (!record || !time || time->icount == BTRAIL_NO_ICOUNT ||
        !(record->flags >> BTRAIL_RECORD_ICOUNT_SHIFT)) {
        return BTRAIL_NO_ICOUNT;
    }
    /* The nearest one with these 48 bits: sign-extend the difference. */
    count = (record->flags >> BTRAIL_RECORD_ICOUNT_SHIFT) - time->icount;
    return time->icount + (uint64_t)((int64_t)(count <<
                                               BTRAIL_RECORD_ICOUNT_SHIFT) >>
                                     BTRAIL_RECORD_ICOUNT_SHIFT);
}
