/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Marks in the code that the vCPUs of a capture execute now
 *
 * It learns the pages that each vCPU executes, as the capture gets them, and
 * remembers those with a mark that is wanted.  So it knows of a record whether
 * the code that made it, in its address space and at its time, is a mark.
 *
 * The guest chooses how many marks it has.  What has not been executed for the
 * longest time is forgotten: beyond 4096, contents of pages that have marks;
 * beyond 16384, places of such pages, in an address space and of a vCPU.
 */

#ifndef BTRAIL_MARKED_CODE_H
#define BTRAIL_MARKED_CODE_H

#include "backtrail/transport.h"
#include "lib/agent/budget.h"
#include "util/mark-wanted.h"
#include "util/mark.h"

struct marked_code;

/*
 * @wanted: @n of them, up to 64, which outlive the result; only their names
 * count here.
 */
struct marked_code *marked_code_new(const struct mark_wanted *wanted,
                                    unsigned n);
void marked_code_free(struct marked_code *c);

/*
 * Once, before what follows: what is kept is taken from a budget.  Without one
 * there is room for all that the tables can have.
 */
void marked_code_set_budget(struct marked_code *c,
                            struct btrail_budget *budget);

/*
 * Any thread: how many contents of pages have such a mark?  One that lies on
 * two pages counts when it is executed.
 */
unsigned marked_code_places(const struct marked_code *c, unsigned i);

/*
 * For one thread, from here on.  Takes an item of code; @page if it is of
 * BTRAIL_CODE_BYTES.  Returns whether one of @wanted has its first place.
 */
bool marked_code_item(struct marked_code *c, unsigned vcpu,
                      const struct btrail_code_item *item,
                      const uint8_t *page);

/*
 * Does a page have a content that has not come?  Other vCPUs' items may have
 * it.
 */
bool marked_code_lacks(const struct marked_code *c);

/**
 * struct marked_offsets - where in pages marks lead to, a bit for each
 */
struct marked_offsets {
    uint64_t bits[MARK_PAGE / 64];
};

/*
 * It is as old as the result of marked_code_new(), and may be read by the same
 * thread, for each record.
 */
const struct marked_offsets *marked_code_offsets(const struct marked_code *c);

static inline bool marked_offsets_has(const struct marked_offsets *o,
                                      uint64_t to)
{
    unsigned bit = to % MARK_PAGE;

    return o->bits[bit / 64] >> bit % 64 & 1;
}

/*
 * How often marks may have been missed: code was lost, or there was no room for
 * it.  It grows before the next record can be told from a mark.
 */
uint64_t marked_code_missed(const struct marked_code *c);

/*
 * Any thread: has it forgotten code of marks that are wanted?  Until the guest
 * changes that code, they are not found.
 */
bool marked_code_forgot(const struct marked_code *c);

/* Is a record of a vCPU among those whose code is lost?  Each counts. */
bool marked_code_lost(struct marked_code *c, unsigned vcpu, uint64_t index);

/*
 * Is the record with this index of a vCPU that of a mark that is wanted?  Index
 * by index; its items came before.
 */
bool marked_code_find(struct marked_code *c, unsigned vcpu, uint64_t index,
                      uint64_t cr3, uint64_t from, uint64_t to,
                      struct mark *mark);

#endif /* BTRAIL_MARKED_CODE_H */
