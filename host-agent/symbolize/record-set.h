/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A set of records of a trace: ranges of indices of each vCPU
 */

#ifndef BTRAIL_RECORD_SET_H
#define BTRAIL_RECORD_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct record_set;

struct record_set *record_set_new(void);
void record_set_free(struct record_set *s);

/* Adds records [@begin, @end) of a vCPU; they can be in the set already. */
void record_set_add(struct record_set *s, unsigned vcpu, uint64_t begin,
                    uint64_t end);

/* Ends the adding, before the first question.  Many threads can then ask. */
void record_set_seal(struct record_set *s);

/* Is a record in the set?  If not NULL, @until gets the first index after it
 * for which the answer is another one, or UINT64_MAX. */
bool record_set_has(const struct record_set *s, unsigned vcpu, uint64_t index,
                    uint64_t *until);

/* How many ranges the memory is used for */
size_t record_set_ranges(const struct record_set *s);

#endif /* BTRAIL_RECORD_SET_H */
