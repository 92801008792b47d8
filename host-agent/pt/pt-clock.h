/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The clock of a recording of Intel PT: what the guest's TSC, which its TSC
 * packets have, is on the host's CLOCK_MONOTONIC
 *
 * It is asked for before events are started and again when they have been
 * stopped: if both times do not agree, what came between has no known times.
 */

#ifndef BTRAIL_PT_CLOCK_H
#define BTRAIL_PT_CLOCK_H

#include "pt/host-tsc.h"
#include "pt/kvm-tsc.h"

/* Bits that a TSC packet has */
#define PT_CLOCK_BITS   56

/**
 * struct pt_clock
 * @hz:    of the guest's TSC
 * @tsc:   of each vCPU at @ns
 * @ns:    CLOCK_MONOTONIC when the events had been stopped
 * @begin: the same before they were started
 * @scaled: the guest's TSC is faster or slower than the host's
 */
struct pt_clock {
    uint64_t hz;
    uint64_t *tsc;
    uint64_t ns;
    uint64_t begin;
    bool scaled;
    unsigned n;
    pid_t *threads;
    struct kvm_tsc *kvm;
    struct host_tsc first;
};

/**
 * pt_clock_begin - before the events are started
 * @root:    as for kvm_tsc_read()
 * @threads: of the vCPUs
 *
 * Returns NULL if the guest's TSC is not known; @error says why, and that times
 * will be missing.
 */
struct pt_clock *pt_clock_begin(const char *root, const pid_t *threads,
                                unsigned n, GError **error);

/**
 * pt_clock_end - after they were stopped
 * @page: of one of the events
 *
 * Fills @c.  Returns false as pt_clock_begin() does.
 */
bool pt_clock_end(struct pt_clock *c, const char *root,
                  const struct perf_event_mmap_page *page, GError **error);

void pt_clock_free(struct pt_clock *c);

#endif /* BTRAIL_PT_CLOCK_H */
