/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Marks that the guest leaves, found in a capture's records as they come
 *
 * A value is in the records after its mark.  It is followed through interrupts
 * of its thread, on its vCPU.  It is not known, and meets no condition, if
 * records are missing in its middle, or if another thread runs there before its
 * end: the first one may continue elsewhere, on a vCPU whose records may have
 * come before.  In a guest with one vCPU that cannot be.
 */

#ifndef BTRAIL_MARK_HITS_H
#define BTRAIL_MARK_HITS_H

#include "drain/marked-code.h"

struct mark_hits;

/*
 * Called when there is number @i of what is wanted, on a vCPU and in this
 * address space: at the record of the mark or, with a condition, at the last
 * one of its value.  Of one mark, a smaller number comes first
 */
typedef void mark_hit_fn(void *opaque, unsigned i, unsigned vcpu, uint64_t cr3);

/* @wanted: copied; @n of them, up to 64 */
struct mark_hits *mark_hits_new(const struct mark_wanted *wanted, unsigned n,
                                mark_hit_fn *hit, void *opaque);
void mark_hits_free(struct mark_hits *h);

/* Before all that follows: how many vCPUs the guest can have */
void mark_hits_set_vcpus(struct mark_hits *h, unsigned vcpus);

/* See marked_code_set_budget(). */
void mark_hits_set_budget(struct mark_hits *h, struct btrail_budget *budget);

/* See marked_code_places().  Any thread */
unsigned mark_hits_places(const struct mark_hits *h, unsigned i);

/* See marked-code.h. */
bool mark_hits_code(struct mark_hits *h, unsigned vcpu,
                    const struct btrail_code_item *item, const uint8_t *page);
bool mark_hits_lack_code(const struct mark_hits *h);

/* marked_code_missed(), and for any thread marked_code_forgot() */
uint64_t mark_hits_missed(const struct mark_hits *h);
bool mark_hits_forgot(const struct mark_hits *h);

/* Each record, in the order of its vCPU */
void mark_hits_record(struct mark_hits *h, unsigned vcpu, uint64_t index,
                      uint64_t cr3, uint64_t from, uint64_t to);

/* TASK and GAP count. */
void mark_hits_event(struct mark_hits *h, unsigned vcpu,
                     const struct btrail_event *event);

/* Records of the vCPU are missing. */
void mark_hits_lost(struct mark_hits *h, unsigned vcpu);

#endif /* BTRAIL_MARK_HITS_H */
