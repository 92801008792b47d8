/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The filter of a session: which records of the capture it wants
 *
 * A record is wanted if its vCPU and its address space are, and one of its ends
 * has a privilege that is wanted.
 */

#ifndef BTRAIL_SESSION_FILTER_H
#define BTRAIL_SESSION_FILTER_H

#include <glib.h>
#include <stdbool.h>

#include "backtrail/names.h"
#include "lib/agent/stream.h"

/**
 * struct session_filter - all zero wants everything
 * @vcpus:     that are wanted, @n_vcpus of them; 0 for all
 * @cr3s:      address spaces that are wanted, @n_cr3s of them, as
 *             btrail_cr3_is() names them
 * @processes: that are wanted, NULL-terminated or NULL: each the pid of one, in
 *             decimal, or the name (comm) of any number of them.  They are
 *             wanted from when a snapshot has found them, so the guest must be
 *             scanned.  Only processes with an address space of their own
 *             can be distinguished, so threads of the kernel are not wanted.
 *             With address spaces and processes, both are wanted.
 * @privilege: BTRAIL_PRIVILEGE_*; 0 for all.  An address is of the kernel
 *             from 2^63 on.  An address that is not wanted becomes a
 *             pseudo-address, see BTRAIL_PSEUDO_* in trace.h.  A session of
 *             only user mode gets nothing that has an address of the kernel;
 *             one of only the kernel gets no code of user mode.
 */
struct session_filter {
    const uint32_t *vcpus;
    unsigned n_vcpus;
    const uint64_t *cr3s;
    unsigned n_cr3s;
    const char *const *processes;
    uint32_t privilege;
};

/* Frees copies of the arrays and strings that it points to. */
void session_filter_clear(struct session_filter *f);

/* The pseudo-address for a branch from user mode to @to, in the kernel */
typedef uint64_t entry_fn(void *opaque, unsigned vcpu, uint64_t cr3,
                          uint64_t from, uint64_t to);

/*
 * Filtering.  One thread calls the functions, if nothing else is said.
 */

struct filtering;

/* @filter is copied; @entry is called by filtering_slab(). */
struct filtering *
filtering_new(const struct session_filter *filter,
              entry_fn *entry, void *opaque);

/**
 * struct gate - what sees all of a capture, wanted or not
 * @record: is the record of this branch kept?  @index: in the capture
 * @event:  TIME, TASK and GAP, or NULL
 * @lost:   records of a vCPU are missing, of which no GAP event says so; with
 *          @event
 */
struct gate {
    bool (*record)(void *opaque, unsigned vcpu, uint64_t index, uint64_t cr3,
                   uint64_t from, uint64_t to);
    void (*event)(void *opaque, unsigned vcpu,
                  const struct btrail_event *event);
    void (*lost)(void *opaque, unsigned vcpu);
    void *opaque;
};

/* Before the first slab; @gate is copied. */
void filtering_gate(struct filtering *f,
                    const struct gate *gate);

void filtering_free(struct filtering *f);

/* Are all records of the wanted vCPUs wanted? */
bool filtering_all(const struct filtering *f);
bool filtering_vcpu(const struct filtering *f, unsigned vcpu);
/* Is anything of this privilege wanted? */
bool filtering_privilege(const struct filtering *f,
                         uint32_t privilege);
/* Are records of this address space wanted? */
bool filtering_cr3(struct filtering *f, uint64_t cr3);
/* Are some address spaces wanted, and always the same ones? */
bool filtering_fixed_cr3s(const struct filtering *f);

/*
 * Learns from a snapshot which address spaces the wanted processes have.  Any
 * thread, one at a time
 */
void filtering_snapshot(struct filtering *f,
                        const struct btrail_snapshot *snapshot);

/* Has a snapshot had number @i of the wanted processes?  Any thread */
bool filtering_has_found(struct filtering *f, unsigned i);

/**
 * struct filter_mark - a position in the capture, and in the session
 * @index:  of a record of the capture
 * @placed: gets the session's index of the first record that is not before it
 */
struct filter_mark {
    uint64_t index;
    uint64_t placed;
};

/**
 * struct filtered - the filtered stream of a vCPU
 * @index: in the session, of the next record
 * @checked: what is wanted of the last slab.  It is valid until the next one,
 *           of any vCPU.
 * @dropped: how many records of the last slab are not wanted
 * @time:  the last TIME event, if it was not added yet
 * @task:  the last TASK event
 * @named: the last one that was added to the slab; type 0: none
 * @kernel: the last KERNEL event, which ends @task
 * @left:  why the task that was added last has left (BTRAIL_TASK_LEFT), if
 *         @switched: another one runs since then
 * @kept:  the last record before was wanted
 * @named_kernel: it was added to the slab
 * @gap:   the reason of a GAP of unknown size just before; 0 if there is none
 */
struct filtered {
    uint64_t index;
    struct btrail_checked_slab checked;
    uint64_t dropped;
    struct btrail_event time;
    struct btrail_event task;
    struct btrail_event named;
    uint16_t left;
    bool switched;
    bool kept;
    struct btrail_event kernel;
    bool named_kernel;
    uint16_t gap;
};

/**
 * filtering_slab - filter a slab
 * @v:          of its vCPU
 * @index:      in the capture, of the vCPU's next record before the slab
 * @gap_reason: for a hole before it that no GAP event explains
 * @marks:      @n_marks, in order; those that are not after the slab are placed
 *
 * It is not known how many of the records that the capture has lost would have
 * been wanted, so the GAP events of the session have an unknown number.
 */
void filtering_slab(struct filtering *f, unsigned vcpu,
                    struct filtered *v,
                    const struct btrail_checked_slab *slab,
                    uint64_t index, uint16_t gap_reason,
                    struct filter_mark *marks, size_t n_marks);

#endif /* BTRAIL_SESSION_FILTER_H */
