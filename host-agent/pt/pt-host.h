/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What this host says of Intel PT: what an event can be asked for, and what is
 * in the way
 */

#ifndef BTRAIL_PT_HOST_H
#define BTRAIL_PT_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

/**
 * enum pt_host_field - of an event's config, as the driver's format/ names them
 */
enum pt_host_field {
    PT_HOST_PT,
    PT_HOST_BRANCH,
    PT_HOST_TSC,
    PT_HOST_NORETCOMP,
    PT_HOST_PSB_PERIOD,
    PT_HOST_MTC,
    PT_HOST_MTC_PERIOD,
    PT_HOST_CYC,
    PT_HOST_CYC_THRESH,
    PT_HOST_FIELDS,
};

/* Where a field is in config; no @n: the driver has none of this name */
struct pt_host_bits {
    uint8_t low;
    uint8_t n;
};

/**
 * struct pt_host_word - a sentence about a host
 * @about:  what of it, such as "pt-rights"; no other word is about the same
 * @blocks: no guest can be traced by PT
 * @text:   what it is, and what to do
 */
struct pt_host_word {
    const char *about;
    bool blocks;
    char *text;
};

/**
 * struct pt_host
 * @there:       the kernel has a PMU "intel_pt"; without it nothing but @cpu,
 *               @family, @model, @paranoid, @locked and @words is known
 * @type:        of its events
 * @format:      of their config
 * @psb_cyc:     @psb_periods and cycles can be asked for
 * @psb_periods, @mtc_periods, @cycle_thresholds: bit n: value n is possible
 * @mtc:         MTC packets can be asked for, and are right in a guest
 * @linear:      addresses of 16-bit code are linear: see struct pt_flow_options
 * @filters:     address filters that an event can have
 * @tsc_per_ctc, @bus_ratio: as in struct pt_flow_options; 0: not known
 * @mediated:    KVM's PMU keeps the interrupt of a full ring from the host
 * @cpu:         the vendor, such as "GenuineIntel"; "" if not known
 * @family, @model: of the CPU; 0: not known
 * @paranoid:    perf_event_paranoid; INT_MAX if it cannot be read
 * @locked:      bytes of rings that a user may have without CAP_IPC_LOCK and
 *               beside RLIMIT_MEMLOCK; 0 if not known
 * @words:       struct pt_host_word: what is in the way or is done without
 */
struct pt_host {
    bool there;
    bool psb_cyc;
    bool mtc;
    bool linear;
    bool mediated;
    uint32_t type;
    struct pt_host_bits format[PT_HOST_FIELDS];
    uint32_t psb_periods;
    uint32_t mtc_periods;
    uint32_t cycle_thresholds;
    unsigned filters;
    uint32_t tsc_per_ctc[2];
    unsigned bus_ratio;
    char cpu[16];
    unsigned family;
    unsigned model;
    int paranoid;
    uint64_t locked;
    GPtrArray *words;
};

/**
 * pt_host_read - ask the kernel
 * @root: folder with the host's /proc and /sys; "" for those themselves
 *
 * It opens no event.  To be freed by pt_host_free().
 */
struct pt_host *pt_host_read(const char *root);
void pt_host_free(struct pt_host *h);

/* Why no guest can be traced by PT, and what to do; NULL if none is known */
const char *pt_host_fault(const struct pt_host *h);

/* What there is, for people: "branches, times, cycles"; to be freed. */
char *pt_host_words(const struct pt_host *h);

#endif /* BTRAIL_PT_HOST_H */
