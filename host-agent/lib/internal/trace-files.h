/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * An open trace: what cursors need of it
 */

#ifndef BTRAIL_TRACE_FILES_H
#define BTRAIL_TRACE_FILES_H

#include "lib/internal/file.h"

/* NULL if there is none. */
const struct btrail_trace_stream *
btrail_trace_find_stream(const struct btrail_trace *trace, unsigned vcpu);

/*
 * Read the whole payload of a chunk, checked against its checksum.  @buf has
 * room for @entry->size bytes.  Errors: IO, CORRUPT.
 */
int btrail_trace_read_chunk(const struct btrail_trace *trace,
                            const struct btrail_index_entry *entry,
                            uint8_t *buf);

/*
 * Why records before the first chunk of a stream in the file of this chunk are
 * not there; 0 if they should be.
 */
uint16_t btrail_trace_begin(const struct btrail_trace *trace,
                            const struct btrail_index_entry *entry);

/* The files in the order of their parts; NULL if there is no such file. */
const struct btrail_file *btrail_trace_file(const struct btrail_trace *trace,
                                            unsigned n);

/* The SIDEBAND chunks of all files: of struct btrail_index_entry */
const GArray *btrail_trace_sidebands(const struct btrail_trace *trace);

/* The lists of address spaces that chunks switch to */
const struct btrail_roots *
btrail_trace_roots(const struct btrail_trace *trace,
                   const struct btrail_index_entry *entry);

/*
 * As btrail_merge(), while the files are being written to: nothing is missing
 * behind what they have, though they are not complete.
 */
int btrail_merge_running(const struct btrail_trace *trace, const char *out,
                         struct btrail_merge_result *result);

#endif /* BTRAIL_TRACE_FILES_H */
