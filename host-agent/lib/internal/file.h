/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A file that is read: its index, its streams and its description
 */

#ifndef BTRAIL_FILE_H
#define BTRAIL_FILE_H

#include <glib.h>

#include "backtrail/trace.h"
#include "lib/internal/index.h"

/* More pieces of description than any writer makes. */
#define BTRAIL_MAX_METAS    64

/**
 * struct btrail_trace_stream - a stream, or what a file has of it
 * @chunks: of struct btrail_index_entry, in order; indices never go back
 */
struct btrail_trace_stream {
    unsigned vcpu;
    GArray *chunks;
};

/**
 * struct btrail_meta - a piece of description
 * @json:   UTF-8 without NUL, but for the one behind it
 * @length: without that
 * @offset: of its chunk in the file
 */
struct btrail_meta {
    char *json;
    size_t length;
    uint64_t offset;
};

/**
 * struct btrail_file - an open file
 * @size:    when it was opened; it may have changed since
 * @header:  what it tells of itself
 * @no_header: it is damaged, and @header empty
 * @continued: the trace goes on in the next part
 * @status:  the state that it was found in
 * @streams: of struct btrail_trace_stream, by vCPU; until a trace has them
 * @roots:   of their chunks
 * @chunks:  META, DATA and SIDEBAND chunks taken in, at most
 *           BTRAIL_MAX_CHUNKS
 * @metas:   of struct btrail_meta
 * @sideband: of struct btrail_index_entry
 */
struct btrail_file {
    int fd;
    uint64_t size;
    struct btrail_file_header header;
    bool no_header;
    bool continued;
    struct btrail_trace_status status;
    GArray *streams;
    struct btrail_roots roots;
    unsigned chunks;
    GArray *metas;
    GArray *sideband;
};

/*
 * Open a file, which @file owns from here on, also on failure.  The index is
 * read, or made by a scan if there is no sound one.  Errors: IO, FORMAT,
 * VERSION.
 */
int btrail_file_open(struct btrail_file **file, int fd);

/*
 * The same, but open a file with a damaged header, too, if something that is
 * a trace follows it.
 */
int btrail_file_open_damaged(struct btrail_file **file, int fd);

void btrail_file_close(struct btrail_file *file);

/*
 * Read the whole payload of a chunk, checked against its checksum.  @buf has
 * room for @entry->size bytes.  Errors: IO, CORRUPT.
 */
int btrail_file_read_chunk(const struct btrail_file *file,
                           const struct btrail_index_entry *entry,
                           uint8_t *buf);

/*
 * Read a SIDEBAND chunk.  @info gets what it is, @data what is in it, to be
 * freed with free(), and @payload, which is freed with g_free(), the chunk's
 * own bytes; either can be NULL.  Errors: IO, CORRUPT, MEMORY.
 */
int btrail_file_read_sideband(const struct btrail_file *file,
                              const struct btrail_index_entry *entry,
                              struct btrail_sideband_info *info,
                              void **data, uint8_t **payload);

/* An array of struct btrail_trace_stream, which frees what they have */
GArray *btrail_streams_new(void);

/* NULL if there is none in @streams; @place gets where it would be. */
struct btrail_trace_stream *btrail_find_stream(GArray *streams, unsigned vcpu,
                                               unsigned *place);

#endif /* BTRAIL_FILE_H */
