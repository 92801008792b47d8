/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The memory that may be used for what somebody else describes
 *
 * A few bytes of a trace can describe millions of mappings, symbols or spans.
 * What a reader keeps of them is taken from a budget in proportion to the size
 * of the files.  A guest fills a file with far more bytes for what is in it.
 * So is what is needed to decode streams that are read together, whose chunks
 * can be as small.
 *
 * What an agent keeps of a guest is taken from one budget for each capture,
 * whose size does not depend on the guest.
 */

#ifndef BTRAIL_BUDGET_H
#define BTRAIL_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* What each trace has, what it has more for each byte, and the most */
#define BTRAIL_BUDGET_LEAST     (UINT64_C(256) << 20)
#define BTRAIL_BUDGET_FACTOR    64
#define BTRAIL_BUDGET_MOST      (UINT64_C(2) << 30)
/* To decode, there is this at least, and no limit but the size. */
#define BTRAIL_BUDGET_DECODING  (UINT64_C(2) << 30)

/*
 * What an agent keeps of a guest, if nothing else is said; and what each thing
 * that is kept takes beside its own bytes: a place in a table, and the
 * allocator's
 */
#define BTRAIL_BUDGET_GUEST     (UINT64_C(64) << 20)
#define BTRAIL_BUDGET_ENTRY     64

/* Threads share it; it lives as long as anybody has a reference. */
struct btrail_budget;

/* For files of @size bytes together */
struct btrail_budget *btrail_budget_new(uint64_t size);
struct btrail_budget *btrail_budget_new_decoding(uint64_t size);

/* Of this many bytes, of which one of @spare_part is not for what is kept */
struct btrail_budget *btrail_budget_new_fixed(uint64_t bytes,
                                              unsigned spare_part);

struct btrail_budget *btrail_budget_ref(struct btrail_budget *budget);
void btrail_budget_unref(struct btrail_budget *budget);

/* Takes some bytes; false, and takes none, if there are fewer. */
bool btrail_budget_take(struct btrail_budget *budget, uint64_t bytes);

/* Gives bytes back that were taken. */
void btrail_budget_give(struct btrail_budget *budget, uint64_t bytes);

/*
 * The same for a thing of some bytes, and its entry, that is kept until it is
 * dropped.  What is spare stays: for what is on its way, to a file as a rule
 */
bool btrail_budget_keep(struct btrail_budget *budget, uint64_t bytes);
void btrail_budget_drop(struct btrail_budget *budget, uint64_t bytes);

/* All bytes, those that are left, and how often there were not enough */
uint64_t btrail_budget_size(const struct btrail_budget *budget);
uint64_t btrail_budget_left(const struct btrail_budget *budget);
uint64_t btrail_budget_refused(const struct btrail_budget *budget);

#endif /* BTRAIL_BUDGET_H */
