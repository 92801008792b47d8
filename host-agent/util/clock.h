/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Clocks of the host, in nanoseconds
 */

#ifndef BTRAIL_CLOCK_H
#define BTRAIL_CLOCK_H

#include <stdint.h>
#include <sys/types.h>

/* CLOCK_MONOTONIC, as in TIME events */
uint64_t clock_ns(void);

/* CPU time of this thread, which does not include waiting */
uint64_t clock_cpu_ns(void);

/* CPU time of a process; 0 if there is none */
uint64_t clock_process_ns(pid_t pid);

#endif /* BTRAIL_CLOCK_H */
