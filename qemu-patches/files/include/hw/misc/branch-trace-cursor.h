/*
 * Branch trace: the part of a stream that a producer writes through
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_CURSOR_H
#define HW_MISC_BRANCH_TRACE_CURSOR_H

/**
 * BranchTraceCursor - where the next record goes
 * @next:  the place for it
 * @limit: call branch_trace_stream_limit() once @next has got this far.
 *         The device's tick sets it to 0 from another thread, to be called
 *         at the next record; all accesses are atomic.
 *
 * Kept apart from the stream so that it can live where the producer reaches
 * it cheaply.
 */
typedef struct BranchTraceCursor {
    uintptr_t next;
    uintptr_t limit;
} BranchTraceCursor;

#endif /* HW_MISC_BRANCH_TRACE_CURSOR_H */
