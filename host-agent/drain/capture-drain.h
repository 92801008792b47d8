/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Draining a producer's memory: slabs and code go to the sessions of a capture
 *
 * The capture's thread calls the functions.  One that fails sets @error, which
 * may be NULL: the producer has broken the protocol.
 */

#ifndef BTRAIL_CAPTURE_DRAIN_H
#define BTRAIL_CAPTURE_DRAIN_H

#include "drain/capture-names.h"
#include "drain/connection.h"

/**
 * struct capture_vcpu - how far a vCPU was drained
 * @tail:    the next slab, if @started
 * @started: @tail is set
 * @begun:   a slab with records was drained
 * @ended:   its END event was drained
 * @index:   of the next record
 * @code:    the next item of code
 * @kernel:  that runs, as far as events have said it
 * @time:    of the last TIME event, 0 if there was none
 * @nested_root: the last one of those that it named
 * @empty_at: when all that it had published was drained
 * @done:    what it did before was drained, as it has said
 * @paused_ns: how long it had waited for slabs, when drained last
 * @resumed: that it does not wait any more is in a slab before this one
 */
struct capture_vcpu {
    uint64_t tail;
    bool started;
    bool begun;
    bool ended;
    uint64_t index;
    uint64_t code;
    struct btrail_kernel kernel;
    uint64_t time;
    uint64_t nested_root;
    uint64_t empty_at;
    uint64_t done;
    uint64_t paused_ns;
    uint64_t resumed;
};

/**
 * struct capture_drain
 * @members, @names: that get what is drained
 * @vcpus:     connection->header.vcpus of them
 * @events:    a copy of those of the current slab
 * @new_code:  sources, by bit, of which code has run in a mapping that no
 *             snapshot has
 * @new_kernel_code: likewise, code that may be of a new module of the kernel
 * @drained:   the first slab was drained
 * @ended:     the producer has said END
 * @next_vcpu: the next one for capture_drain_little()
 * @records:   drained; atomic
 */
struct capture_drain {
    struct drain_connection *connection;
    struct capture_members *members;
    struct capture_names *names;
    struct capture_vcpu *vcpus;
    struct btrail_event *events;
    unsigned new_code;
    unsigned new_kernel_code;
    bool drained;
    bool ended;
    unsigned next_vcpu;
    uint64_t records;
};

/* Takes the connection over. */
void capture_drain_init(struct capture_drain *d,
                        struct drain_connection *connection,
                        struct capture_members *members,
                        struct capture_names *names);
void capture_drain_clear(struct capture_drain *d);

/* Is the policy to overwrite?  Then slabs are drained only at the end. */
static inline bool capture_drain_overwrites(const struct capture_drain *d)
{
    return d->connection->header.policy == BTRAIL_OVERFLOW_OVERWRITE;
}

/* Does the producer say when it has flushed? */
static inline bool capture_drain_says_done(const struct capture_drain *d)
{
    return d->connection->header.accepts & BTRAIL_ACCEPTS_FLUSH;
}

/*
 * All that the vCPU did before the time that this returns has been drained, if
 * the producer says when it has flushed.  What its vCPU holds back, for lack of
 * a slab or because the host does not run it, is later.
 */
uint64_t capture_drain_done(const struct capture_drain *d, unsigned vcpu);

/*
 * For other producers: has all been drained that the vCPU had published at
 * @time, and does it hold nothing back for lack of a slab?  That it has waited
 * for one must have been drained, too: the producer publishes nothing until it
 * can continue, and then it may take its time.
 */
bool capture_drain_was_empty(const struct capture_drain *d, unsigned vcpu,
                             uint64_t time);

/* Has the vCPU made records, or can it? */
bool capture_drain_is_traced(const struct capture_drain *d, unsigned vcpu);

/* Are there slabs that were not drained? */
bool capture_drain_heads_moved(const struct capture_drain *d);

/* Drains some slabs of each vCPU, or all published; @n grows by how many. */
bool capture_drain_slabs(struct capture_drain *d, bool all, unsigned *n,
                         GError **error);

/* Drains one slab, or some code if there is none; @n as above. */
bool capture_drain_little(struct capture_drain *d, unsigned *n,
                          GError **error);

/* Drains some of the code, or all of it; @n grows by how many items. */
bool capture_drain_code(struct capture_drain *d, bool all, unsigned *n,
                        GError **error);

/* Is a ring of code so full that draining it must not wait for a tick? */
bool capture_drain_code_urgent(const struct capture_drain *d);

/*
 * Reports what the producer has lost and has not said yet, as items up to index
 * 2^64 - 1; for the end of the capture
 */
void capture_drain_end_code(struct capture_drain *d);

#endif /* BTRAIL_CAPTURE_DRAIN_H */
