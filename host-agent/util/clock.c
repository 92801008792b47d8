/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Clocks of the host: see clock.h
 */

#include <time.h>

#include "util/clock.h"

static uint64_t read_clock(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return ts.tv_sec * UINT64_C(1000000000) + ts.tv_nsec;
}

uint64_t clock_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t clock_process_ns(pid_t pid)
{
    clockid_t id;

    return clock_getcpuclockid(pid, &id) ? 0 : read_clock(id);
}
