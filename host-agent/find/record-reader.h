/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records by their indices
 *
 * Rows of several vCPUs need a record each, in the order of time.  A reader
 * keeps where it is on each vCPU, so that records of a vCPU that come in order
 * are read in one pass over the chunks that have them; others are as quick as
 * a seek.
 */

#ifndef BTRAIL_RECORD_READER_H
#define BTRAIL_RECORD_READER_H

#include "find/visits.h"

struct record_reader;

/* @trace outlives the result. */
struct record_reader *record_reader_new(const struct btrail_trace *trace);
void record_reader_free(struct record_reader *r);

/*
 * Reads the record with an index; no address is wanted, so that of @visit is 0.
 * Errors: those of the library; END: there is no such record.
 */
int record_reader_at(struct record_reader *r, unsigned vcpu, uint64_t index,
                     struct visit *visit);

/* The same of one record alone */
int record_read(const struct btrail_trace *trace, unsigned vcpu,
                uint64_t index, struct visit *visit);

#endif /* BTRAIL_RECORD_READER_H */
