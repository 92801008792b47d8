/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a session wants of what is captured
 *
 * A record is wanted if its vCPU is, its address space is, and one of its ends
 * is of the privilege that is wanted.
 */

#ifndef BTRAIL_SESSION_FILTER_H
#define BTRAIL_SESSION_FILTER_H

#include <glib.h>
#include <stdbool.h>

#include "backtrail/names.h"
#include "lib/internal/stream.h"

/**
 * struct btrail_session_filter - all zero wants everything
 * @vcpus:     that are wanted, @n_vcpus of them; 0 for all
 * @cr3s:      address spaces that are wanted, @n_cr3s of them; only the bits
 *             of BTRAIL_CR3_ROOT count
 * @processes: that are wanted, NULL-terminated or NULL: each the pid of one, in
 *             decimal, or the name (comm) of any number of them.  They are
 *             wanted from when a snapshot has found them, so names have to be
 *             looked for.  Only those with an address space of their own can
 *             be told apart; of threads of the kernel nothing is.
 *             With address spaces and processes, both are wanted.
 * @privilege: BTRAIL_PRIVILEGE_*; 0 for all.  Told by the half of the address
 *             space that an address is in: of the kernel from 2^63 on.  What
 *             is in the other half becomes a pseudo-address, see
 *             BTRAIL_PSEUDO_* in trace.h.  A session of user mode alone gets
 *             nothing that has an address of the kernel; one of the kernel
 *             alone no code of user mode.
 */
struct btrail_session_filter {
    const uint32_t *vcpus;
    unsigned n_vcpus;
    const uint64_t *cr3s;
    unsigned n_cr3s;
    const char *const *processes;
    uint32_t privilege;
};



/* The pseudo-address for a branch from user mode to @to, in the kernel */
typedef uint64_t btrail_entry_fn(void *opaque, unsigned vcpu, uint64_t cr3,
                                 uint64_t from, uint64_t to);

/*
 * Filtering: by one thread, but for what is said to be for any.
 */

struct btrail_filtering;

/* @filter is copied; @entry is called by btrail_filtering_slab(). */
struct btrail_filtering *
btrail_filtering_new(const struct btrail_session_filter *filter,
                     btrail_entry_fn *entry, void *opaque);
/* A branch goes to an address: are records kept? */
typedef bool btrail_gate_fn(void *opaque, uint64_t cr3, uint64_t to);

/* To be asked for each record, wanted or not, before the first slab */
void btrail_filtering_gate(struct btrail_filtering *f, btrail_gate_fn *gate,
                           void *opaque);

void btrail_filtering_free(struct btrail_filtering *f);

/* All records are wanted of the vCPUs that are. */
bool btrail_filtering_all(const struct btrail_filtering *f);
bool btrail_filtering_vcpu(const struct btrail_filtering *f, unsigned vcpu);
/* Is anything of this privilege? */
bool btrail_filtering_privilege(const struct btrail_filtering *f,
                                uint32_t privilege);
/* Are records of this address space? */
bool btrail_filtering_cr3(struct btrail_filtering *f, uint64_t cr3);
/* Only some address spaces are wanted, always the same. */
bool btrail_filtering_fixed_cr3s(const struct btrail_filtering *f);

/*
 * Learns from a snapshot which address spaces the wanted processes have.  Any
 * thread, one at a time
 */
void btrail_filtering_snapshot(struct btrail_filtering *f,
                           const struct btrail_snapshot *snapshot);

/**
 * struct btrail_mark - a place in the capture, and where it is in the session
 * @index:  of a record of the capture
 * @placed: gets the index of the first record of the session that is not
 *          before it
 */
struct btrail_mark {
    uint64_t index;
    uint64_t placed;
};

/**
 * struct btrail_filtered - the stream of a vCPU, as far as it was filtered
 * @index: in the session, of the next record
 * @checked: what is wanted of the last slab.  It is valid until the next one,
 *           of any vCPU.
 * @dropped: how many records of the last slab are not
 * @time:  the last TIME event, if it is still to be told
 * @gap:   that there was a GAP of unknown size just before, for this reason
 */
struct btrail_filtered {
    uint64_t index;
    struct btrail_checked_slab checked;
    uint64_t dropped;
    struct btrail_event time;
    uint16_t gap;
};

/**
 * btrail_filtering_slab - what is wanted of a slab
 * @v:          of its vCPU
 * @index:      in the capture, that the vCPU had come to before it
 * @gap_reason: for a hole before it that no GAP event explains
 * @marks:      @n_marks, in order; those that are not after the slab are placed
 *
 * How many of the records that are missing in the capture would have been
 * wanted is not known; so that is what the session's GAP events say.
 */
void btrail_filtering_slab(struct btrail_filtering *f, unsigned vcpu,
                           struct btrail_filtered *v,
                           const struct btrail_checked_slab *slab,
                           uint64_t index, uint16_t gap_reason,
                           struct btrail_mark *marks, size_t n_marks);

#endif /* BTRAIL_SESSION_FILTER_H */
