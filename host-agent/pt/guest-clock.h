/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The time of a guest, from the packets of its stream that have time
 *
 * TSC is the time itself: in the guest the guest's, which has an offset, in the
 * host the host's; if it is known what the hypervisor makes of that, it says
 * the guest's, too, and comes where a vCPU goes on after it has slept.  CTC,
 * which TMA and MTC have, and cycles, which CYC has, are the same for both, and
 * lead from one TSC to the next.
 */

#ifndef BTRAIL_GUEST_CLOCK_H
#define BTRAIL_GUEST_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "pt/kvm-tsc.h"
#include "pt/packets.h"

/**
 * struct guest_clock
 *
 * Set by whoever has one, which is zero otherwise:
 * @tsc_per_ctc: numerator and denominator; 0: MTC says nothing
 * @mtc_shift:   an MTC comes for each 2^n of the CTC
 * @bus_ratio:   of TSC and bus; 0: CYC says nothing
 * @host:        what is made of the host's TSC; without @ratio it says nothing
 *
 * @now:         the guest's TSC, or what it was when it was known; 0 before
 * @known:       it is; not where packets are missing, up to the next TSC
 */
struct guest_clock {
    uint32_t tsc_per_ctc[2];
    unsigned mtc_shift;
    unsigned bus_ratio;
    struct kvm_tsc host;
    uint64_t now;
    bool known;

    uint64_t base;              /* TSC where @cycles were 0 */
    uint64_t cycles;
    unsigned ratio;             /* of CBR */
    bool after_tsc;             /* of the guest; TMA belongs to it */
    bool has_ctc;
    bool has_origin;
    uint32_t ctc;               /* as MTC says it, and what has wrapped */
    uint64_t ctcs;              /* since the origin */
    uint64_t origin;            /* the guest's TSC there */
};

/*
 * A packet of time: TSC, TMA, MTC, CBR, CYC; others change nothing.  If it is
 * not known whose it is, it is neither @in_guest nor @in_host.
 */
void guest_clock_read(struct guest_clock *c, const struct pt_packet *packet,
                      bool in_guest, bool in_host);

/* Packets are missing: MTCs cannot be counted on. */
void guest_clock_lose(struct guest_clock *c);

#endif /* BTRAIL_GUEST_CLOCK_H */
