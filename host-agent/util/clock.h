/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Clocks of the host, in nanoseconds
 */

#ifndef BTRAIL_CLOCK_H
#define BTRAIL_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC, which TIME events have, too */
uint64_t btrail_clock_ns(void);

/* What this thread has used of a CPU: to be kept waiting costs nothing. */
uint64_t btrail_clock_cpu_ns(void);

#endif /* BTRAIL_CLOCK_H */
