/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counting the edges of a whole trace in groups, with several threads
 *
 * Each thread counts into a part of its own.  A part that is full is added to
 * the sum, and so is each part at the end.
 */

#ifndef BTRAIL_FOLD_H
#define BTRAIL_FOLD_H

#include <glib.h>

#include "analyze/edges.h"

/* A group begins with this; then comes its key, and then its other data. */
struct fold_group {
    struct edges *edges;
};

/**
 * struct fold_kind - the groups of an analysis
 * @size:  of a group
 * @key:   size of the part of it that ends with the key
 * @merge: adds the other data of a group to that of another, whose edges are
 *         not merged yet; can be NULL
 * @flush: takes what the sum has counted, which is forgotten then; called
 *         under the lock when there is no room for more.  Can be NULL
 * @exact: stop when the sum reaches a limit; otherwise, and without @flush,
 *         count together what is beyond it
 */
struct fold;
struct fold_kind {
    size_t size;
    size_t key;
    GHashFunc hash;
    GEqualFunc equal;
    void (*merge)(struct fold_group *to, const struct fold_group *from);
    void (*flush)(struct fold *f);
    bool exact;
};

/**
 * struct fold_limits - how much memory a trace may make us use
 * @groups: number of groups
 * @edges:  number of different edges in all groups, at least 1
 */
struct fold_limits {
    size_t groups;
    size_t edges;
};

/**
 * struct fold_sums
 * @records: number of records that were counted
 * @others:  records among them that are in no group; a user may count more
 * @lost:    lost records, as far as GAP events say
 * @lost_unknown: more records were lost
 * @damage:  as of btrail_cursor_damage()
 */
struct fold_sums {
    uint64_t records;
    uint64_t others;
    uint64_t lost;
    bool lost_unknown;
    uint64_t damage;
};

/**
 * struct fold_part - what one thread has counted, or all of them
 * @full: the sum has reached a limit; set for an exact kind alone
 * @hole: records are missing in the piece that is counted
 */
struct fold_part {
    const struct fold_kind *kind;
    struct fold_limits limits;
    struct fold_sums sums;
    bool full;
    bool hole;
    GHashTable *groups;         /* of struct fold_group */
    struct fold_group *last;
    size_t edges_left;
};

/**
 * struct fold
 * @lock:  protects @sum while there are parts; users can protect more with it
 * @parts: one for each thread; NULL if one thread counts into @sum
 */
struct fold {
    GMutex lock;
    struct fold_part sum;
    struct fold_part *parts;
};

void fold_init(struct fold *f, const struct fold_kind *kind,
               const struct fold_limits *limits);
void fold_clear(struct fold *f);

/* Forgets what was counted. */
void fold_reset(struct fold *f);

/**
 * fold_trace - decode all streams
 * @ordered: have one thread at a time call @fn, in the order of the streams;
 *           the others decode
 * @fn:      calls fold_take(), and fold_count() with the records
 *
 * Returns as btrail_parallel_decode(); FOLD_FULL if the limits of an exact
 * kind do not suffice.
 */
#define FOLD_FULL   1
int fold_trace(struct fold *f, const struct btrail_trace *trace,
               unsigned threads, bool ordered, btrail_parallel_fn *fn,
               void *opaque);

/*
 * Counts damage and GAP events.  Returns the part that counts the records of
 * @b; NULL if @b has none.
 */
struct fold_part *fold_take(struct fold *f, const struct btrail_piece *piece,
                            const struct btrail_batch *b);

/**
 * fold_count - count some of @n records
 * @key:   a group with this key, the rest of which is not used
 * @group: gets the group; NULL if there are too many
 *
 * Returns how many records were counted, at least 1.  If @part is full
 * afterwards, @fn returns FOLD_FULL.
 */
size_t fold_count(struct fold *f, struct fold_part *part,
                  const struct fold_group *key,
                  const struct btrail_record *records, size_t n,
                  struct fold_group **group);

#endif /* BTRAIL_FOLD_H */
