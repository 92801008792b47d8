/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From packets of Intel PT to records
 *
 * A stream has what a vCPU's thread did: the guest, and between VM exit and
 * entry the host, which is passed over.  Records are given out once a later
 * packet has shown that the flow of control is known; where it is not known,
 * a gap says so.
 */

#ifndef BTRAIL_FLOW_H
#define BTRAIL_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backtrail/transport.h"
#include "pt/kvm-tsc.h"
#include "pt/linked-blocks.h"

/**
 * enum pt_gap - why records are missing
 *
 * @PT_GAP_BEGIN:      before the stream's first PSB
 * @PT_GAP_OVERFLOW:   the CPU could not write all packets: OVF
 * @PT_GAP_RING:       bytes are missing: pt_flow_missing()
 * @PT_GAP_UNREADABLE: code that was executed is not known
 * @PT_GAP_CHANGED:    code has changed, and it is not known how it was
 * @PT_GAP_LOST:       packets and code contradict each other
 * @PT_GAP_OFF:        the CPU did not trace: a filter, or TraceEn
 * @PT_GAP_MODE:       code of 16 bits, whose linear addresses are not known
 */
enum pt_gap {
    PT_GAP_NONE,
    PT_GAP_BEGIN,
    PT_GAP_OVERFLOW,
    PT_GAP_RING,
    PT_GAP_UNREADABLE,
    PT_GAP_CHANGED,
    PT_GAP_LOST,
    PT_GAP_OFF,
    PT_GAP_MODE,
    PT_GAPS,
};

/**
 * enum pt_flow_event_type
 *
 * @PT_FLOW_CR3:  @value: as PIP says it; @bits: with the option @modes, of the
 *                code: 16, 32 or 64; 0: it was not asked for
 * @PT_FLOW_TIME: @value: the guest's TSC
 * @PT_FLOW_GAP:  @value: bytes of the stream that say nothing of the guest;
 *                @gap: why
 */
enum pt_flow_event_type {
    PT_FLOW_CR3,
    PT_FLOW_TIME,
    PT_FLOW_GAP,
};

/*
 * @at:     before this record of those that are given with it
 * @offset: in the stream, of the packet from which on what follows is known
 */
struct pt_flow_event {
    uint64_t value;
    uint64_t offset;
    uint32_t at;
    uint8_t type;
    uint8_t gap;
    uint8_t bits;
};

/* Takes records, and events in their order. */
typedef void pt_flow_fn(void *opaque, const struct btrail_record *records,
                        size_t n, const struct pt_flow_event *events,
                        size_t n_events);

#define PT_FLOW_TIME_STEP   4096u

/**
 * struct pt_flow_options
 *
 * @returns:      RETs can be compressed
 * @keep_returns: only a compressed RET pops the stack of calls, as libipt
 *                has it; SDM 36.4.2.2: each near RET does
 * @trust_overflow: after an OVF the guest, its CR3 and mode are those before
 *                it, as libipt and perf have it.  Otherwise records begin again
 *                after the next PIP or PSB: the OVF can have been a VM exit
 * @bare:         there is no hypervisor: all is the guest, whatever PIP says;
 *                and none comes, if only user mode is traced
 * @modes:        a CR3 event also where the code has other bits.  Not for a
 *                guest in IA-32e mode, where each system call of a program of
 *                32 bits would have two
 * @linear:       addresses of 16-bit code are linear (CPUID 14H, ECX bit 31)
 * @tsc_per_ctc:  numerator and denominator, CPUID 15H EBX and EAX; 0: not
 *                known, MTC says nothing
 * @mtc_shift:    of RTIT_CTL: an MTC for each 2^n of the CTC
 * @bus_ratio:    of TSC and bus, MSR PLATFORM_INFO bits 8 to 15; 0: not known,
 *                CYC says nothing
 * @host_tsc:     what the hypervisor makes of the host's TSC for the guest; its
 *                @ratio is 0 if that is not known, and the TSCs of the host say
 *                nothing
 * @time_step:    of TSC: no two TIME events are closer; 0: PT_FLOW_TIME_STEP
 * @memory:       for blocks; 0: as usual
 */
struct pt_flow_options {
    bool returns;
    bool keep_returns;
    bool trust_overflow;
    bool bare;
    bool modes;
    bool linear;
    uint32_t tsc_per_ctc[2];
    unsigned mtc_shift;
    unsigned bus_ratio;
    struct kvm_tsc host_tsc;
    uint64_t time_step;
    size_t memory;
};

/**
 * struct pt_flow_count - what was done so far
 *
 * After pt_flow_finish(), @decoded, @skipped and @host are all bytes that were
 * fed.
 *
 * @decoded: bytes that say what the guest did
 * @skipped: bytes in gaps
 * @host:    bytes of the host
 * @records: that were given out
 * @dropped: that were made, and dropped as they were not sure
 * @exits:   VM exits
 * @gaps:    by reason
 */
struct pt_flow_count {
    uint64_t decoded;
    uint64_t skipped;
    uint64_t host;
    uint64_t records;
    uint64_t dropped;
    uint64_t exits;
    uint64_t gaps[PT_GAPS];
};

struct pt_flow;

struct pt_flow *pt_flow_new(const struct pt_flow_options *options,
                            pt_code_fn *code, void *code_opaque,
                            pt_flow_fn *give, void *give_opaque);
void pt_flow_free(struct pt_flow *f);

/* Bytes of the stream, cut anywhere */
void pt_flow_feed(struct pt_flow *f, const uint8_t *p, size_t n);

/* Between what was fed and what will be, bytes are missing. */
void pt_flow_missing(struct pt_flow *f);

/* Gives out what is sure; otherwise that happens from time to time. */
void pt_flow_give(struct pt_flow *f);

/* The stream ends here.  Gives out all that is left. */
void pt_flow_finish(struct pt_flow *f);

/* Records that were made, and not given yet */
unsigned pt_flow_held(const struct pt_flow *f);

/* The code of a page is no more what it was. */
void pt_flow_change(struct pt_flow *f, uint64_t cr3, uint64_t address);

const struct pt_flow_count *pt_flow_counted(const struct pt_flow *f);
/* Adds those of another flow. */
void pt_flow_add_counts(struct pt_flow_count *sum,
                        const struct pt_flow_count *c);

const struct linked_blocks_count *pt_flow_blocks(const struct pt_flow *f);

/* Words for a reason, such as "code-unreadable" */
const char *pt_gap_name(enum pt_gap gap);

#endif /* BTRAIL_FLOW_H */
