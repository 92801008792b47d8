/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Slices of a timeline: all of them, or the longest ones that there is room for
 *
 * With a limit, slices are kept in memory up to the end.  Each time there is no
 * room for one more, those that are shorter than some more time than before are
 * left out.  What is left out is within what stays: a slice is as long as all that it
 * is around.
 */

#ifndef BTRAIL_CLI_SLICES_H
#define BTRAIL_CLI_SLICES_H

#include "cli/export/perfetto.h"

struct timeline_slices;

/* @out: outlives the result; @limit: bytes that may be written to it in all, or
 * 0 */
struct timeline_slices *slices_new(struct perfetto *out, uint64_t limit);
void slices_free(struct timeline_slices *s);

/*
 * A slice of a track begins, or the innermost one ends; or something has
 * happened there.  Events of one track come in the order of their times.
 * @value: an argument; NULL if there is none
 */
void slices_begin(struct timeline_slices *s, uint64_t track, uint64_t time,
                  const char *name, const uint64_t *value);
void slices_end(struct timeline_slices *s, uint64_t track, uint64_t time);
void slices_instant(struct timeline_slices *s, uint64_t track, uint64_t time,
                    const char *name, const uint64_t *value);

/**
 * struct slices_sums
 * @slices:    that have ended
 * @left_out:  of these, how many were, since they are shorter than @shortest
 * @instants:  that had no room
 * @begin, @end: of all, also of those that were left out; 0 if there are none
 */
struct slices_sums {
    uint64_t slices;
    uint64_t left_out;
    uint64_t shortest;
    uint64_t instants;
    uint64_t begin;
    uint64_t end;
};

/* Writes all that is in memory.  @reserve: bytes that are written later */
struct slices_sums slices_write(struct timeline_slices *s, uint64_t reserve);

#endif /* BTRAIL_CLI_SLICES_H */
