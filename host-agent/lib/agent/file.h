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
 * @json:   UTF-8 without NUL, except the one after it
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
 * @header:  its header
 * @no_header: the header is damaged, and @header empty
 * @continued: the trace continues in the next part
 * @status:  its state when it was opened
 * @streams: of struct btrail_trace_stream, by vCPU; until a trace has them
 * @roots:   address spaces of their chunks, see btrail_roots_new()
 * @chunks:  number of META, DATA and SIDEBAND chunks, at most
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
    GArray *roots;
    unsigned chunks;
    GArray *metas;
    GArray *sideband;
};

/*
 * Opens a file.  @file owns @fd from here on, also on failure.  Reads the
 * index, or makes one by a scan if there is no sound one.  With @damaged, the
 * header can be damaged if something that is a trace follows it.  Errors: IO,
 * FORMAT, VERSION.
 */
int btrail_file_open(struct btrail_file **file, int fd, bool damaged);

/* Is this the file at @path? */
bool btrail_file_is(const struct btrail_file *file, const char *path);

/* Does not change errno. */
void btrail_file_close(struct btrail_file *file);

/*
 * Reads a DATA chunk to @payload and loads it, as btrail_unpacker_load() does.
 * A chunk that is not what its entry says is damaged, too.  Errors: IO,
 * CORRUPT, VERSION, MEMORY.
 */
int btrail_file_load_chunk(const struct btrail_file *file,
                           const struct btrail_index_entry *entry,
                           struct btrail_buf *payload,
                           struct btrail_unpacker *unpacker, bool events_only,
                           struct btrail_block_header *header);

/*
 * Which of @n addresses a DATA chunk may have run, by its footprint alone.  A
 * chunk that is damaged, or has none, may have run anything.
 */
enum btrail_ran btrail_file_ran(const struct btrail_file *file,
                                const struct btrail_index_entry *entry,
                                const uint64_t *addresses, size_t n);

/*
 * Reads a SIDEBAND chunk.  @info gets its description, @data its content, to be
 * freed with free(), and @payload, to be freed with g_free(), the chunk's own
 * bytes; either can be NULL.  Errors: IO, CORRUPT, MEMORY.
 */
int btrail_file_read_sideband(const struct btrail_file *file,
                              const struct btrail_index_entry *entry,
                              struct btrail_sideband_info *info,
                              void **data, uint8_t **payload);

/* An array of struct btrail_trace_stream, which frees what they have */
GArray *btrail_streams_new(void);

/* Finds a stream, or NULL; @place gets where it is or would be. */
struct btrail_trace_stream *btrail_find_stream(GArray *streams, unsigned vcpu,
                                               unsigned *place);

#endif /* BTRAIL_FILE_H */
