/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counters of what happened while call stacks were reconstructed
 */

#ifndef BTRAIL_STACK_COUNTS_H
#define BTRAIL_STACK_COUNTS_H

#include <stdint.h>

/**
 * struct stack_counts
 * @calls, @returns: that matched
 * @interrupts: interrupts and exceptions
 * @entries:    entries into the kernel from user mode
 * @nested:     frames that ended without a return ("wrongly nested")
 * @jumps_out:  jumps into a caller (longjmp)
 * @signals:    returns to user mode that started a signal handler, or a function
 *              that one has called for what it interrupted
 * @switches:   switches to another stack
 * @resumed:    switches to a stack that was known
 * @mistaken:   switches for which another stack was taken at first
 * @unknown:    returns that no known frame had called
 * @astray:     records that did not continue where the one before had led
 * @gaps:       gaps in the trace
 * @dropped:    calls that are counted as part of the caller: there are too
 *              many different stacks
 * @deep:       calls whose callers are not all known, or shown: the stack is
 *              too deep, or there are too many stacks of threads
 * @no_code:    records of instructions whose bytes are not known
 * @likely:     records whose process is BTRAIL_LIKELY
 */
struct stack_counts {
    uint64_t calls;
    uint64_t returns;
    uint64_t interrupts;
    uint64_t entries;
    uint64_t nested;
    uint64_t jumps_out;
    uint64_t signals;
    uint64_t switches;
    uint64_t resumed;
    uint64_t mistaken;
    uint64_t unknown;
    uint64_t astray;
    uint64_t gaps;
    uint64_t dropped;
    uint64_t deep;
    uint64_t no_code;
    uint64_t likely;
};

#endif /* BTRAIL_STACK_COUNTS_H */
