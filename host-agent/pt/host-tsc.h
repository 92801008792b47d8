/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The host's TSC beside its CLOCK_MONOTONIC, which TIME events have
 *
 * The kernel's clock of perf events is another one: it is not slewed as NTP
 * says.  What an event's page says of it (time_mult, time_shift) is taken for
 * the TSC's frequency only, and as the kernel's word that the TSC is a clock.
 */

#ifndef BTRAIL_HOST_TSC_H
#define BTRAIL_HOST_TSC_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>

/**
 * struct host_tsc - both clocks at one moment
 * @tsc: of the host
 * @ns:  CLOCK_MONOTONIC
 * @off: so many ticks is it wrong, at most
 */
struct host_tsc {
    uint64_t tsc;
    uint64_t ns;
    uint64_t off;
};

/* Returns false on CPUs that have no TSC. */
bool host_tsc_now(struct host_tsc *now);

/**
 * host_tsc_said - how many times a second the TSC counts, as the kernel says
 * @page: of any event, as it is mapped
 *
 * Returns 0 if the kernel does not keep time by it (cap_user_time_zero): the
 * CPUs' TSCs may differ then, or stop.
 */
uint64_t host_tsc_said(const struct perf_event_mmap_page *page);

/**
 * host_tsc_hz - how many times a second the TSC counted
 * @said: host_tsc_said()
 *
 * CLOCK_MONOTONIC is slewed by 0.05% at most; so over a second or more, what
 * it says of the TSC is nearer to it than what the kernel says.
 *
 * Returns 0 if the two contradict each other: the host slept, or its TSC was
 * set.
 */
uint64_t host_tsc_hz(const struct host_tsc *first, const struct host_tsc *last,
                     uint64_t said);

#endif /* BTRAIL_HOST_TSC_H */
