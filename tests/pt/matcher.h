/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Compares what somebody decodes with the truth, in order
 */
#ifndef MATCHER_H
#define MATCHER_H

#include "encode.h"

struct matcher {
    struct truth *t;
    const struct encoded *e;
    uint8_t *got;               /* of each record: was it said? */
    uint64_t determined;        /* of all records */
    uint64_t at;                /* the next one */
    unsigned place;             /* the next of @e->places */
    uint64_t right;
    uint64_t wrong;
    uint64_t extra;             /* right, but nobody can know it */
    uint64_t shown;             /* of the wrong ones: 0 without PT_SHOW */
};

void matcher_init(struct matcher *m, struct truth *t, const struct encoded *e);

/* One goes on, or begins, at the next place of this kind from @offset on. */
void matcher_at_place(struct matcher *m, enum encode_place_kind kind,
                      uint64_t offset);

/* One goes on at what is known from @offset on. */
void matcher_at_offset(struct matcher *m, uint64_t offset);

/*
 * One goes on with these records: where they all are, at or behind where it is
 * now, and not behind the next place after @offset.
 */
void matcher_search(struct matcher *m, uint64_t offset,
                    const struct btrail_record *r, size_t n);

void matcher_record(struct matcher *m, uint64_t from, uint64_t to);

/* How many records are determined that were not said */
uint64_t matcher_missing(const struct matcher *m);

/* Begins a line with what was said of how many; the rest is the judge's. */
void matcher_print(const struct matcher *m);

#endif
