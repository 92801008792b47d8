/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's events of Intel PT: one for each vCPU's thread, with a ring that
 * the CPU writes to and whose oldest bytes are overwritten
 *
 * Whoever opens an event needs rights, and so does who maps a ring first that
 * is larger than a user may have.  Who gets the descriptor of one that is
 * mapped already needs none, neither to map it again nor to start and stop it.
 */

#ifndef BTRAIL_PT_EVENT_H
#define BTRAIL_PT_EVENT_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pt/pt-host.h"

/* More than any CPU has */
#define PT_EVENT_RANGES 8

/* Linear addresses of the guest, or of the host if it has some there, too */
struct pt_event_range {
    uint64_t start;
    uint64_t size;
};

/**
 * struct pt_event_options
 * @live:     the ring is read while it fills
 * @returns:  near returns may be compressed: half of the bytes
 * @cyc:      with cycles: the time of each packet, for more bytes
 * @ranges:   trace only what is there; none: all
 * @n_ranges: how many, at most those of struct pt_host's @filters
 */
struct pt_event_options {
    bool live;
    bool returns;
    bool cyc;
    struct pt_event_range ranges[PT_EVENT_RANGES];
    unsigned n_ranges;
};

/**
 * struct pt_event_setup - what is asked for, and what it gives
 * @attr:      of perf_event_open(); the event is not started by it
 * @filter:    of PERF_EVENT_IOC_SET_FILTER; "" for none
 * @live:      as in the options
 * @returns:   returns are compressed
 * @mtc:       there are MTC packets: one for each 2^@mtc_shift of the CTC
 * @cyc:       there are CYC packets
 */
struct pt_event_setup {
    struct perf_event_attr attr;
    char filter[PT_EVENT_RANGES * 48];
    bool live;
    bool returns;
    bool mtc;
    bool cyc;
    unsigned mtc_shift;
};

/**
 * pt_event_prepare - what to ask this host for
 *
 * Returns false if it has no Intel PT that traces guests, or none that has what
 * @o wants; @error says what to do.
 */
bool pt_event_prepare(const struct pt_host *h, const struct pt_event_options *o,
                      struct pt_event_setup *setup, GError **error);

/**
 * struct pt_event - of a thread
 * @fd:       its descriptor; -1: none
 * @page:     the base page, and after it what the kernel says of the ring; NULL
 *            if it is not mapped
 * @aux:      the ring, which is for pt_ring_freeze() while it is stopped; or, of
 *            one that is @live, for aux_ring_init()
 * @aux_size: of it
 * @base_size: bytes at @page
 * @flags:    PERF_AUX_FLAG_* that the kernel has said of it up to the last stop
 */
struct pt_event {
    int fd;
    struct perf_event_mmap_page *page;
    const void *aux;
    size_t aux_size;
    size_t base_size;
    bool live;
    uint64_t flags;
};

#define PT_EVENT_NONE ((struct pt_event){ .fd = -1 })

/**
 * pt_event_open - an event of a thread
 * @e:      PT_EVENT_NONE; to be closed
 * @thread: of a vCPU, as the kernel numbers it
 *
 * Returns false after an error, which says what to do; @e is as before then.
 */
bool pt_event_open(struct pt_event *e, const struct pt_event_setup *setup,
                   pid_t thread, GError **error);

/**
 * pt_event_map - map its ring
 * @e:    open, or with a descriptor that somebody has sent
 * @size: a power of 2 from a page to PT_RING_MAX; the same in each process.  0:
 *        the base page alone
 * @live: as in the options, in each process
 *
 * Returns false after an error, which says what to do.
 */
bool pt_event_map(struct pt_event *e, size_t size, bool live, GError **error);

/* From now on the ring is written. */
bool pt_event_start(struct pt_event *e, GError **error);

/* It is not written any more, and @e's @flags are known, unless it is @live:
 * who reads the ring knows them. */
bool pt_event_stop(struct pt_event *e, GError **error);

/* What @flags say is missing, and what to do; NULL if they say nothing */
const char *pt_event_flaw(uint64_t flags);

/* Unmaps and closes what is there; @e is PT_EVENT_NONE then. */
void pt_event_close(struct pt_event *e);

#endif /* BTRAIL_PT_EVENT_H */
