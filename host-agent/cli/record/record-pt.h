/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that is traced by Intel PT, of whose last moments traces are written
 *
 * Errors are printed.
 */

#ifndef BTRAIL_CLI_RECORD_PT_H
#define BTRAIL_CLI_RECORD_PT_H

#include "cli/record/pt-guest.h"
#include "cli/record/record.h"

struct pt_recording;

/**
 * pt_recording_begin - find the guest, and trace it from now on
 * @options: must outlive it; what is written is as they say at that time
 *
 * Returns NULL after an error.
 */
struct pt_recording *pt_recording_begin(const struct record_request *options);
void pt_recording_free(struct pt_recording *r);

struct pt_guest *pt_recording_guest(struct pt_recording *r);

/**
 * struct pt_written - of a trace
 * @records: in it
 * @bytes:   of its file
 */
struct pt_written {
    uint64_t records;
    uint64_t bytes;
};

/**
 * pt_recording_write - stop the guest, unless it stands, and write a trace of
 * what it did last
 * @cancel_fd: ends the decoding when it is readable or hung up; so does a
 *             signal.  The trace is complete then
 * @written:   what there is of it then; NULL: not asked
 *
 * The guest goes on, traced again, if it was stopped here.  Returns an exit
 * code.
 */
int pt_recording_write(struct pt_recording *r, int cancel_fd,
                       struct pt_written *written);

#endif /* BTRAIL_CLI_RECORD_PT_H */
