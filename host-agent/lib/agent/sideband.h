/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The payload of SIDEBAND chunks, which name what the addresses of records are
 */

#ifndef BTRAIL_SIDEBAND_H
#define BTRAIL_SIDEBAND_H

#include "backtrail/trace.h"
#include "lib/agent/bytes.h"

/* Kind, reserved, size and time come before the data. */
/* Of the data of BTRAIL_SIDEBAND_ENDED */
#define BTRAIL_SIDEBAND_ENDED_SIZE  8
#define BTRAIL_SIDEBAND_HEADER_SIZE     16
#define BTRAIL_SIDEBAND_MAX_PAYLOAD     (BTRAIL_SIDEBAND_HEADER_SIZE + \
                                         BTRAIL_SIDEBAND_MAX_SIZE)

/* Makes the payload from @info->size bytes of data. */
void btrail_sideband_pack(const struct btrail_sideband_info *info,
                          const void *data, struct btrail_buf *payload);

/*
 * Makes a payload of data that come in parts, and are never in memory as a
 * whole.  They are as @info says, except their size: at most
 * BTRAIL_SIDEBAND_MAX_SIZE.
 */
struct btrail_sideband_parts;
struct btrail_sideband_parts *
btrail_sideband_begin(const struct btrail_sideband_info *info);
void btrail_sideband_add(struct btrail_sideband_parts *parts,
                         const void *data, size_t size);

/* Frees @parts; @payload, which gets what they make, is the caller's. */
void btrail_sideband_end(struct btrail_sideband_parts *parts,
                         struct btrail_buf *payload);

/*
 * Gets the header of a payload of @len bytes, whose first
 * BTRAIL_SIDEBAND_HEADER_SIZE bytes are at @payload.  False if a payload of
 * this length cannot have this header.
 */
bool btrail_sideband_header_get(const uint8_t *payload, size_t len,
                                struct btrail_sideband_info *info);

/*
 * Gets the data, to be freed with free().  Errors: CORRUPT, MEMORY.
 */
int btrail_sideband_unpack(const uint8_t *payload, size_t len,
                           struct btrail_sideband_info *info, void **data);

/*
 * How many pieces of a trace have been read and are damaged; and notes that one
 * is, by what is in it
 */
uint64_t btrail_trace_sidebands_damaged(const struct btrail_trace *trace);
void btrail_trace_sideband_damaged(const struct btrail_trace *trace,
                                   unsigned i);

#endif /* BTRAIL_SIDEBAND_H */
