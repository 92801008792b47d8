/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traces to test readers with
 */

#ifndef BTRAIL_TRACE_SAMPLES_H
#define BTRAIL_TRACE_SAMPLES_H

#include <glib.h>

#include "backtrail/trace.h"

/*
 * A file name in a folder of its own; sample_remove() removes the folder with
 * all that is in it.
 */
char *sample_path(void);
void sample_remove(char *path);

/**
 * sample_write - a trace of two vCPUs, 0 and 3
 * @chunks: per vCPU, of 20 records each; record i of vCPU v goes from
 *          0x1000 * v + i to i, where i counts the lost ones too
 *
 * Each chunk begins with a TIME event of 1000000 * (number of chunk + 1) and
 * has a CR3 event to 0x1000 * (number of chunk + 1) in its middle.  The
 * second chunk begins with a GAP of 7 lost records.  The last one ends with
 * an END event.  A piece of description says {"sample": true}.
 */
void sample_write(const char *path, unsigned chunks);

/* The same with options, such as several parts */
void sample_write_with(const char *path, unsigned chunks,
                       const struct btrail_writer_options *options);

/* The same with a piece of sideband after each chunk of both vCPUs */
void sample_write_sideband(const char *path, unsigned chunks,
                           const struct btrail_writer_options *options);

/* Piece @i of it; @bytes has room for SAMPLE_SIDEBAND_MAX. */
#define SAMPLE_SIDEBAND_MAX     600
void sample_sideband(unsigned i, struct btrail_sideband_info *info,
                     uint8_t *bytes);

/**
 * struct sample_slabs - records of one vCPU
 * @records:   of all slabs, with instruction counts
 * @n_records: of each slab
 * @n:         how many slabs
 * @lost:      records that are missing in the middle
 * @counted:   TIME events, one for each slab, have the count, too
 * @in_chunk:  how many slabs make a chunk
 */
struct sample_slabs {
    struct btrail_record *records;
    unsigned n_records;
    unsigned n;
    unsigned lost;
    bool counted;
    unsigned in_chunk;
};

void sample_write_slabs(const char *path, const struct sample_slabs *s);

#define SAMPLE_CHUNK_RECORDS    20
#define SAMPLE_LOST             7

/* Where a stream ends */
struct sample_end {
    uint64_t index;
    uint64_t bad_chunks;
};

typedef void sample_seen(void *opaque, const struct btrail_batch *b);

/**
 * sample_walk - go through a stream of any trace
 * @seen: is handed every batch
 *
 * Checks that indices are without holes that no GAP event covers, and that the
 * end stays the end.  False if there is no such stream.
 */
bool sample_walk(struct btrail_trace *trace, unsigned vcpu, sample_seen *seen,
                 void *opaque, struct sample_end *end);

/* What reading a stream has given */
struct sample_stream {
    uint64_t records;
    uint64_t events;
    uint64_t synthetic;         /* GAP events made by the reader */
    uint64_t missing;           /* records in those */
    uint64_t lost;              /* records in all other GAP events */
    uint64_t elsewhere;         /* of these, those in files not opened */
    uint64_t end_index;
    uint64_t bad_chunks;
    bool ended;
};

/**
 * sample_read - read a stream of a sample, or of what is left of it
 *
 * Checks that each record is the one that its index says, and that CR3 and time
 * fit, beside what sample_walk() does.
 */
bool sample_read(struct btrail_trace *trace, unsigned vcpu,
                 struct sample_stream *s);

#endif /* BTRAIL_TRACE_SAMPLES_H */
